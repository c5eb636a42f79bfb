"""Values replaced by their rank, even or bell-shaped; and rows of length one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError

__all__ = ["QuantileMap", "Ranked", "UnitLength"]

_EDGE = 1e-7  # ranks of a bell stay this far from 0 and 1, as scikit-learn's do


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One column by the curve through (value, rank)."""

    column: str
    values: tuple[float, ...]
    ranks: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The ranks."""
        return (pl.col(self.column).cast(pl.Float64).map_batches(self._series, return_dtype=pl.Float64),)

    def _series(self, series: pl.Series) -> pl.Series:
        """The ranks of a column; null stays null."""
        ranks = pl.Series(np.interp(series.fill_null(0.0).to_numpy(), self.values, self.ranks))
        return ranks.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.Float64))

    def after(self, columns: Columns) -> Columns:
        """The same name, as floats."""
        return columns.changed({self.column: "Float64"})

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        at, values, ranks = slots.number(self.column), np.array(self.values), np.array(self.ranks)

        def run(batch: Batch) -> None:
            """Ranks the rows; NaN stays."""
            column = batch.numbers[:, at]
            batch.numbers[:, at] = np.where(np.isnan(column), column, np.interp(column, values, ranks))

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileMap:
    """Every value replaced by the part of training values below it, even from 0 to 1 or as a bell."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    points: Annotated[int, AtLeast(2), Doc("of the curve, at most 10000")] = 1000
    shape: Annotated[Literal["even", "bell"], Doc("of the values that come out")] = "even"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        if self.points > 10_000:
            raise InputError.one(where, f"{self.points} points are too many", "write 10000 or fewer")
        return replace(self, columns=columns.chosen(self.columns, ("number",), where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The values in order."""
        return tuple(QuantilesNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Ranked, ...]:
        """A curve for every column."""
        orders = [cast(Quantiles, found[need]) for need in self.needs(columns)]
        return tuple(self._curve(name, one) for name, one in zip(self.columns, orders, strict=True))

    def _curve(self, name: str, order: Quantiles) -> Ranked:
        """The curve of one column; values that repeat get the middle of their ranks."""
        from scipy.special import ndtri

        ratios = np.linspace(0.0, 1.0, self.points)
        values = np.array([order.at(float(ratio)) for ratio in ratios])
        distinct, inverse = np.unique(values, return_inverse=True)
        ranks = np.bincount(inverse, weights=ratios) / np.bincount(inverse)
        if self.shape == "bell":
            ranks = ndtri(np.clip(ranks, _EDGE, 1 - _EDGE))
        return Ranked(column=name, values=tuple(distinct.tolist()), ranks=tuple(ranks.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength:
    """The columns of each row divided by their length; a row of zeros stays; a null counts as 0 in the length."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    norm: Annotated[Literal["l2", "l1", "max"], Doc("how the length is measured")] = "l2"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, ("number",), where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Self, ...]:  # noqa: ARG002
        """Itself."""
        return (self,) if self.columns else ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The divided columns."""
        sizes = [pl.col(name).cast(pl.Float64).fill_null(0.0).abs() for name in self.columns]
        if self.norm == "max":
            length = pl.max_horizontal(sizes)
        elif self.norm == "l1":
            length = pl.sum_horizontal(sizes)
        else:
            length = pl.sum_horizontal([size * size for size in sizes]).sqrt()
        length = pl.when(length > 0).then(length).otherwise(1.0)
        return tuple(pl.col(name).cast(pl.Float64) / length for name in self.columns)

    def after(self, columns: Columns) -> Columns:
        """The same names, as floats."""
        return columns.changed(dict.fromkeys(self.columns, "Float64"))

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        at = slots.numbers(self.columns)

        def run(batch: Batch) -> None:
            """Divides the rows."""
            part = batch.numbers[:, at]
            size = np.abs(np.nan_to_num(part, nan=0.0))
            if self.norm == "max":
                length = size.max(axis=1)
            else:
                length = size.sum(axis=1) if self.norm == "l1" else np.sqrt((size * size).sum(axis=1))
            batch.numbers[:, at] = part / np.where(length > 0, length, 1.0)[:, None]

        return run
