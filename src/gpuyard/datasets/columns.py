"""The columns of a table: names and types, the kinds that steps speak of, and choosing columns by name."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import polars as pl

from gpuyard.errors import InputError, Problem, nearest, one_of

__all__ = ["Column", "Columns", "Kind", "columns_of", "kind_of"]

Kind = Literal["number", "bool", "text", "time", "other"]
_NUMBERS = ("Int", "UInt", "Float", "Decimal")
_TEXTS = ("String", "Categorical", "Enum")
_TIMES = ("Date",)  # Date and Datetime


def kind_of(dtype: str) -> Kind:
    """The kind of a Polars type by its name."""
    if dtype.startswith(_NUMBERS):
        return "number"
    if dtype.startswith(_TEXTS):
        return "text"
    if dtype.startswith(_TIMES):
        return "time"
    return "bool" if dtype == "Boolean" else "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its name and its Polars type, as text."""

    name: str
    dtype: str

    @property
    def kind(self) -> Kind:
        """What steps can do with it."""
        return kind_of(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table at one point of the pipeline; `reserved` ones (label, id, …) are not features."""

    items: tuple[Column, ...]
    reserved: tuple[str, ...] = ()
    label: str | None = None
    open: bool = False  # more columns will be known once an earlier step is fitted

    def get(self, name: str) -> Column | None:
        """The column of that name, or None."""
        return next((column for column in self.items if column.name == name), None)

    @property
    def names(self) -> tuple[str, ...]:
        """All the names, in order."""
        return tuple(column.name for column in self.items)

    def chosen(self, patterns: Iterable[str], kinds: tuple[Kind, ...], where: str) -> tuple[str, ...]:
        """The names that `patterns` mean; a name that is not there or is of another kind is an InputError.

        A pattern with `*` takes the columns of the right kind that are not reserved; `-name` takes one out again.
        """
        found: dict[str, None] = {}
        problems: list[Problem] = []
        for pattern in patterns:
            if pattern.startswith("-"):
                found = {name: None for name in found if not fnmatch.fnmatchcase(name, pattern[1:])}
            elif "*" in pattern or "?" in pattern:
                free = (column for column in self.items if column.name not in self.reserved and column.kind in kinds)
                found |= {column.name: None for column in free if fnmatch.fnmatchcase(column.name, pattern)}
            elif (column := self.get(pattern)) is None:
                meant = nearest(pattern, self.names)
                fix = f'did you mean "{meant}"?' if meant else f"use {one_of(self.names)}"
                problems.append(Problem(where=where, what=f'no column named "{pattern}"', fix=fix))
            elif column.kind not in kinds:
                what = f'column "{pattern}" is {column.dtype}, not {one_of(list(kinds))}'
                problems.append(Problem(where=where, what=what, fix="cast it first, or leave it out"))
            else:
                found[pattern] = None
        if problems:
            raise InputError(problems)
        return tuple(found)

    def changed(self, new: Mapping[str, str], removed: Iterable[str] = ()) -> Columns:
        """The columns after some got a type (new ones at the end) and some were taken away."""
        gone = set(removed)
        kept = [
            Column(name=column.name, dtype=new.get(column.name, column.dtype))
            for column in self.items
            if column.name not in gone
        ]
        added = [Column(name=name, dtype=dtype) for name, dtype in new.items() if self.get(name) is None]
        return dataclasses.replace(self, items=(*kept, *added))


def columns_of(schema: Mapping[str, pl.DataType], reserved: tuple[str, ...] = (), label: str | None = None) -> Columns:
    """The columns of a Polars schema."""
    items = tuple(Column(name=name, dtype=str(dtype)) for name, dtype in schema.items())
    return Columns(items=items, reserved=reserved, label=label)
