"""Scaling of number columns: z-score, min-max, robust (median and quartiles)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import (
    Moments,
    MomentsRequest,
    QuantileSketch,
    QuantilesRequest,
)
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns, Kind
from gpuyard.datasets.step import (
    Aggregate,
    ColumnStep,
    FloatColumns,
    Operation,
    Statistics,
)
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine(FloatColumns):
    """(x - shift) / scale of every column."""

    shift: tuple[float, ...]
    scale: tuple[float, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        rows = zip(self.columns, self.shift, self.scale, strict=True)
        return tuple((pl.col(name).cast(pl.Float64) - shift) / scale for name, shift, scale in rows)

    def numpy_operation(self, slots: Slots) -> Operation:
        at = slots.numbers(self.columns)
        shift, scale = np.array(self.shift), np.array(self.scale)

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = (batch.numbers[:, at] - shift) / scale

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(ColumnStep):
    """Step that fits shift and scale of every column from one statistic."""

    PARTS: ClassVar[tuple[type[Any], ...]] = (Affine,)
    IN_PLACE: ClassVar[bool] = True
    KINDS: ClassVar[tuple[Kind, ...]] = ("number", "bool")
    columns: ColumnNames = ("*",)

    def shift_and_scale(self, statistic: Aggregate) -> tuple[float, float]:
        raise NotImplementedError

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Affine, ...]:
        """Return shift and scale of every column; one that does not vary is only shifted."""
        pairs = [self.shift_and_scale(statistics[request]) for request in self.requests(columns)]
        return (
            Affine(
                columns=self.columns,
                shift=tuple(shift for shift, _ in pairs),
                scale=tuple(scale if scale > 0 else 1.0 for _, scale in pairs),
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZScore(Scaling):
    """Mean 0 and standard deviation 1 (of the population, as scikit-learn's StandardScaler)."""

    REQUEST = MomentsRequest

    def shift_and_scale(self, statistic: Aggregate) -> tuple[float, float]:
        moments = cast(Moments, statistic)
        return moments.mean, moments.std


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMax(Scaling):
    """Map the minimum of the training rows to `low` and the maximum to `high`."""

    REQUEST = MomentsRequest
    low: Annotated[float, Doc("new minimum")] = 0.0
    high: Annotated[float, Doc("new maximum")] = 1.0

    def check(self, where: str) -> None:
        """Raise InputError unless low is below high."""
        if self.low >= self.high:
            raise InputError.one(
                where, f"low {self.low:g} is not below high {self.high:g}", "swap them"
            )

    def shift_and_scale(self, statistic: Aggregate) -> tuple[float, float]:
        """Return the line through (min, low) and (max, high)."""
        moments = cast(Moments, statistic)
        scale = (moments.max - moments.min) / (self.high - self.low) or 1.0
        return moments.min - self.low * scale, scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Robust(Scaling):
    """Median 0 and interquartile range 1, which outliers do not move."""

    REQUEST = QuantilesRequest

    def shift_and_scale(self, statistic: Aggregate) -> tuple[float, float]:
        sketch = cast(QuantileSketch, statistic)
        return sketch.at(0.5), sketch.at(0.75) - sketch.at(0.25)
