"""Tables of SONiC's configuration database as text, one row per line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

Rows = Iterable[tuple[str, str]]  # key and encoded row


@lru_cache(maxsize=256)  # most rows repeat; those that name a neighbour do not
def row(*fields: str) -> str:
    """Return fields (key, value, key, value) as JSON."""
    return json.dumps(dict(zip(fields[::2], fields[1::2], strict=True)))


def table(name: str, rows: Rows) -> str:
    """Return a table as text; empty without rows."""
    lines = ",\n".join([f'    "{key}": {encoded}' for key, encoded in rows])
    return f'  "{name}": {{\n{lines}\n  }}' if lines else ""


def tables(parts: Iterable[str]) -> str:
    """Return the database as text."""
    return "{\n" + ",\n".join(part for part in parts if part) + "\n}\n"
