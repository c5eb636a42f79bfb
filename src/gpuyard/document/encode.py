"""Frozen values to JSON text and back."""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing
from pathlib import Path

from gpuyard.document.decode import decode
from gpuyard.document.field_types import Keys
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.document.read import MAX_BYTES, read_json, read_text

T = typing.TypeVar("T")


def plain(value: object) -> Plain:
    """Return the value as dictionaries, lists and scalars, without fields that are None."""
    if isinstance(value, FrozenJson):
        return value.plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = (
            (field, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init
        )
        return {
            field.name: _by_name(item) if field.metadata.get("by_name") else plain(item)
            for field, item in pairs
            if item is not None
        }
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _by_name(rows: tuple[typing.Any, ...]) -> Plain:
    """Named records as a mapping from name to the other fields."""
    fields = [typing.cast("dict[str, Plain]", plain(row)) for row in rows]
    return {str(row.pop("name")): row for row in fields}


def dump_json(value: object) -> str:
    """Return the value as JSON text; equal values produce equal bytes."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_json(text: str, record: type[T], file: str = "<json>") -> T:
    """Return the value that `dump_json` wrote."""
    return decode(read_json(text, file).root, record, Keys.SUFFIXED)


def load_json_file(path: Path, record: type[T], max_bytes: int = MAX_BYTES) -> T:
    """Return the value in a file that `dump_json` wrote.

    Raises InputError if there is no such file or it is damaged, ExternalError if it is unreadable.
    """
    return load_json(read_text(path, max_bytes), record, str(path))
