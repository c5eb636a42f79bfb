"""Tables of columns in JSON, read strictly: every wrong key, length and value is named with its place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.document.encode import Plain
from gpuyard.errors import Problem, nearest, one_of

__all__ = ["ATTRIBUTES", "INDEX", "NUMBER", "TEXT", "WHOLE", "Column", "Kind", "Reader", "Values", "table_of"]

Values = list[Any]  # of one column; their kind was tested, which a type checker cannot follow


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the values of a column are: in words, and as a test."""

    words: str
    fits: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_whole(value: object) -> bool:
    return type(value) is int


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def _is_texts(value: object) -> bool:
    return type(value) is dict and all(type(text) is str for text in value.values())


TEXT = Kind(words="a text", fits=_is_text)
WHOLE = Kind(words="a whole number", fits=_is_whole)
INDEX = Kind(words="an index", fits=_is_whole)
NUMBER = Kind(words="a number", fits=_is_number)
ATTRIBUTES = Kind(words='texts by name such as {"rack": "A1"}', fits=_is_texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind
    optional: bool = False  # a value may be null, and the column may be left out
    into: str = ""  # of an index: the table that it points into


class Reader:
    """One pass over a saved value, gathering problems as it goes."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []
        self.sizes: dict[str, int] = {}  # lengths of the lists and tables read so far, by their places

    def wrong(self, place: str, what: str, fix: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(where=f"{self.where}: {place}" if place else self.where, what=what, fix=fix))

    def record(
        self, data: object, keys: Sequence[str], optional: Sequence[str], place: str = "", what: str = "a table"
    ) -> dict[str, object]:
        """The mapping, after its keys were compared with those that it may and must have."""
        if type(data) is not dict:
            self.wrong(place, f"expected {what}, got {_shown(data)}", f"write keys and values: {one_of(keys)}")
            return {}
        for key in (key for key in data if key not in keys):
            meant = nearest(key, keys)
            fix = f'did you mean "{meant}"?' if meant else f"use {one_of(keys)}, or remove it"
            self.wrong(place, f"unknown key {_shown(key)}", fix)
        for key in keys:
            if key not in data and key not in optional:
                self.wrong(place, f'"{key}" is missing', f'add "{key}"')
        return data

    def items(self, data: object, place: str) -> Values:
        """The list; an empty one if it is none."""
        if type(data) is list:
            self.sizes[place] = len(data)
            return data
        self.wrong(place, f"expected a list, got {_shown(data)}", "write [a, b, …]")
        return []

    def table(self, data: object, columns: Sequence[Column], place: str) -> list[Values]:
        """The columns in their order, all of one length."""
        optional = [column.name for column in columns if column.optional]
        fields = self.record(data, [column.name for column in columns], optional, place)
        read = {
            column.name: self.column(fields[column.name], column, f"{place}.{column.name}")
            for column in columns
            if column.name in fields
        }
        lead = columns[0].name
        length = len(read.get(lead, ()))
        if type(fields.get(lead)) is list:
            self.sizes[place] = length
            for name, values in read.items():
                if len(values) != length and type(fields[name]) is list:
                    self.wrong(f"{place}.{name}", f"holds {len(values)} values, and {lead} holds {length}",
                               "give every column of the table the same length")  # fmt: skip
        return [read.get(column.name, [None] * length) for column in columns]

    def column(self, data: object, column: Column, place: str) -> Values:
        """The values of one column, each tested."""
        values = self.items(data, place)
        fits, optional = column.kind.fits, column.optional
        size = self.sizes.get(column.into)  # None if that table could not be read, which is told already
        for index, value in enumerate(values):
            if not fits(value) and not (optional and value is None):
                null = " or null" if optional else ""
                self.wrong(f"{place}[{index}]", f"expected {column.kind.words}{null}, got {_shown(value)}",
                           f"write {column.kind.words}{null}")  # fmt: skip
            elif size is not None and value is not None and not 0 <= value < size:
                self.wrong(f"{place}[{index}]", f"{_shown(value)} points outside {column.into}, which holds {size}",
                           f"write 0 to {size - 1}" if size else f"fill {column.into} first")  # fmt: skip
        return values


def _shown(value: object) -> str:
    """A value as it may stand in a message: short, on one line."""
    if isinstance(value, dict | list):
        return "keys and values" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > 10**40:
        return "a huge number"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"


def table_of(columns: Sequence[Column], rows: Sequence[tuple[Plain, ...]]) -> Plain:
    """Rows as columns; an optional column without a value is left out."""
    lists: list[list[Plain]] = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in columns]
    return {
        column.name: values
        for column, values in zip(columns, lists, strict=True)
        if not (column.optional and all(value is None for value in values))
    }
