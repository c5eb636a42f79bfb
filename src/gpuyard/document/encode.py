"""Frozen values to JSON and back: what one command saves, the next reads."""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing

from gpuyard.document.decode import decode
from gpuyard.document.read import read_json
from gpuyard.document.settings import Plain, Settings
from gpuyard.document.shape import Keys

__all__ = ["Plain", "dump_json", "load_json", "plain"]

T = typing.TypeVar("T")


def plain(value: object) -> Plain:
    """The value as dictionaries, lists and scalars; fields that are None are left out."""
    if isinstance(value, Settings):
        return value.plain()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init)
        return {name: plain(item) for name, item in pairs if item is not None}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON form")


def dump_json(value: object) -> str:
    """The value as JSON text; the same value gives the same bytes."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def load_json(text: str, record: type[T], file: str = "<json>") -> T:
    """The value that `dump_json` wrote."""
    return decode(read_json(text, file).root, record, Keys.SUFFIXED)
