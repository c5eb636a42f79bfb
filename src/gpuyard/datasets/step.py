"""Interfaces of a pipeline step: settings from the file, and the fitted parts that they become.

    StepSettings   bind(columns)             resolve and check its columns
                   requests(columns)         statistics it needs from the training rows
                   fit_state(stats, columns) the fitted parts, one or more
    FittedStep     expressions()             Polars expressions, for a partition
                   numpy_operation(slots)    the same in NumPy, for the rows of a request
    RowFilter      keep()                    condition on one row; the other rows are dropped
    Marker         mark(), rows_to_drop()    rows that only the full table can name, as duplicates
    SeriesPart     mark(), fill_arrays()     columns that depend on other rows, as lags

Fitted parts are saved as JSON by their fields: numbers, texts, and tuples of them.
A step is one file and one line of `steps/step_list.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
import polars as pl

from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind

ROW = "__row"  # row number in the source (UInt64); every frame that a step sees has it
FOLD = "__fold"  # fold of a training row, for out-of-fold encodings; null for other rows

Operation = Callable[[RowBatch], None]


class Aggregate(Protocol):
    """Mergeable statistic of some rows; its fields are numbers, texts or arrays."""

    def merge(self, other: Self) -> Self:
        """Return the statistic of both sets of rows; the rows of `other` come later."""
        ...


class StatRequest(Protocol):
    """Statistic that a step needs; equal requests are gathered once."""

    @property
    def columns(self) -> tuple[str, ...]: ...


@runtime_checkable
class ExpressionRequest(StatRequest, Protocol):
    """Request made of aggregating expressions, which share one query with all others."""

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the expressions, each with a single value."""
        ...

    def aggregate(self, values: Sequence[object]) -> Aggregate:
        """Return the statistic of a partition from the values of the expressions."""
        ...


@runtime_checkable
class FrameRequest(StatRequest, Protocol):
    """Request that reads the training rows of a partition itself."""

    def collect(self, frame: pl.DataFrame) -> Aggregate: ...


Statistics = Mapping[StatRequest, Aggregate]


@runtime_checkable
class FittedStep(Protocol):
    """Part that changes, adds or drops columns, row by row."""

    @property
    def reads(self) -> tuple[str, ...]: ...

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the new columns; every expression sees the columns from before the step."""
        ...

    def after(self, columns: Columns) -> Columns:
        """Return the columns after the step; missing ones are dropped from the frame."""
        ...

    def numpy_operation(self, slots: Slots) -> Operation:
        """Return the same step for the rows of a request."""
        ...


@runtime_checkable
class WideStep(FittedStep, Protocol):
    """Part of which one expression writes many columns, as the terms of a text."""

    @property
    def writes(self) -> tuple[str, ...]: ...


def written_columns(part: FittedStep) -> set[str]:
    """Return the columns that a part adds or replaces."""
    if isinstance(part, WideStep):
        return set(part.writes)
    return {expression.meta.output_name() for expression in part.expressions()}


@runtime_checkable
class RowFilter(Protocol):
    """Part that drops rows by a condition on each row."""

    @property
    def reads(self) -> tuple[str, ...]: ...

    @property
    def quarantined(self) -> bool:
        """Whether dropped rows are saved with the reason, or only counted."""
        ...

    def keep(self) -> pl.Expr:
        """Return the condition for rows that stay; null counts as false."""
        ...

    def reason(self) -> pl.Expr | str:
        """Return why a row was dropped; shown in the quarantine."""
        ...


@runtime_checkable
class Marker(Protocol):
    """Part that drops rows which only the full table can name, as duplicates.

    `mark` returns a few arrays per partition, which are stored on disk;
    `rows_to_drop` reads the marks of all partitions in order.
    """

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that it reads; empty: all of them."""
        ...

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """Return the keys of a partition's rows, small for every row."""
        ...

    def rows_to_drop(
        self, marks: Sequence[tuple[np.ndarray, ...]], memory_bytes: float
    ) -> tuple[np.ndarray, ...]:
        """Return the positions to drop per partition, ascending; marks may be memory maps."""
        ...


@runtime_checkable
class SeriesPart(FittedStep, Protocol):
    """Part whose new columns depend on other rows, as lags; they are computed from marks."""

    @property
    def writes(self) -> tuple[str, ...]: ...

    @property
    def history_rows(self) -> int:
        """Number of earlier rows that a row depends on."""
        ...

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """Return what the new columns are computed from, for the rows of a partition."""
        ...

    def fill_arrays(
        self,
        marks: Sequence[tuple[np.ndarray, ...]],
        out: Sequence[np.ndarray],
        memory_bytes: float,
    ) -> None:
        """Compute the new columns into float64 [rows, columns] per partition."""
        ...


Fitted = FittedStep | RowFilter | Marker


class StepSettings:
    """Step as the workload file declares it; the defaults need no statistics."""

    __slots__ = ()
    PARTS: ClassVar[tuple[type[Any], ...]] = ()  # classes of fitted parts, for loading transforms
    IN_PLACE: ClassVar[bool] = False  # its columns keep their names, so that passes can be shared
    USES_FOLDS: ClassVar[bool] = False  # its parts read FOLD
    USES_JIT: ClassVar[bool] = False  # its loops are compiled on first use, which takes memory

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its column names resolved; raise InputError if they do not fit."""
        raise NotImplementedError

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        """Return the statistics to gather from the training rows."""
        return ()

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Fitted, ...]:
        """Return the fitted parts, in the order in which they run."""
        raise NotImplementedError

    def resolve_paths(self, base: Path) -> Self:  # noqa: ARG002
        """Return the step with paths that are relative to `base` made absolute."""
        return self

    def file_contents(self) -> bytes:
        """Return the contents of files that it reads, for the version of the dataset."""
        return b""


class StatelessStep(StepSettings):
    """Step without statistics, whose settings are also its fitted part."""

    __slots__ = ()

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Self, ...]:  # type: ignore[override]  # noqa: ARG002
        return (self,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStep(StepSettings):
    """Step over a list of columns of certain kinds."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("number",)
    REQUEST: ClassVar[Callable[..., StatRequest] | None] = None  # statistic to gather per column
    columns: ColumnNames

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its patterns expanded."""
        self.check(where)
        return replace(self, columns=columns.select(self.columns, self.kinds(), where))

    def kinds(self) -> tuple[Kind, ...]:
        return self.KINDS

    def check(self, where: str) -> None:
        """Raise InputError for settings that contradict each other."""

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        if self.REQUEST is None:
            return ()
        return tuple(self.REQUEST(column=name) for name in self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatColumns:
    """Fitted part that replaces columns in place by floats."""

    columns: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.columns, "Float64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPart:
    """Fitted part that reads one column."""

    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)


class ShardWriter(Protocol):
    """Writer of the rows of one partition and split; the last step may bring its own."""

    kind: Literal["table", "tokens", "images"]
    suffix: str

    def write(self, frame: pl.DataFrame, path: str) -> int:
        """Write the shard and return the number of samples (rows, sequences) in it."""
        ...
