"""Derived columns: buckets and polynomial features; and columns to drop."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Moments, MomentsRequest, QuantileSketch, QuantilesRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import ALL_KINDS, Columns, Kind
from gpuyard.datasets.step import (
    ColumnPart,
    ColumnStep,
    Operation,
    StatelessStep,
    Statistics,
    StatRequest,
)
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

MAX_PRODUCTS = 5000
MAX_BUCKETS = 10_000
_FEW_EDGES = 16  # up to here comparing with every edge is faster than a binary search


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedBuckets(ColumnPart):
    """Number of edges that a value has reached: 0 below the first; null stays null."""

    edges: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.column}_bin"

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column).cast(pl.Float64)
        if len(self.edges) <= _FEW_EDGES:
            reached = pl.sum_horizontal([(column >= edge).cast(pl.UInt16) for edge in self.edges])
        else:
            reached = column.fill_null(0.0).map_batches(self._search, return_dtype=pl.UInt16)
        return (pl.when(column.is_not_null()).then(reached).cast(pl.UInt16).alias(self.name),)

    def _search(self, series: pl.Series) -> pl.Series:
        buckets = np.searchsorted(np.array(self.edges), series.to_numpy(), side="right")
        return pl.Series(buckets.astype(np.uint16))

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.name: "UInt16"})

    def numpy_operation(self, slots: Slots) -> Operation:
        source, at = slots.number(self.column), slots.number(self.name)
        edges = np.array(self.edges)

        def run(batch: RowBatch) -> None:
            column = batch.numbers[:, source]
            batch.numbers[:, at] = np.where(
                np.isnan(column), np.nan, np.searchsorted(edges, column, side="right")
            )

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucketise(ColumnStep):
    """Add the bucket of each value: between given edges, of equal width, or of equal size."""

    PARTS = (FittedBuckets,)
    edges: Annotated[tuple[float, ...], Doc("lower ends of the buckets, ascending")] = ()
    buckets: Annotated[int | None, AtLeast(2), Doc("number of buckets, at most 10000")] = None
    by: Annotated[Literal["rows", "width"], Doc("equal number of rows, or equal width")] = "rows"

    def check(self, where: str) -> None:
        """Raise InputError unless there are edges or a number of buckets."""
        if bool(self.edges) == (self.buckets is not None):
            raise InputError.one(
                where, "needs edges or a number of buckets", "set edges: [..] or buckets: N"
            )
        if list(self.edges) != sorted(set(self.edges)):
            raise InputError.one(
                where, "edges are not ascending", "sort them and remove duplicates"
            )
        if len(self.edges) > MAX_BUCKETS or (self.buckets or 0) > MAX_BUCKETS:
            raise InputError.one(where, "too many buckets", f"write {MAX_BUCKETS} or fewer")

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:  # noqa: ARG002
        if self.edges:
            return ()
        request = MomentsRequest if self.by == "width" else QuantilesRequest
        return tuple(request(column=name) for name in self.columns)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedBuckets, ...]:  # noqa: ARG002
        return tuple(
            FittedBuckets(column=name, edges=self._edges(name, statistics)) for name in self.columns
        )

    def _edges(self, name: str, statistics: Statistics) -> tuple[float, ...]:
        if self.buckets is None:
            return self.edges
        ratios = [number / self.buckets for number in range(1, self.buckets)]
        if self.by == "width":
            moments = cast(Moments, statistics[MomentsRequest(column=name)])
            width = moments.max - moments.min
            return tuple(sorted({moments.min + width * ratio for ratio in ratios}))
        sketch = cast(QuantileSketch, statistics[QuantilesRequest(column=name)])
        return tuple(sorted({sketch.at(ratio) for ratio in ratios}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial(ColumnStep, StatelessStep):
    """Add products of two or more columns: a*b, and a*a unless `interactions` is set."""

    KINDS: ClassVar[tuple[Kind, ...]] = ("number", "bool")
    degree: Annotated[int, AtLeast(2), Doc("factors per product, at most 5")] = 2
    interactions: Annotated[bool, Doc("only products of different columns")] = False

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its patterns expanded; raise InputError for too many products."""
        if self.degree > 5:
            raise InputError.one(where, f"degree {self.degree} is above 5", "write 2 or 3")
        new = replace(self, columns=columns.select(self.columns, self.KINDS, where))
        if len(new.products) > MAX_PRODUCTS:
            fix = f"name fewer columns (at most {MAX_PRODUCTS})"
            raise InputError.one(where, f"{len(new.products)} products", fix)
        return new

    @property
    def products(self) -> tuple[tuple[str, ...], ...]:
        """Factors of every new column."""
        choose = (
            itertools.combinations if self.interactions else itertools.combinations_with_replacement
        )
        return tuple(
            names for size in range(2, self.degree + 1) for names in choose(self.columns, size)
        )

    def expressions(self) -> tuple[pl.Expr, ...]:
        new = []
        for names in self.products:
            product = pl.col(names[0]).cast(pl.Float64)
            for name in names[1:]:
                product = product * pl.col(name).cast(pl.Float64)
            new.append(product.alias("*".join(names)))
        return tuple(new)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({"*".join(names): "Float64" for names in self.products})

    def numpy_operation(self, slots: Slots) -> Operation:
        factors = [[slots.number(name) for name in names] for names in self.products]
        at = slots.numbers(tuple("*".join(names) for names in self.products))
        padded = np.array(
            [[*places, *[-1] * (self.degree - len(places))] for places in factors], dtype=np.intp
        )

        def run(batch: RowBatch) -> None:
            product = batch.numbers[:, padded[:, 0]] * batch.numbers[:, padded[:, 1]]
            for place in range(2, padded.shape[1]):
                more = padded[:, place] >= 0
                product[:, more] *= batch.numbers[:, padded[more, place]]
            batch.numbers[:, at] = product

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(ColumnStep, StatelessStep):
    """Drop columns."""

    KINDS: ClassVar[tuple[Kind, ...]] = ALL_KINDS

    @property
    def reads(self) -> tuple[str, ...]:
        """None: dropped columns need not be read."""
        return ()

    def expressions(self) -> tuple[pl.Expr, ...]:
        return ()

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({}, drop=self.columns)

    def numpy_operation(self, slots: Slots) -> Operation:  # noqa: ARG002
        return lambda batch: None  # noqa: ARG005
