"""Lags, differences and rolling windows of time series, with the same values at serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, get_args

import numpy as np
import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind
from gpuyard.datasets.series import SeriesColumn, factorise, series_columns
from gpuyard.datasets.step import ColumnStep, Operation, Statistics
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

WindowFunction = Literal["mean", "std", "min", "max", "sum"]
MAX_HISTORY_ROWS = 10_000
_SEED = 0x9E37
_ROW_BYTES = 64  # per row, for sorting, besides its values
Marks = Sequence[tuple[np.ndarray, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesColumns:
    """New columns from earlier rows of the same series, in the order of a time.

    At serving, a series is what one request holds of it: the client sends the earlier rows too.
    """

    by: tuple[str, ...]
    texts: tuple[bool, ...]  # whether each column of `by` is text
    time: str
    columns: tuple[SeriesColumn, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns whose earlier values are read."""
        return tuple(dict.fromkeys(column.source for column in self.columns))

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.by, self.time, *self.sources)

    @property
    def writes(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def history_rows(self) -> int:
        """Number of earlier rows of a series that a row depends on."""
        return max(column.history_rows for column in self.columns)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """None: its columns are computed from all rows, see `column_arrays`."""
        return ()

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.writes, "Float64"))

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """Return series, time and values of a partition's rows."""
        rows = frame.height
        keys = frame.select(self.by).hash_rows(seed=_SEED).to_numpy() if self.by else None
        series = keys if keys is not None else np.zeros(rows, np.uint64)
        return (series, _times(frame[self.time]), *(_floats(frame[name]) for name in self.sources))

    def fill_arrays(self, marks: Marks, out: Sequence[np.ndarray], memory_bytes: float) -> None:
        """Compute the new columns of all partitions into `out`, in buckets that fit in memory."""
        rows = sum(len(mark[0]) for mark in marks)
        row_bytes = _ROW_BYTES + 8 * (len(self.sources) + len(self.columns))
        buckets = max(1, int(np.ceil(rows * row_bytes / max(memory_bytes, 1.0))))
        buckets = buckets if self.by else 1
        for bucket in range(buckets):
            chosen = [np.flatnonzero(mark[0] % np.uint64(buckets) == bucket) for mark in marks]
            series, times, *values = (
                np.concatenate([mark[at][rows] for mark, rows in zip(marks, chosen, strict=True)])
                for at in range(2 + len(self.sources))
            )
            named = dict(zip(self.sources, values, strict=True))
            computed = series_columns(named, series, times, self.columns)
            start = 0
            for target, rows_of in zip(out, chosen, strict=True):
                target[rows_of] = computed[start : start + len(rows_of)]
                start += len(rows_of)

    def numpy_operation(self, slots: Slots) -> Operation:
        keys = [slots.place(name, texts) for name, texts in zip(self.by, self.texts, strict=True)]
        time = slots.number(self.time)
        sources = {name: slots.number(name) for name in self.sources}
        at = slots.numbers(self.writes)

        def run(batch: RowBatch) -> None:
            requests = batch.requests
            series = np.zeros(batch.rows, np.int64) if requests is None else requests
            values = [
                batch.texts[key] if isinstance(key, str) else batch.numbers[:, key] for key in keys
            ]
            batch.numbers[:, at] = series_columns(
                {name: batch.numbers[:, slot] for name, slot in sources.items()},
                factorise(series, values),
                batch.numbers[:, time],
                self.columns,
            )

        return run


def _times(series: pl.Series) -> np.ndarray:
    if series.dtype.is_temporal():
        series = series.cast(pl.Datetime("us")).to_physical()
    return _floats(series)


def _floats(series: pl.Series) -> np.ndarray:
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesStep(ColumnStep):
    """Step over the earlier rows of a series."""

    PARTS = (SeriesColumns,)
    KINDS: ClassVar[tuple[Kind, ...]] = ("number", "bool")
    columns: ColumnNames
    time: Annotated[str, Doc("the column that orders the rows: a time, date or number")]
    by: Annotated[ColumnNames, Doc("columns that name the series; none: one series")] = ()

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its columns; raise InputError where a row would see its label."""
        self.check(where)
        by = columns.select(self.by, ("number", "bool", "text"), f"{where}.by")
        columns.select((self.time,), ("time", "number"), f"{where}.time")
        names = columns.select(self.columns, self.KINDS, where)
        step = replace(self, columns=names, by=by)
        new = step.new_columns()
        if not new:
            raise InputError.one(where, "no column", "name at least one column of numbers")
        if (rows := max(column.history_rows for column in new)) > MAX_HISTORY_ROWS:
            fix = f"write at most {MAX_HISTORY_ROWS:,}"
            raise InputError.one(where, f"reads {rows:,} earlier rows", fix)
        for column in new:
            if columns.get(column.name) is not None:
                what = f'column "{column.name}" exists already'
                raise InputError.one(where, what, "leave one of the two out")
            if column.source == columns.label and column.function != "lag" and not column.shift:
                what = f'"{column.name}" would contain the label that it predicts'
                raise InputError.one(where, what, "set shift: 1 or more")
        return step

    def new_columns(self) -> tuple[SeriesColumn, ...]:
        """Return the columns that the step adds."""
        raise NotImplementedError

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[SeriesColumns, ...]:  # noqa: ARG002
        texts = tuple(columns.is_text(name) for name in self.by)
        return (SeriesColumns(by=self.by, texts=texts, time=self.time, columns=self.new_columns()),)


def _check_sizes(sizes: tuple[int, ...], key: str, where: str) -> None:
    if not sizes or min(sizes) < 1 or len(set(sizes)) < len(sizes):
        what = "needs different integers of 1 or more"
        raise InputError.one(f"{where}.{key}", what, f"write {key}: [1, 7]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags(SeriesStep):
    """Add the values of earlier rows."""

    rows: Annotated[tuple[int, ...], Doc("how many rows back")] = (1,)

    def check(self, where: str) -> None:
        """Raise InputError for rows that are not earlier, or given twice."""
        _check_sizes(self.rows, "rows", where)

    def new_columns(self) -> tuple[SeriesColumn, ...]:
        return tuple(
            SeriesColumn(name=f"{name}_lag_{rows}", source=name, function="lag", size=rows)
            for name in self.columns
            for rows in self.rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences(SeriesStep):
    """Add differences to earlier rows."""

    rows: Annotated[tuple[int, ...], Doc("how many rows apart")] = (1,)
    shift: Annotated[int, AtLeast(0), Doc("rows back of the later value; the label needs 1")] = 0

    def check(self, where: str) -> None:
        """Raise InputError for rows that are not earlier, or given twice."""
        _check_sizes(self.rows, "rows", where)

    def new_columns(self) -> tuple[SeriesColumn, ...]:
        return tuple(
            SeriesColumn(
                name=f"{name}_diff_{rows}{_suffix(self.shift, 0)}",
                source=name,
                function="difference",
                size=rows,
                shift=self.shift,
            )
            for name in self.columns
            for rows in self.rows
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolling(SeriesStep):
    """Add statistics of a window of earlier rows; missing values in it are left out."""

    windows: Annotated[tuple[int, ...], Doc("sizes in rows")] = (7,)
    functions: Annotated[
        tuple[WindowFunction, ...], Doc("std is that of a sample, as in pandas")
    ] = ("mean",)
    shift: Annotated[int, AtLeast(0), Doc("rows back of the window's end; 0 includes the row")] = 1
    least: Annotated[int, AtLeast(1), Doc("values that a window needs; fewer give null")] = 1

    def check(self, where: str) -> None:
        """Raise InputError for windows without rows, or settings given twice."""
        _check_sizes(self.windows, "windows", where)
        if not self.functions or len(set(self.functions)) < len(self.functions):
            fix = f"choose from {', '.join(get_args(WindowFunction))}"
            raise InputError.one(f"{where}.functions", "none, or one twice", fix)

    def new_columns(self) -> tuple[SeriesColumn, ...]:
        return tuple(
            SeriesColumn(
                name=f"{name}_{function}_{size}{_suffix(self.shift, 1)}",
                source=name,
                function=function,
                size=size,
                shift=self.shift,
                least=self.least,
            )
            for name in self.columns
            for size in self.windows
            for function in self.functions
        )


def _suffix(shift: int, usual: int) -> str:
    return "" if shift == usual else f"_shift_{shift}"
