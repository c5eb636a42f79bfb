"""Quantile transform (uniform or normal), and rows scaled to unit norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import QuantileSketch, QuantilesRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ColumnNames, Columns
from gpuyard.datasets.step import ColumnPart, ColumnStep, Operation, Statistics
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

MAX_POINTS = 10_000
_EDGE = 1e-7  # normal ranks stay this far from 0 and 1, as scikit-learn's do


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedQuantileMap(ColumnPart):
    """Piecewise linear map of one column from values to ranks."""

    values: tuple[float, ...]
    ranks: tuple[float, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column).cast(pl.Float64)
        return (column.map_batches(self._ranks, return_dtype=pl.Float64),)

    def _ranks(self, series: pl.Series) -> pl.Series:
        ranks = pl.Series(np.interp(series.fill_null(0.0).to_numpy(), self.values, self.ranks))
        return ranks.zip_with(series.is_not_null(), pl.Series([None], dtype=pl.Float64))

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.column: "Float64"})

    def numpy_operation(self, slots: Slots) -> Operation:
        at = slots.number(self.column)
        values, ranks = np.array(self.values), np.array(self.ranks)

        def run(batch: RowBatch) -> None:
            column = batch.numbers[:, at]
            batch.numbers[:, at] = np.where(
                np.isnan(column), column, np.interp(column, values, ranks)
            )

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileMap(ColumnStep):
    """Replace every value by its rank among the training values, uniform or normal."""

    PARTS = (FittedQuantileMap,)
    REQUEST = QuantilesRequest
    IN_PLACE = True
    columns: ColumnNames = ("*",)
    points: Annotated[int, AtLeast(2), Doc("quantiles of the map, at most 10000")] = 1000
    shape: Annotated[Literal["even", "bell"], Doc("output: uniform or normal distribution")] = (
        "even"
    )

    def check(self, where: str) -> None:
        """Raise InputError for too many points."""
        if self.points > MAX_POINTS:
            raise InputError.one(
                where, f"{self.points} points are too many", f"write {MAX_POINTS} or fewer"
            )

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedQuantileMap, ...]:  # noqa: ARG002
        return tuple(
            self._map(name, cast(QuantileSketch, statistics[QuantilesRequest(column=name)]))
            for name in self.columns
        )

    def _map(self, name: str, sketch: QuantileSketch) -> FittedQuantileMap:
        from scipy.special import ndtri

        ratios = np.linspace(0.0, 1.0, self.points)
        values = np.array([sketch.at(float(ratio)) for ratio in ratios])
        distinct, inverse = np.unique(values, return_inverse=True)
        # a repeated value gets the middle of its ranks
        ranks = np.bincount(inverse, weights=ratios) / np.bincount(inverse)
        if self.shape == "bell":
            ranks = ndtri(np.clip(ranks, _EDGE, 1 - _EDGE))
        return FittedQuantileMap(
            column=name, values=tuple(distinct.tolist()), ranks=tuple(ranks.tolist())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLength(ColumnStep):
    """Divide the columns of each row by their norm; nulls count as 0, a row of zeros stays."""

    columns: ColumnNames = ("*",)
    norm: Annotated[Literal["l2", "l1", "max"], Doc("norm of a row")] = "l2"

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[UnitLength, ...]:  # noqa: ARG002
        """Return the step itself, unless it has no columns."""
        return (self,) if self.columns else ()

    def expressions(self) -> tuple[pl.Expr, ...]:
        sizes = [pl.col(name).cast(pl.Float64).fill_null(0.0).abs() for name in self.columns]
        if self.norm == "max":
            norm = pl.max_horizontal(sizes)
        elif self.norm == "l1":
            norm = pl.sum_horizontal(sizes)
        else:
            norm = pl.sum_horizontal([size * size for size in sizes]).sqrt()
        norm = pl.when(norm > 0).then(norm).otherwise(1.0)
        return tuple(pl.col(name).cast(pl.Float64) / norm for name in self.columns)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.columns, "Float64"))

    def numpy_operation(self, slots: Slots) -> Operation:
        at = slots.numbers(self.columns)

        def run(batch: RowBatch) -> None:
            values = batch.numbers[:, at]
            size = np.abs(np.nan_to_num(values, nan=0.0))
            if self.norm == "max":
                norm = size.max(axis=1)
            elif self.norm == "l1":
                norm = size.sum(axis=1)
            else:
                norm = np.sqrt((size * size).sum(axis=1))
            batch.numbers[:, at] = values / np.where(norm > 0, norm, 1.0)[:, None]

        return run
