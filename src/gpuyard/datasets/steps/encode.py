"""Categories as numbers: one column each, an order, a bucket of a hash, the mean of the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self, cast
from zlib import crc32

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Counts, CountsNeed, as_text
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.hashing import hashed
from gpuyard.datasets.step import Found, Need, Operation
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError

__all__ = ["Hash", "Hashed", "OneHot", "OneHotted", "Ordered", "Ordinal", "category_expr", "category_lists"]

CATEGORIES: tuple[Kind, ...] = ("number", "bool", "text")


def category_expr(name: str, texts: bool, keys: Sequence[str], values: Sequence[float], unseen: float) -> pl.Expr:
    """A column's categories replaced by numbers; null stays null."""
    column = pl.col(name) if texts else pl.col(name).cast(pl.Float64)
    old = list(keys) if texts else [float(key) for key in keys]
    if not old:
        return pl.when(column.is_not_null()).then(pl.lit(unseen))
    new = column.replace_strict(old, list(values), default=unseen, return_dtype=pl.Float64)
    return pl.when(column.is_not_null()).then(new)


def category_lists(batch: Batch, place: str | int) -> list[str | None]:
    """A column's categories as texts."""
    if isinstance(place, str):
        return batch.texts[place]
    return [None if np.isnan(value) else as_text(float(value)) for value in batch.numbers[:, place]]


def _place(slots: Slots, name: str, texts: bool) -> str | int:
    """Where a column of categories stands."""
    return slots.text(name) if texts else slots.number(name)


def _texts(columns: Columns, name: str) -> bool:
    """Whether a column holds texts."""
    column = columns.get(name)
    return column is not None and column.kind == "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHotted:
    """One column of truth for each category; one that was never seen, and a null, is 0 everywhere."""

    column: str
    texts: bool
    categories: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def names(self) -> tuple[str, ...]:
        """The new columns."""
        return tuple(f"{self.column}={category}" for category in self.categories)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The new columns; categories become numbers once, which are compared faster than texts."""
        if self.texts:
            code = pl.col(self.column).cast(pl.Enum(list(self.categories)), strict=False).to_physical()
        else:
            places = [float(place) for place in range(len(self.categories))]
            code = category_expr(self.column, False, self.categories, places, -1.0)
        return tuple((code == place).fill_null(False).alias(name) for place, name in enumerate(self.names))

    def after(self, columns: Columns) -> Columns:
        """The new columns in place of the old."""
        return columns.changed(dict.fromkeys(self.names, "Boolean"), (self.column,))

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        place = _place(slots, self.column, self.texts)
        at = {category: slots.number(name) for category, name in zip(self.categories, self.names, strict=True)}
        every = slots.numbers(self.names)

        def run(batch: Batch) -> None:
            """Sets the ones."""
            batch.numbers[:, every] = 0.0
            for row, category in enumerate(category_lists(batch, place)):
                if category in at:
                    batch.numbers[row, at[category]] = 1.0

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHot:
    """One column of truth (0 or 1) for each of the most frequent categories."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    most: Annotated[int, AtLeast(1), Doc("categories of a column, at most 10000")] = 100
    least: Annotated[int, AtLeast(1), Doc("rows that a category must have")] = 1

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        if self.most > 10_000:
            raise InputError.one(where, f"{self.most} columns are too many", "use hash or target")
        kinds: tuple[Kind, ...] = ("text",) if any("*" in name for name in self.columns) else CATEGORIES
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """How often each category occurs."""
        return tuple(CountsNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[OneHotted, ...]:
        """The categories of every column, by their name."""
        parts = []
        for name in self.columns:
            counts = cast(Counts, found[CountsNeed(column=name)])
            often = sorted(zip(counts.values, counts.counts, strict=True), key=lambda pair: (-pair[1], pair[0]))
            kept = sorted(value for value, count in often[: self.most] if count >= self.least)
            parts.append(OneHotted(column=name, texts=_texts(columns, name), categories=tuple(kept)))
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Each category its place in an order; one that was never seen is -1, a null stays null."""

    column: str
    texts: bool
    categories: tuple[str, ...]

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The places."""
        places = [float(place) for place in range(len(self.categories))]
        return (category_expr(self.column, self.texts, self.categories, places, -1.0).alias(self.column),)

    def after(self, columns: Columns) -> Columns:
        """The same name, as floats."""
        return columns.changed({self.column: "Float64"})

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        place, at = _place(slots, self.column, self.texts), slots.number(self.column)
        places = {category: float(number) for number, category in enumerate(self.categories)}

        def run(batch: Batch) -> None:
            """Looks the rows up."""
            batch.numbers[:, at] = [
                np.nan if category is None else places.get(category, -1.0) for category in category_lists(batch, place)
            ]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal:
    """Each category its place in an order: the one given, or that of the alphabet (of size for numbers)."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    order: Annotated[tuple[str, ...], Doc("the categories from first to last")] = ()

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        kinds: tuple[Kind, ...] = ("text",) if any("*" in name for name in self.columns) else CATEGORIES
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """The categories, unless they are given."""
        return () if self.order else tuple(CountsNeed(column=name) for name in self.columns)

    def fitted(self, found: Found, columns: Columns) -> tuple[Ordered, ...]:
        """The order of every column."""
        parts = []
        for name in self.columns:
            texts, order = _texts(columns, name), self.order
            if not order:
                values = cast(Counts, found[CountsNeed(column=name)]).values
                order = tuple(sorted(values) if texts else sorted(values, key=float))
            parts.append(Ordered(column=name, texts=texts, categories=order))
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """Each text the bucket of its CRC-32; a null stays null."""

    column: str
    texts: bool
    buckets: int

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def name(self) -> str:
        """The new column."""
        return f"{self.column}_hash"

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The buckets."""
        column = pl.col(self.column)
        if not self.texts:
            whole = column.cast(pl.Float64)
            column = pl.when(whole == whole.floor()).then(whole.cast(pl.Int64, strict=False).cast(pl.String))
        return (column.map_batches(self._series, return_dtype=pl.UInt32).alias(self.name),)

    def _series(self, series: pl.Series) -> pl.Series:
        """The buckets of a column."""
        return hashed(series, self.buckets)

    def after(self, columns: Columns) -> Columns:
        """The new column in place of the old."""
        return columns.changed({self.name: "UInt32"}, (self.column,))

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python."""
        place, at, buckets = _place(slots, self.column, self.texts), slots.number(self.name), self.buckets

        def run(batch: Batch) -> None:
            """Hashes the rows."""
            batch.numbers[:, at] = [
                np.nan if text is None else float(crc32(text.encode()) % buckets)
                for text in category_lists(batch, place)
            ]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash:
    """Each category the number of a bucket: nothing to learn, any number of categories (of numbers: whole ones)."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    buckets: Annotated[int, AtLeast(2), Doc("how many, at most 2^31")] = 1024

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        if self.buckets > 2**31:
            raise InputError.one(where, f"{self.buckets} buckets are too many", "write 2147483648 or fewer")
        kinds: tuple[Kind, ...] = ("text",) if any("*" in name for name in self.columns) else CATEGORIES
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Hashed, ...]:  # noqa: ARG002
        """One part a column."""
        return tuple(Hashed(column=name, texts=_texts(columns, name), buckets=self.buckets) for name in self.columns)
