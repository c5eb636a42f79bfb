"""Nulls replaced: by a constant, the mean, the median or the most frequent value, of a column or of a group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self, TypeAlias, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import (
    Counts,
    CountsNeed,
    GroupMeans,
    GroupMeansNeed,
    Moments,
    MomentsNeed,
    Quantiles,
    QuantilesNeed,
    as_text,
)
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.group_aggregates import GroupCounts, GroupCountsNeed, GroupQuantiles, GroupQuantilesNeed
from gpuyard.datasets.step import Aggregate, Found, Need, Operation
from gpuyard.document import Doc
from gpuyard.errors import InputError, one_of

__all__ = ["FillGroup", "FillGroupTexts", "FillNumbers", "FillTexts", "Impute"]

_KINDS: tuple[Kind, ...] = ("number", "bool", "text")
GROUPED = ("mean", "median", "mode")
# What a value is learnt from: of the whole column, and of each group.
NEEDS: dict[str, tuple[Callable[..., Need], Callable[..., Need]]] = {
    "mean": (MomentsNeed, GroupMeansNeed),
    "median": (QuantilesNeed, GroupQuantilesNeed),
    "mode": (CountsNeed, GroupCountsNeed),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FillNumbers:
    """Nulls of columns of numbers replaced by a number each."""

    columns: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The filled columns."""
        rows = zip(self.columns, self.values, strict=True)
        return tuple(pl.col(name).cast(pl.Float64).fill_null(value) for name, value in rows)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed(dict.fromkeys(self.columns, "Float64"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        at, values = slots.numbers(self.columns), np.array(self.values)

        def run(batch: Batch) -> None:
            """Fills the rows."""
            part = batch.numbers[:, at]
            batch.numbers[:, at] = np.where(np.isnan(part), values, part)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTexts:
    """Nulls of columns of texts replaced by a text each."""

    columns: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The filled columns."""
        return tuple(pl.col(name).fill_null(value) for name, value in zip(self.columns, self.values, strict=True))

    def after(self, columns: Columns) -> Columns:
        """The same."""
        return columns

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        pairs = [(slots.text(name), value) for name, value in zip(self.columns, self.values, strict=True)]

        def run(batch: Batch) -> None:
            """Fills the rows."""
            for name, value in pairs:
                batch.texts[name] = [value if text is None else text for text in batch.texts[name]]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _Grouped:
    """A column, and the groups of another that it is filled by."""

    column: str
    by: str
    texts: bool  # whether groups are texts or numbers
    groups: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The column and the groups."""
        return (self.column, self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillGroup(_Grouped):
    """Nulls of a column of numbers replaced by that of their group; a group that was never seen gets that of all."""

    values: tuple[float, ...]
    value: float

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The filled column."""
        column = pl.col(self.column).cast(pl.Float64)
        return (_by_group(column, self.by, self.texts, self.groups, self.values, self.value),)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed({self.column: "Float64"})

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python: only rows with a null are looked up."""
        at, key = slots.number(self.column), _key(slots, self.by, self.texts)
        values: dict[str | None, float] = dict(zip(self.groups, self.values, strict=True))
        value = self.value

        def run(batch: Batch) -> None:
            """Fills the rows."""
            for row in np.flatnonzero(np.isnan(batch.numbers[:, at])).tolist():
                batch.numbers[row, at] = values.get(key(batch, row), value)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class FillGroupTexts(_Grouped):
    """Nulls of a column of texts replaced by that of their group; a group that was never seen gets that of all."""

    values: tuple[str, ...]
    value: str

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The filled column."""
        return (_by_group(pl.col(self.column), self.by, self.texts, self.groups, self.values, self.value),)

    def after(self, columns: Columns) -> Columns:
        """The same."""
        return columns

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        name, key = slots.text(self.column), _key(slots, self.by, self.texts)
        values: dict[str | None, str] = dict(zip(self.groups, self.values, strict=True))
        value = self.value

        def run(batch: Batch) -> None:
            """Fills the rows."""
            batch.texts[name] = [
                values.get(key(batch, row), value) if text is None else text
                for row, text in enumerate(batch.texts[name])
            ]

        return run


def _by_group(
    column: pl.Expr, by: str, texts: bool, groups: Sequence[str], values: Sequence[float | str], value: float | str
) -> pl.Expr:
    """A column whose nulls are what their group has."""
    if not groups:
        return column.fill_null(value)
    keys = list(groups) if texts else [float(group) for group in groups]
    group = pl.col(by) if texts else pl.col(by).cast(pl.Float64)
    dtype = pl.String() if isinstance(value, str) else pl.Float64()
    fill = group.replace_strict(keys, list(values), default=value, return_dtype=dtype)
    return column.fill_null(fill).fill_null(value)


def _key(slots: Slots, by: str, texts: bool) -> Callable[[Batch, int], str | None]:
    """The group of a row of a request, as a text; None where it has none."""
    if texts:
        name = slots.text(by)
        return lambda batch, row: batch.texts[name][row]
    at = slots.number(by)
    return lambda batch, row: as_text(float(batch.numbers[row, at]))


Fill: TypeAlias = FillNumbers | FillTexts | FillGroup | FillGroupTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class Impute:
    """Replaces nulls; what it learns, it learns from the training rows."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    value: Annotated[str, Doc("mean, median, mode, or a constant")] = "median"
    by: Annotated[str | None, Doc("a column: every group its own mean, median or mode")] = None

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; a pattern takes the columns that the value suits."""
        if meant := _misspelt(self.value):
            raise InputError.one(f"{where}.value", f'"{self.value}" is no statistic', f'did you mean "{meant}"?')
        numeric = self.value in ("mean", "median") or _number(self.value) is not None
        kinds: tuple[Kind, ...] = ("number", "bool") if numeric else _KINDS if self.value == "mode" else ("text",)
        if self.by is not None:
            columns.chosen((self.by,), ("number", "bool", "text"), where)
            if self.value not in GROUPED:
                what, fix = f'"{self.value}" is the same in every group', f"use value: {one_of(GROUPED)} with by:"
                raise InputError.one(where, what, fix)
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The statistic that the value names, of the column and of its groups."""
        if self.value not in GROUPED:
            return ()
        whole, grouped = NEEDS[self.value]
        groups = (grouped(column=name, by=self.by) for name in self.columns if self.by)
        return (*(whole(column=name) for name in self.columns), *groups)

    def fitted(self, found: Found, columns: Columns) -> tuple[Fill, ...]:
        """A value for every column, or for every group of one."""
        if self.by is not None:
            return tuple(self._group(name, found, columns) for name in self.columns)
        texts = tuple(name for name in self.columns if (column := columns.get(name)) and column.kind == "text")
        numbers = tuple(name for name in self.columns if name not in texts)
        parts: list[Fill] = []
        if numbers:
            parts.append(FillNumbers(columns=numbers, values=tuple(self._number(name, found) for name in numbers)))
        if texts:
            words = tuple(_mode(found, name) if self.value == "mode" else self.value for name in texts)
            parts.append(FillTexts(columns=texts, values=words))
        return tuple(parts)

    def _number(self, name: str, found: Found) -> float:
        """What a column of numbers is filled with; 0 where it has no value at all."""
        if self.value == "mean":
            return cast(Moments, found[MomentsNeed(column=name)]).mean
        if self.value == "median":
            return cast(Quantiles, found[QuantilesNeed(column=name)]).at(0.5)
        if self.value == "mode":
            return float(_mode(found, name) or 0.0)
        return float(self.value)

    def _group(self, name: str, found: Found, columns: Columns) -> FillGroup | FillGroupTexts:
        """What the groups of one column are filled with."""
        assert self.by is not None
        column, by = columns.get(name), columns.get(self.by)
        assert column is not None
        assert by is not None
        texts = by.kind == "text"
        if column.kind == "text":
            modes = cast(GroupCounts, found[GroupCountsNeed(column=name, by=self.by)]).modes()
            return FillGroupTexts(
                column=name, by=self.by, texts=texts, groups=tuple(modes), values=tuple(modes.values()),
                value=_mode(found, name),
            )  # fmt: skip
        values = _group_numbers(found[NEEDS[self.value][1](column=name, by=self.by)])
        return FillGroup(
            column=name, by=self.by, texts=texts, groups=tuple(values), values=tuple(values.values()),
            value=self._number(name, found),
        )  # fmt: skip


def _misspelt(value: str) -> str | None:
    """The statistic that was meant by a text of the same letters, which would else be taken for a constant."""
    meant = next((name for name in GROUPED if sorted(name) == sorted(value.casefold())), None)
    return meant if meant != value else None


def _group_numbers(found: Aggregate) -> Mapping[str, float]:
    """The number of each group."""
    if isinstance(found, GroupMeans):
        return found.means()
    if isinstance(found, GroupQuantiles):
        return found.medians()
    assert isinstance(found, GroupCounts)
    return {group: float(value) for group, value in found.modes().items()}


def _number(text: str) -> float | None:
    """The number that a text is, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def _mode(found: Found, name: str) -> str:
    """The most frequent value; of several the first in order."""
    counts = cast(Counts, found[CountsNeed(column=name)])
    pairs = zip(counts.values, counts.counts, strict=True)
    return min(pairs, key=lambda pair: (-pair[1], pair[0]), default=("", 0))[0]
