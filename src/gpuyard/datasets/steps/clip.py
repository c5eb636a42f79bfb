"""Clip outliers: to fixed limits, to quantiles, or to Tukey's fences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import QuantileSketch, QuantilesRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns
from gpuyard.datasets.step import ColumnStep, FloatColumns, Operation, Statistics, StatRequest
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

_NO_LIMIT = 1.7976931348623157e308  # the largest double: JSON has no infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedClip(FloatColumns):
    """Limits of every column."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        limits = zip(self.columns, self.lower, self.upper, strict=True)
        return tuple(
            pl.col(name).cast(pl.Float64).clip(lower, upper) for name, lower, upper in limits
        )

    def numpy_operation(self, slots: Slots) -> Operation:
        at = slots.numbers(self.columns)
        lower, upper = np.array(self.lower), np.array(self.upper)

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = np.minimum(np.maximum(batch.numbers[:, at], lower), upper)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip(ColumnStep):
    """Clip values to limits: fixed, at two quantiles, or a multiple of the IQR beyond them."""

    PARTS = (FittedClip,)
    REQUEST = QuantilesRequest
    IN_PLACE = True
    columns: ColumnNames = ("*",)
    lower: Annotated[float | None, Doc("smallest value")] = None
    upper: Annotated[float | None, Doc("largest value")] = None
    quantile: Annotated[
        float | None, AtLeast(0.0), Doc("0.01: to the 1st and the 99th percentile")
    ] = None
    iqr: Annotated[
        float | None, AtLeast(0.0), Doc("1.5: to 1.5 interquartile ranges beyond the quartiles")
    ] = None

    def check(self, where: str) -> None:
        """Raise InputError unless the limits are set in exactly one way."""
        methods = [
            self.lower is not None or self.upper is not None,
            self.quantile is not None,
            self.iqr is not None,
        ]
        if sum(methods) != 1:
            raise InputError.one(
                where, "needs one way to set the limits", "set lower/upper, quantile or iqr"
            )
        if self.quantile is not None and self.quantile >= 0.5:
            raise InputError.one(
                where, f"quantile {self.quantile:g} is not below 0.5", "write 0.01"
            )
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise InputError.one(
                where, f"lower {self.lower:g} is not below upper {self.upper:g}", "swap them"
            )

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:
        """Return the quantiles of every column, unless the limits are fixed."""
        fixed = self.lower is not None or self.upper is not None
        return () if fixed else ColumnStep.requests(self, columns)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedClip, ...]:
        if not self.columns:
            return ()
        sketches = [cast(QuantileSketch, statistics[request]) for request in self.requests(columns)]
        if self.quantile is not None:
            limits = [
                (sketch.at(self.quantile), sketch.at(1 - self.quantile)) for sketch in sketches
            ]
        elif self.iqr is not None:
            limits = [_fences(sketch, self.iqr) for sketch in sketches]
        else:
            lower = -_NO_LIMIT if self.lower is None else self.lower
            upper = _NO_LIMIT if self.upper is None else self.upper
            limits = [(lower, upper)] * len(self.columns)
        return (
            FittedClip(
                columns=self.columns,
                lower=tuple(low for low, _ in limits),
                upper=tuple(high for _, high in limits),
            ),
        )


def _fences(sketch: QuantileSketch, times: float) -> tuple[float, float]:
    low, high = sketch.at(0.25), sketch.at(0.75)
    return low - times * (high - low), high + times * (high - low)
