"""Columnar JSON tables, read strictly: every wrong key, length and value with its place."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Problem, choices_text, closest_match

Values = list[Any]  # one column; its values were checked at run time


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The type of a column's values: its name in messages, and its test."""

    words: str
    fits: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def _is_texts(value: object) -> bool:
    return type(value) is dict and all(type(text) is str for text in value.values())


TEXT = Kind(words="a string", fits=_is_text)
INTEGER = Kind(words="an integer", fits=_is_integer)
INDEX = Kind(words="an index", fits=_is_integer)
NUMBER = Kind(words="a number", fits=_is_number)
ATTRIBUTES = Kind(words='strings by name such as {"rack": "A1"}', fits=_is_texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedColumn:
    """One column of a table."""

    name: str
    kind: Kind
    optional: bool = False  # values may be null, and the column may be missing
    into: str = ""  # the table that an index points into


class TableReader:
    """Reads one saved value and collects its problems."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: list[Problem] = []
        self.sizes: dict[str, int] = {}  # of the lists and tables read so far, by place

    def wrong(self, place: str, what: str, fix: str) -> None:
        self.problems.append(
            Problem(where=f"{self.where}: {place}" if place else self.where, what=what, fix=fix)
        )

    def record(
        self,
        data: object,
        keys: Sequence[str],
        optional: Sequence[str],
        place: str = "",
        what: str = "a table",
    ) -> dict[str, object]:
        """Return the mapping after checking its keys."""
        if type(data) is not dict:
            self.wrong(
                place,
                f"expected {what}, got {_shown(data)}",
                f"write keys and values: {choices_text(keys)}",
            )
            return {}
        for key in (key for key in data if key not in keys):
            meant = closest_match(key, keys)
            fix = f'did you mean "{meant}"?' if meant else f"use {choices_text(keys)}, or remove it"
            self.wrong(place, f"unknown key {_shown(key)}", fix)
        for key in keys:
            if key not in data and key not in optional:
                self.wrong(place, f'"{key}" is missing', f'add "{key}"')
        return data

    def items(self, data: object, place: str) -> Values:
        """Return the list, or an empty one after noting that the value is no list."""
        if type(data) is list:
            self.sizes[place] = len(data)
            return data
        self.wrong(place, f"expected a list, got {_shown(data)}", "write [a, b, …]")
        return []

    def table(self, data: object, columns: Sequence[SavedColumn], place: str) -> list[Values]:
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
                    self.wrong(
                        f"{place}.{name}",
                        f"has {len(values)} values, and {lead} has {length}",
                        "make all columns of the table equally long",
                    )
        return [read.get(column.name, [None] * length) for column in columns]

    def column(self, data: object, column: SavedColumn, place: str) -> Values:
        values = self.items(data, place)
        fits, optional = column.kind.fits, column.optional
        size = self.sizes.get(column.into)  # None if reading that table failed
        for index, value in enumerate(values):
            if not fits(value) and not (optional and value is None):
                null = " or null" if optional else ""
                self.wrong(
                    f"{place}[{index}]",
                    f"expected {column.kind.words}{null}, got {_shown(value)}",
                    f"write {column.kind.words}{null}",
                )
            elif size is not None and value is not None and not 0 <= value < size:
                self.wrong(
                    f"{place}[{index}]",
                    f"{_shown(value)} is out of range for {column.into} (length {size})",
                    f"write 0 to {size - 1}" if size else f"fill {column.into} first",
                )
        return values


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "keys and values" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > 10**40:
        return "a huge number"
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:59] + "…"


def dump_compact(data: Mapping[str, Plain]) -> str:
    """Return a value as one line of JSON."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def table_of(columns: Sequence[SavedColumn], rows: Sequence[tuple[Plain, ...]]) -> Plain:
    """Return rows as columns; an optional column without values is omitted."""
    lists: list[list[Plain]] = [list(values) for values in zip(*rows, strict=True)]
    lists = lists or [[] for _ in columns]
    return {
        column.name: values
        for column, values in zip(columns, lists, strict=True)
        if not (column.optional and all(value is None for value in values))
    }
