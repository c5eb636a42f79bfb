"""Tables of SONiC's configuration database as text: one row a line, rows that recur are encoded once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["Rows", "row", "table", "tables"]

Rows = Iterable[tuple[str, str]]  # key and encoded row


@lru_cache(maxsize=256)  # rows that name a neighbour never recur
def row(*fields: str) -> str:
    """The fields as JSON, given as key, value, key, value."""
    return json.dumps(dict(zip(fields[::2], fields[1::2], strict=True)))


def table(name: str, rows: Rows) -> str:
    """One table; empty if it has no rows."""
    lines = ",\n".join([f'    "{key}": {encoded}' for key, encoded in rows])
    return f'  "{name}": {{\n{lines}\n  }}' if lines else ""


def tables(parts: Iterable[str]) -> str:
    """The whole database."""
    return "{\n" + ",\n".join(part for part in parts if part) + "\n}\n"
