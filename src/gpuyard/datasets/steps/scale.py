"""Columns of numbers on one scale: z-score, least to greatest, median and quartiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Moments, MomentsNeed, Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import Doc
from gpuyard.errors import InputError

__all__ = ["Affine", "MinMax", "Robust", "ZScore"]

_NUMBERS: tuple[Kind, ...] = ("number", "bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class Affine:
    """(x - shift) / scale of every column."""

    columns: tuple[str, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The scaled columns."""
        rows = zip(self.columns, self.shift, self.scale, strict=True)
        return tuple((pl.col(name).cast(pl.Float64) - shift) / scale for name, shift, scale in rows)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed(dict.fromkeys(self.columns, "Float64"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        at, shift, scale = slots.numbers(self.columns), np.array(self.shift), np.array(self.scale)

        def run(batch: Batch) -> None:
            """Scales the rows."""
            batch.numbers[:, at] = (batch.numbers[:, at] - shift) / scale

        return run


def _affine(columns: Iterable[str], pairs: Iterable[tuple[float, float]]) -> Affine:
    """The step; a column without spread is only shifted."""
    rows = [(shift, scale if scale > 0 else 1.0) for shift, scale in pairs]
    return Affine(
        columns=tuple(columns), shift=tuple(shift for shift, _ in rows), scale=tuple(scale for _, scale in rows)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZScore:
    """Mean 0 and standard deviation 1 (of the population, as scikit-learn's StandardScaler)."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _NUMBERS, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Moments."""
        return tuple(MomentsNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Affine, ...]:
        """Shift by the mean, scale by the deviation."""
        moments = [cast(Moments, found[need]) for need in self.needs(columns)]
        return (_affine(self.columns, ((one.mean, one.deviation) for one in moments)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinMax:
    """The least value of the training rows becomes `low`, the greatest `high`."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    low: float = 0.0
    high: float = 1.0

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; low must be below high."""
        if self.low >= self.high:
            raise InputError.one(where, f"low {self.low:g} is not below high {self.high:g}", "swap them")
        return replace(self, columns=columns.chosen(self.columns, _NUMBERS, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Moments, for the least and the greatest."""
        return tuple(MomentsNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Affine, ...]:
        """The line through (least, low) and (greatest, high)."""
        moments = [cast(Moments, found[need]) for need in self.needs(columns)]
        pairs = []
        for one in moments:
            scale = (one.greatest - one.least) / (self.high - self.low) or 1.0
            pairs.append((one.least - self.low * scale, scale))
        return (_affine(self.columns, pairs),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Robust:
    """Median 0 and distance between the quartiles 1, which outliers do not move."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _NUMBERS, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The order of the values."""
        return tuple(QuantilesNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Affine, ...]:
        """Shift by the median, scale by the distance between the quartiles."""
        orders = [cast(Quantiles, found[need]) for need in self.needs(columns)]
        return (_affine(self.columns, ((one.at(0.5), one.at(0.75) - one.at(0.25)) for one in orders)),)
