"""Imputation of nulls: constant, mean, median or mode, of a column or by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Self, TypeAlias, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import (
    Counts,
    CountsRequest,
    GroupMeans,
    GroupMeansRequest,
    Moments,
    MomentsRequest,
    QuantileSketch,
    QuantilesRequest,
    as_text,
)
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind
from gpuyard.datasets.group_aggregates import (
    GroupCounts,
    GroupCountsRequest,
    GroupQuantiles,
    GroupQuantilesRequest,
)
from gpuyard.datasets.step import (
    Aggregate,
    ColumnStep,
    FloatColumns,
    Operation,
    Statistics,
    StatRequest,
)
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError, choices_text

# Requests of each statistic: of the column, and by group.
REQUESTS: dict[str, tuple[Callable[..., StatRequest], Callable[..., StatRequest]]] = {
    "mean": (MomentsRequest, GroupMeansRequest),
    "median": (QuantilesRequest, GroupQuantilesRequest),
    "mode": (CountsRequest, GroupCountsRequest),
}
STATISTICS = tuple(REQUESTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class FillNumbers(FloatColumns):
    """Number that replaces the nulls of each column."""

    values: tuple[float, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        rows = zip(self.columns, self.values, strict=True)
        return tuple(pl.col(name).cast(pl.Float64).fill_null(value) for name, value in rows)

    def numpy_operation(self, slots: Slots) -> Operation:
        at = slots.numbers(self.columns)
        fills = np.array(self.values)

        def run(batch: RowBatch) -> None:
            numbers = batch.numbers[:, at]
            batch.numbers[:, at] = np.where(np.isnan(numbers), fills, numbers)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class FillTexts:
    """Text that replaces the nulls of each column."""

    columns: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        rows = zip(self.columns, self.values, strict=True)
        return tuple(pl.col(name).fill_null(value) for name, value in rows)

    def after(self, columns: Columns) -> Columns:
        return columns

    def numpy_operation(self, slots: Slots) -> Operation:
        rows = zip(self.columns, self.values, strict=True)
        fills = [(slots.text(name), value) for name, value in rows]

        def run(batch: RowBatch) -> None:
            for name, value in fills:
                batch.texts[name] = [value if text is None else text for text in batch.texts[name]]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupFill:
    column: str
    by: str
    texts: bool  # whether groups are texts or numbers
    groups: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column, self.by)

    def _filled(
        self, column: pl.Expr, values: Sequence[float | str], value: float | str
    ) -> pl.Expr:
        if not self.groups:
            return column.fill_null(value)
        keys = list(self.groups) if self.texts else [float(group) for group in self.groups]
        group = pl.col(self.by) if self.texts else pl.col(self.by).cast(pl.Float64)
        dtype = pl.String() if isinstance(value, str) else pl.Float64()
        fill = group.replace_strict(keys, list(values), default=value, return_dtype=dtype)
        return column.fill_null(fill).fill_null(value)

    def _group_of(self, slots: Slots) -> Callable[[RowBatch, int], str | None]:
        if self.texts:
            name = slots.text(self.by)
            return lambda batch, row: batch.texts[name][row]
        at = slots.number(self.by)
        return lambda batch, row: as_text(float(batch.numbers[row, at]))


@dataclass(frozen=True, slots=True, kw_only=True)
class FillGroup(_GroupFill):
    """Number that replaces nulls by group; unseen groups use the value of all rows."""

    values: tuple[float, ...]
    value: float

    def expressions(self) -> tuple[pl.Expr, ...]:
        return (self._filled(pl.col(self.column).cast(pl.Float64), self.values, self.value),)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.column: "Float64"})

    def numpy_operation(self, slots: Slots) -> Operation:
        """Return the same in Python: only rows with a null are looked up."""
        at, group_of = slots.number(self.column), self._group_of(slots)
        fills: dict[str | None, float] = dict(zip(self.groups, self.values, strict=True))

        def run(batch: RowBatch) -> None:
            for row in np.flatnonzero(np.isnan(batch.numbers[:, at])).tolist():
                batch.numbers[row, at] = fills.get(group_of(batch, row), self.value)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class FillGroupTexts(_GroupFill):
    """Text that replaces nulls by group; unseen groups use the value of all rows."""

    values: tuple[str, ...]
    value: str

    def expressions(self) -> tuple[pl.Expr, ...]:
        return (self._filled(pl.col(self.column), self.values, self.value),)

    def after(self, columns: Columns) -> Columns:
        return columns

    def numpy_operation(self, slots: Slots) -> Operation:
        name, group_of = slots.text(self.column), self._group_of(slots)
        fills: dict[str | None, str] = dict(zip(self.groups, self.values, strict=True))

        def run(batch: RowBatch) -> None:
            batch.texts[name] = [
                fills.get(group_of(batch, row), self.value) if text is None else text
                for row, text in enumerate(batch.texts[name])
            ]

        return run


Fill: TypeAlias = FillNumbers | FillTexts | FillGroup | FillGroupTexts


@dataclass(frozen=True, slots=True, kw_only=True)
class Impute(ColumnStep):
    """Replace nulls; statistics come from the training rows."""

    PARTS = (FillNumbers, FillTexts, FillGroup, FillGroupTexts)
    IN_PLACE = True
    columns: ColumnNames = ("*",)
    value: Annotated[str, Doc("mean, median, mode, or a constant")] = "median"
    by: Annotated[str | None, Doc("a column: mean, median or mode per group")] = None

    def kinds(self) -> tuple[Kind, ...]:
        if self.value == "mode":
            return ("number", "bool", "text")
        numeric = self.value in STATISTICS or _is_number(self.value)
        return ("number", "bool") if numeric else ("text",)

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its patterns expanded; check the value and the group column."""
        if match := _misspelt(self.value):
            raise InputError.one(
                f"{where}.value", f'"{self.value}" is not a statistic', f'did you mean "{match}"?'
            )
        if self.by is not None:
            columns.select((self.by,), ("number", "bool", "text"), where)
            if self.value not in STATISTICS:
                what = f'"{self.value}" is the same in every group'
                fix = f"use value: {choices_text(STATISTICS)} with by:"
                raise InputError.one(where, what, fix)
        return ColumnStep.bind(self, columns, where)

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        if self.value not in STATISTICS:
            return ()
        overall, grouped = REQUESTS[self.value]
        groups = (grouped(column=name, by=self.by) for name in self.columns if self.by)
        return (*(overall(column=name) for name in self.columns), *groups)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Fill, ...]:
        if self.by is not None:
            by_text = columns.is_text(self.by)
            return tuple(
                self._group_fill(name, by_text, statistics, columns.is_text(name))
                for name in self.columns
            )
        texts = tuple(name for name in self.columns if columns.is_text(name))
        numbers = tuple(name for name in self.columns if name not in texts)
        parts: list[Fill] = []
        if numbers:
            values = tuple(self._number(name, statistics) for name in numbers)
            parts.append(FillNumbers(columns=numbers, values=values))
        if texts:
            mode = self.value == "mode"
            words = tuple(_mode(statistics, name) if mode else self.value for name in texts)
            parts.append(FillTexts(columns=texts, values=words))
        return tuple(parts)

    def _number(self, name: str, statistics: Statistics) -> float:
        if self.value == "mean":
            return cast(Moments, statistics[MomentsRequest(column=name)]).mean
        if self.value == "median":
            return cast(QuantileSketch, statistics[QuantilesRequest(column=name)]).at(0.5)
        if self.value == "mode":
            return float(_mode(statistics, name) or 0.0)  # 0 for a column without values
        return float(self.value)

    def _group_fill(
        self, name: str, by_text: bool, statistics: Statistics, is_text: bool
    ) -> FillGroup | FillGroupTexts:
        assert self.by is not None
        statistic = statistics[REQUESTS[self.value][1](column=name, by=self.by)]
        if is_text:
            modes = cast(GroupCounts, statistic).modes()
            return FillGroupTexts(
                column=name,
                by=self.by,
                texts=by_text,
                groups=tuple(modes),
                values=tuple(modes.values()),
                value=_mode(statistics, name),
            )
        values = _group_numbers(statistic)
        return FillGroup(
            column=name,
            by=self.by,
            texts=by_text,
            groups=tuple(values),
            values=tuple(values.values()),
            value=self._number(name, statistics),
        )


def _misspelt(value: str) -> str | None:
    """Return the statistic with the same letters; the text would otherwise be a constant."""
    match = next((name for name in STATISTICS if sorted(name) == sorted(value.casefold())), None)
    return match if match != value else None


def _group_numbers(statistic: Aggregate) -> Mapping[str, float]:
    if isinstance(statistic, GroupMeans):
        return statistic.means()
    if isinstance(statistic, GroupQuantiles):
        return statistic.medians()
    assert isinstance(statistic, GroupCounts)
    return {group: float(value) for group, value in statistic.modes().items()}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _mode(statistics: Statistics, name: str) -> str:
    """Return the most frequent value; ties go to the first in order."""
    frequencies = cast(Counts, statistics[CountsRequest(column=name)]).by_frequency()
    return frequencies[0][0] if frequencies else ""
