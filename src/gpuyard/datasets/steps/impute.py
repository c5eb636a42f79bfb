"""Nulls replaced: by a constant, the mean, the median, the most frequent value, or the mean of a group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self, cast

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
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import Doc
from gpuyard.errors import InputError

__all__ = ["FillGroup", "FillNumbers", "FillTexts", "Impute"]

_KINDS: tuple[Kind, ...] = ("number", "bool", "text")


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
class FillGroup:
    """Nulls of one column replaced by the mean of their group; a group that was never seen gets that of all."""

    column: str
    by: str
    texts: bool  # whether groups are texts or numbers
    groups: tuple[str, ...]
    means: tuple[float, ...]
    mean: float

    @property
    def reads(self) -> tuple[str, ...]:
        """The column and the groups."""
        return (self.column, self.by)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The filled column."""
        keys = list(self.groups) if self.texts else [float(group) for group in self.groups]
        group = pl.col(self.by) if self.texts else pl.col(self.by).cast(pl.Float64)
        if not keys:
            return (pl.col(self.column).cast(pl.Float64).fill_null(self.mean),)
        fill = group.replace_strict(keys, list(self.means), default=self.mean, return_dtype=pl.Float64)
        return (pl.col(self.column).cast(pl.Float64).fill_null(fill).fill_null(self.mean),)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed({self.column: "Float64"})

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python: only rows with a null are looked up."""
        at, means, mean = slots.number(self.column), dict(zip(self.groups, self.means, strict=True)), self.mean
        group = slots.text(self.by) if self.texts else slots.number(self.by)

        def run(batch: Batch) -> None:
            """Fills the rows."""
            for row in np.flatnonzero(np.isnan(batch.numbers[:, at])):
                key = batch.texts[group][row] if isinstance(group, str) else as_text(float(batch.numbers[row, group]))
                batch.numbers[row, at] = means.get(key or "", mean)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Impute:
    """Replaces nulls; what it learns, it learns from the training rows."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    value: Annotated[str, Doc("mean, median, mode, or a constant")] = "median"
    by: Annotated[str | None, Doc("a column: every group its own mean")] = None

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; a pattern takes the columns that the value suits."""
        numeric = self.value in ("mean", "median") or _number(self.value) is not None
        kinds: tuple[Kind, ...] = ("number", "bool") if numeric else _KINDS if self.value == "mode" else ("text",)
        if self.by is not None:
            columns.chosen((self.by,), ("number", "bool", "text"), where)
            if self.value != "mean":
                raise InputError.one(where, f'"{self.value}" is not there by group', "use value: mean with by:")
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The statistic that the value names."""
        if self.value == "mean":
            groups = (GroupMeansNeed(column=name, by=self.by) for name in self.columns if self.by)
            return (*(MomentsNeed(column=name) for name in self.columns), *groups)
        if self.value == "median":
            return tuple(QuantilesNeed(column=name) for name in self.columns)
        if self.value == "mode":
            return tuple(CountsNeed(column=name) for name in self.columns)
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[FillNumbers | FillTexts | FillGroup, ...]:
        """A value for every column, or for every group of one."""
        if self.by is not None:
            return tuple(self._group(name, found, columns) for name in self.columns)
        texts = tuple(name for name in self.columns if (column := columns.get(name)) and column.kind == "text")
        numbers = tuple(name for name in self.columns if name not in texts)
        parts: list[FillNumbers | FillTexts] = []
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

    def _group(self, name: str, found: Found, columns: Columns) -> FillGroup:
        """The means of one column's groups."""
        assert self.by is not None
        means = cast(GroupMeans, found[GroupMeansNeed(column=name, by=self.by)]).means()
        by = columns.get(self.by)
        assert by is not None
        return FillGroup(
            column=name, by=self.by, texts=by.kind == "text", groups=tuple(means), means=tuple(means.values()),
            mean=cast(Moments, found[MomentsNeed(column=name)]).mean,
        )  # fmt: skip


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
