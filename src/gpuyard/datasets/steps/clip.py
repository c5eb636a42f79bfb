"""Outliers pulled in: to limits, to quantiles, or to the fences of the quartiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError

__all__ = ["Clip", "Clipped"]

_MOST = 1.7976931348623157e308  # no limit on this side


@dataclass(frozen=True, slots=True, kw_only=True)
class Clipped:
    """Every column within its limits."""

    columns: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The clipped columns."""
        rows = zip(self.columns, self.lower, self.upper, strict=True)
        return tuple(pl.col(name).cast(pl.Float64).clip(lower, upper) for name, lower, upper in rows)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed(dict.fromkeys(self.columns, "Float64"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        at, lower, upper = slots.numbers(self.columns), np.array(self.lower), np.array(self.upper)

        def run(batch: Batch) -> None:
            """Clips the rows; NaN stays."""
            batch.numbers[:, at] = np.minimum(np.maximum(batch.numbers[:, at], lower), upper)

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """Pulls values in to limits: given, at two quantiles, or a number of quartile distances beyond the quartiles."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    lower: Annotated[float | None, Doc("no value below this")] = None
    upper: Annotated[float | None, Doc("no value above this")] = None
    quantile: Annotated[float | None, AtLeast(0.0), Doc("0.01: to the 1st and the 99th percentile")] = None
    iqr: Annotated[float | None, AtLeast(0.0), Doc("1.5: to 1.5 quartile distances beyond the quartiles")] = None

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; exactly one way to set the limits."""
        ways = [self.lower is not None or self.upper is not None, self.quantile is not None, self.iqr is not None]
        if sum(ways) != 1:
            raise InputError.one(where, "needs one way to set the limits", "give lower/upper, quantile or iqr")
        if self.quantile is not None and self.quantile >= 0.5:
            raise InputError.one(where, f"quantile {self.quantile:g} is not below 0.5", "write 0.01")
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise InputError.one(where, f"lower {self.lower:g} is not below upper {self.upper:g}", "swap them")
        return replace(self, columns=columns.chosen(self.columns, ("number",), where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The order of the values, unless the limits are given."""
        if self.lower is not None or self.upper is not None:
            return ()
        return tuple(QuantilesNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Clipped, ...]:
        """The limits of every column."""
        orders = [cast(Quantiles, found[need]) for need in self.needs(columns)]
        if self.quantile is not None:
            limits = [(one.at(self.quantile), one.at(1 - self.quantile)) for one in orders]
        elif self.iqr is not None:
            limits = [_fences(one, self.iqr) for one in orders]
        else:
            lower = -_MOST if self.lower is None else self.lower
            limits = [(lower, _MOST if self.upper is None else self.upper)] * len(self.columns)
        if not self.columns:
            return ()
        return (Clipped(columns=self.columns, lower=tuple(x for x, _ in limits), upper=tuple(x for _, x in limits)),)


def _fences(order: Quantiles, times: float) -> tuple[float, float]:
    """Tukey's fences."""
    low, high = order.at(0.25), order.at(0.75)
    return low - times * (high - low), high + times * (high - low)
