"""Columns of a table: names and types, kinds of column, and selection by name or pattern."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, Problem, choices_text, closest_match

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "bool", "text", "time", "other"]
ALL_KINDS: tuple[Kind, ...] = ("number", "bool", "text", "time", "other")
ColumnNames = Annotated[tuple[str, ...], Doc("names or patterns; `-name` excludes one")]
_NUMBERS = ("Int", "UInt", "Float", "Decimal")
_TEXTS = ("String", "Categorical", "Enum")
_TIMES = ("Date",)  # Date and Datetime


def kind_of(dtype: str) -> Kind:
    """Return the kind of a Polars type by its name."""
    if dtype.startswith(_NUMBERS):
        return "number"
    if dtype.startswith(_TEXTS):
        return "text"
    if dtype.startswith(_TIMES):
        return "time"
    return "bool" if dtype == "Boolean" else "other"


def is_pattern(name: str) -> bool:
    """Return whether a column name is a pattern with wildcards."""
    return "*" in name or "?" in name


def unknown_column(where: str, name: str, known: Iterable[str]) -> Problem:
    """Return the problem of a column name that does not exist."""
    names = list(known)
    match = closest_match(name, names)
    fix = f'did you mean "{match}"?' if match else f"use {choices_text(names)}"
    return Problem(where=where, what=f'no column named "{name}"', fix=fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Name and Polars type of a column."""

    name: str
    dtype: str

    @property
    def kind(self) -> Kind:
        return kind_of(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Columns at one point of the pipeline; `reserved` ones (label, id, …) are not features."""

    items: tuple[Column, ...]
    reserved: tuple[str, ...] = ()
    label: str | None = None
    open: bool = False  # more columns will be known once an earlier step is fitted

    def get(self, name: str) -> Column | None:
        return next((column for column in self.items if column.name == name), None)

    def is_text(self, name: str) -> bool:
        """Return whether a column exists and holds text."""
        column = self.get(name)
        return column is not None and column.kind == "text"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.items)

    def select(
        self, patterns: Iterable[str], kinds: tuple[Kind, ...], where: str
    ) -> tuple[str, ...]:
        """Return the columns that match; raise InputError for an unknown one or a wrong kind.

        A pattern with `*` selects columns of the right kinds that are not reserved;
        `-name` excludes a column again.
        """
        selected: dict[str, None] = {}
        problems: list[Problem] = []
        for pattern in patterns:
            if pattern.startswith("-"):
                excluded = pattern[1:]
                selected = {
                    name: None for name in selected if not fnmatch.fnmatchcase(name, excluded)
                }
            elif is_pattern(pattern):
                selected |= dict.fromkeys(self._matches(pattern, kinds))
            elif (column := self.get(pattern)) is None:
                problems.append(unknown_column(where, pattern, self.names))
            elif column.kind not in kinds:
                what = f'column "{pattern}" is {column.dtype}, not {choices_text(list(kinds))}'
                problems.append(Problem(where=where, what=what, fix="cast it first, or exclude it"))
            else:
                selected[pattern] = None
        if problems:
            raise InputError(problems)
        return tuple(selected)

    def _matches(self, pattern: str, kinds: tuple[Kind, ...]) -> list[str]:
        return [
            column.name
            for column in self.items
            if column.name not in self.reserved
            and column.kind in kinds
            and fnmatch.fnmatchcase(column.name, pattern)
        ]

    def with_columns(self, types: Mapping[str, str], drop: Iterable[str] = ()) -> Columns:
        """Return the columns with changed types, new ones at the end, and some dropped."""
        dropped = set(drop)
        remaining = [
            Column(name=column.name, dtype=types.get(column.name, column.dtype))
            for column in self.items
            if column.name not in dropped
        ]
        added = [
            Column(name=name, dtype=dtype)
            for name, dtype in types.items()
            if self.get(name) is None
        ]
        return dataclasses.replace(self, items=(*remaining, *added))


def columns_of(
    schema: Mapping[str, pl.DataType], reserved: tuple[str, ...] = (), label: str | None = None
) -> Columns:
    """Return the columns of a Polars schema."""
    return Columns(items=schema_columns(schema), reserved=reserved, label=label)


def schema_columns(schema: Mapping[str, pl.DataType]) -> tuple[Column, ...]:
    """Return the names and types of a Polars schema."""
    return tuple(Column(name=name, dtype=str(dtype)) for name, dtype in schema.items())
