"""New columns from old ones: buckets, products, parts of dates; and columns chosen or left out."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Moments, MomentsNeed, Quantiles, QuantilesNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import Found, Need, Operation, Unlearned
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError

__all__ = ["Bucketed", "Bucketise", "Drop", "Polynomial"]

_ANY: tuple[Kind, ...] = ("number", "bool", "text", "time", "other")
MAX_PRODUCTS = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucketed:
    """The number of edges that a value has reached: 0 below the first; a null stays null."""

    column: str
    edges: tuple[float, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def name(self) -> str:
        """The new column."""
        return f"{self.column}_bin"

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The buckets: counting edges is faster than searching them while they are few."""
        column = pl.col(self.column).cast(pl.Float64)
        if len(self.edges) <= 16:
            reached = pl.sum_horizontal([(column >= edge).cast(pl.UInt16) for edge in self.edges])
        else:
            reached = column.fill_null(0.0).map_batches(self._series, return_dtype=pl.UInt16)
        return (pl.when(column.is_not_null()).then(reached).cast(pl.UInt16).alias(self.name),)

    def _series(self, series: pl.Series) -> pl.Series:
        """The buckets of a column without nulls."""
        return pl.Series(np.searchsorted(np.array(self.edges), series.to_numpy(), side="right").astype(np.uint16))

    def after(self, columns: Columns) -> Columns:
        """With the new column."""
        return columns.changed({self.name: "UInt16"})

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        source, at, edges = slots.number(self.column), slots.number(self.name), np.array(self.edges)

        def run(batch: Batch) -> None:
            """Finds the buckets; NaN stays."""
            column = batch.numbers[:, source]
            batch.numbers[:, at] = np.where(np.isnan(column), np.nan, np.searchsorted(edges, column, side="right"))

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucketise:
    """The bucket of each value as a new column: between given edges, of equal width, or with equally many rows."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    edges: Annotated[tuple[float, ...], Doc("where buckets begin, rising")] = ()
    buckets: Annotated[int | None, AtLeast(2), Doc("how many, at most 10000")] = None
    by: Annotated[Literal["rows", "width"], Doc("equally many rows, or equally wide")] = "rows"

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; edges or a number of buckets."""
        if bool(self.edges) == (self.buckets is not None):
            raise InputError.one(where, "needs edges or a number of buckets", "give edges: [..] or buckets: N")
        if list(self.edges) != sorted(set(self.edges)):
            raise InputError.one(where, "edges do not rise", "write each once, the least first")
        if len(self.edges) > 10_000 or (self.buckets or 0) > 10_000:
            raise InputError.one(where, "too many buckets", "write 10000 or fewer")
        return replace(self, columns=columns.chosen(self.columns, ("number",), where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """What the edges follow from."""
        if self.edges:
            return ()
        if self.by == "width":
            return tuple(MomentsNeed(column=name) for name in self.columns)
        return tuple(QuantilesNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Bucketed, ...]:  # noqa: ARG002
        """The edges of every column."""
        return tuple(Bucketed(column=name, edges=self._edges(name, found)) for name in self.columns)

    def _edges(self, name: str, found: Found) -> tuple[float, ...]:
        """The edges of one column."""
        if self.buckets is None:
            return self.edges
        inner = [place / self.buckets for place in range(1, self.buckets)]
        if self.by == "width":
            moments = cast(Moments, found[MomentsNeed(column=name)])
            width = moments.greatest - moments.least
            return tuple(sorted({moments.least + width * ratio for ratio in inner}))
        order = cast(Quantiles, found[QuantilesNeed(column=name)])
        return tuple(sorted({order.at(ratio) for ratio in inner}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial(Unlearned):
    """Products of two or more of the columns as new columns: a*b, and a*a unless only interactions are wanted."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    degree: Annotated[int, AtLeast(2), Doc("factors of a product, at most 5")] = 2
    interactions: Annotated[bool, Doc("only products of different columns")] = False

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; a limit on the number of products."""
        new = replace(self, columns=columns.chosen(self.columns, ("number", "bool"), where))
        if self.degree > 5:
            raise InputError.one(where, f"degree {self.degree} is above 5", "write 2 or 3")
        if len(new.products) > MAX_PRODUCTS:
            raise InputError.one(where, f"{len(new.products)} products", f"name fewer columns (at most {MAX_PRODUCTS})")
        return new

    @property
    def products(self) -> tuple[tuple[str, ...], ...]:
        """The factors of every new column."""
        choose = itertools.combinations if self.interactions else itertools.combinations_with_replacement
        return tuple(names for size in range(2, self.degree + 1) for names in choose(self.columns, size))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The products."""
        new = []
        for names in self.products:
            product = pl.col(names[0]).cast(pl.Float64)
            for name in names[1:]:
                product = product * pl.col(name).cast(pl.Float64)
            new.append(product.alias("*".join(names)))
        return tuple(new)

    def after(self, columns: Columns) -> Columns:
        """With the new columns."""
        return columns.changed({"*".join(names): "Float64" for names in self.products})

    def compiled(self, slots: Slots) -> Operation:
        """The same in NumPy."""
        factors = [[slots.number(name) for name in names] for names in self.products]
        at = slots.numbers(tuple("*".join(names) for names in self.products))
        wide = np.array([[*places, *[-1] * (self.degree - len(places))] for places in factors], dtype=np.intp)

        def run(batch: Batch) -> None:
            """Multiplies the rows, factor by factor."""
            product = batch.numbers[:, wide[:, 0]] * batch.numbers[:, wide[:, 1]]
            for place in range(2, wide.shape[1]):
                more = wide[:, place] >= 0
                product[:, more] *= batch.numbers[:, wide[more, place]]
            batch.numbers[:, at] = product

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Unlearned):
    """Columns left out from here on."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _ANY, where))

    @property
    def reads(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Nothing."""
        return ()

    def after(self, columns: Columns) -> Columns:
        """Without them."""
        return columns.changed({}, self.columns)

    def compiled(self, slots: Slots) -> Operation:  # noqa: ARG002
        """Nothing."""
        return lambda batch: None  # noqa: ARG005
