"""What a step of the pipeline offers. A step is two frozen records: what the file says, and what the data made of it.

    settings (a `StepSettings`)   bound(columns)      the same step with its columns spelt out, checked
                                  needs(columns)      the statistics it takes from the training rows
                                  fitted(found, columns)   the step with those statistics in it, as parts
    fitted (a `FittedStep`)       expressions()       Polars, for a whole partition
                                  compiled(slots)     NumPy, for the rows of a request
    removal (a `Removal`)         keep()              a Polars condition: the rows that stay; the others are counted
    marker (a `Marker`)           rows that only the whole table can name, as duplicates

A fitted record is saved as JSON by its fields, so they are numbers, texts, and tuples of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, Self, runtime_checkable

import numpy as np
import polars as pl

from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns

__all__ = [
    "FOLD", "ROW", "Aggregate", "ExpressionNeed", "Fitted", "FittedStep", "Found", "FrameNeed", "Marker", "Need",
    "Operation", "Removal", "StepSettings", "Unlearned", "WideStep", "Writer", "written",
]  # fmt: skip

ROW = "__row"  # the row's number in the source, unsigned 64 bits; every frame that a step sees has it
FOLD = "__fold"  # of a training row: the part that out-of-fold encodings leave out; null for other rows

Operation = Callable[[Batch], None]


class Aggregate(Protocol):
    """A statistic of some rows that can be merged with that of others; its fields are numbers, texts or arrays."""

    def merged(self, other: Self) -> Self:
        """The statistic of both sets of rows; `other` follows."""
        ...


class Need(Protocol):
    """One statistic that a step wants; equal needs are gathered once."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...


@runtime_checkable
class ExpressionNeed(Need, Protocol):
    """A need of aggregating expressions, gathered with those of all others in one pass."""

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The expressions, one value each."""
        ...

    def aggregate(self, values: Sequence[object]) -> Aggregate:
        """The statistic of a partition from their values."""
        ...


@runtime_checkable
class FrameNeed(Need, Protocol):
    """A need that looks at the training rows of a partition itself."""

    def collect(self, frame: pl.DataFrame) -> Aggregate:
        """The statistic of a partition."""
        ...


Found = Mapping[Need, Aggregate]


class StepSettings(Protocol):
    """A step as a file declares it."""

    def bound(self, columns: Columns, where: str) -> Self:
        """The step with its columns spelt out; InputError where they do not fit."""
        ...

    def needs(self, columns: Columns) -> tuple[Need, ...]:
        """The statistics it wants of the training rows; none for a step that learns nothing."""
        ...

    def fitted(self, found: Found, columns: Columns) -> tuple[Fitted, ...]:
        """The step with what it learnt, in one part or several that follow each other."""
        ...


class Unlearned:
    """Settings of a step that takes nothing from the rows: what the file says is the fitted step too."""

    __slots__ = ()

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Self, ...]:  # noqa: ARG002
        """Itself."""
        return (self,)


@runtime_checkable
class FittedStep(Protocol):
    """A step that changes, adds or takes away columns, row by row."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The columns that it makes or replaces; all of them see the columns as they were before the step."""
        ...

    def after(self, columns: Columns) -> Columns:
        """The columns after it; those that are missing there are dropped from the frame."""
        ...

    def compiled(self, slots: Slots) -> Operation:
        """The same for the rows of a request."""
        ...


@runtime_checkable
class WideStep(FittedStep, Protocol):
    """A step of which one expression makes many columns, as the words of a text."""

    @property
    def writes(self) -> tuple[str, ...]:
        """The columns that it makes."""
        ...


def written(part: FittedStep) -> set[str]:
    """The columns that a step makes or replaces."""
    if isinstance(part, WideStep):
        return set(part.writes)
    return {expression.meta.output_name() for expression in part.expressions()}


@runtime_checkable
class Removal(Protocol):
    """A step that takes away rows by a condition on each row alone."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    @property
    def quarantined(self) -> bool:
        """Whether the rows are kept apart with the reason, or only counted."""
        ...

    def keep(self) -> pl.Expr:
        """True for the rows that stay; a null counts as false."""
        ...

    def reason(self) -> pl.Expr | str:
        """Why a row goes; shown in the quarantine."""
        ...


@runtime_checkable
class Marker(Protocol):
    """A step that takes away rows which only the whole table can name, as duplicates.

    `mark` gives the marks of a partition (one or two arrays with an item per row), and they are kept on disk;
    `doomed` reads the marks of all partitions, in order, and gives the positions of rows to drop in each.
    """

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it reads; empty: all of them."""
        ...

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """What tells the rows of a partition from others, small for every row."""
        ...

    def doomed(self, marks: Sequence[tuple[np.ndarray, ...]], memory_bytes: float) -> tuple[np.ndarray, ...]:
        """The positions to drop in every partition, ascending; the arrays in `marks` may be memory maps."""
        ...


Fitted = FittedStep | Removal | Marker


class Writer(Protocol):
    """How the rows of one partition and split become a shard; the last step may bring its own."""

    kind: Literal["table", "tokens", "images"]
    suffix: str

    def write(self, frame: pl.DataFrame, path: str) -> int:
        """Writes the shard; gives how many samples (rows, sequences) it holds."""
        ...
