"""Categorical encodings: one-hot, ordinal, hash buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, cast
from zlib import crc32

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Counts, CountsRequest, as_text
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.hashing import hash_buckets
from gpuyard.datasets.step import ColumnPart, ColumnStep, Operation, Statistics, StatRequest
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

MAX_ONE_HOT = 10_000
MAX_BUCKETS = 2**31
_UNSEEN = -1.0  # ordinal of a category that the training rows do not have


def category_expr(
    name: str, texts: bool, keys: Sequence[str], values: Sequence[float], unseen: float
) -> pl.Expr:
    """Return a column with its categories replaced by numbers; null stays null."""
    column = pl.col(name) if texts else pl.col(name).cast(pl.Float64)
    old = list(keys) if texts else [float(key) for key in keys]
    if not old:
        return pl.when(column.is_not_null()).then(pl.lit(unseen))
    new = column.replace_strict(old, list(values), default=unseen, return_dtype=pl.Float64)
    return pl.when(column.is_not_null()).then(new)


def category_lists(batch: RowBatch, place: str | int) -> list[str | None]:
    """Return the categories of a column as texts."""
    if isinstance(place, str):
        return batch.texts[place]
    return [None if np.isnan(value) else as_text(float(value)) for value in batch.numbers[:, place]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryPart(ColumnPart):
    """Fitted part that reads one column of categories."""

    texts: bool  # whether categories are texts or numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryStep(ColumnStep):
    """Step over columns of categories; a pattern selects text columns only."""

    def kinds(self) -> tuple[Kind, ...]:
        if any("*" in name for name in self.columns):
            return ("text",)
        return ("number", "bool", "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedOneHot(CategoryPart):
    """One boolean column per category; unseen categories and nulls are 0 everywhere."""

    categories: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}={category}" for category in self.categories)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the new columns; categories are coded as integers once, to compare faster."""
        if self.texts:
            categories = pl.Enum(list(self.categories))
            code = pl.col(self.column).cast(categories, strict=False).to_physical()
        else:
            codes = [float(code) for code in range(len(self.categories))]
            code = category_expr(self.column, False, self.categories, codes, _UNSEEN)
        return tuple(
            (code == number).fill_null(False).alias(name) for number, name in enumerate(self.names)
        )

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns(dict.fromkeys(self.names, "Boolean"), drop=(self.column,))

    def numpy_operation(self, slots: Slots) -> Operation:
        place = slots.place(self.column, self.texts)
        every = slots.numbers(self.names)
        at = {
            category: slots.number(name)
            for category, name in zip(self.categories, self.names, strict=True)
        }

        def run(batch: RowBatch) -> None:
            batch.numbers[:, every] = 0.0
            for row, category in enumerate(category_lists(batch, place)):
                if category in at:
                    batch.numbers[row, at[category]] = 1.0

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHot(CategoryStep):
    """One column (0 or 1) for each of the most frequent categories."""

    PARTS = (FittedOneHot,)
    REQUEST = CountsRequest
    most: Annotated[int, AtLeast(1), Doc("maximum categories per column, at most 10000")] = 100
    least: Annotated[int, AtLeast(1), Doc("minimum rows per category")] = 1

    def check(self, where: str) -> None:
        """Raise InputError for too many columns."""
        if self.most > MAX_ONE_HOT:
            raise InputError.one(where, f"{self.most} columns are too many", "use hash or target")

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedOneHot, ...]:
        parts = []
        for name in self.columns:
            counts = cast(Counts, statistics[CountsRequest(column=name)])
            frequent = counts.by_frequency()[: self.most]
            categories = sorted(value for value, count in frequent if count >= self.least)
            parts.append(
                FittedOneHot(column=name, texts=columns.is_text(name), categories=tuple(categories))
            )
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedOrdinal(CategoryPart):
    """Index of each category in an order; unseen categories are -1, null stays null."""

    categories: tuple[str, ...]

    def expressions(self) -> tuple[pl.Expr, ...]:
        codes = [float(code) for code in range(len(self.categories))]
        new = category_expr(self.column, self.texts, self.categories, codes, _UNSEEN)
        return (new.alias(self.column),)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.column: "Float64"})

    def numpy_operation(self, slots: Slots) -> Operation:
        place = slots.place(self.column, self.texts)
        at = slots.number(self.column)
        codes = {category: float(code) for code, category in enumerate(self.categories)}

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = [
                np.nan if category is None else codes.get(category, _UNSEEN)
                for category in category_lists(batch, place)
            ]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordinal(CategoryStep):
    """Index of each category in an order: given, or sorted."""

    PARTS = (FittedOrdinal,)
    REQUEST = CountsRequest
    order: Annotated[tuple[str, ...], Doc("the categories from first to last")] = ()

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:
        """Return the category counts of every column, unless the order is given."""
        return () if self.order else ColumnStep.requests(self, columns)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedOrdinal, ...]:
        parts = []
        for name in self.columns:
            texts, order = columns.is_text(name), self.order
            if not order:
                values = cast(Counts, statistics[CountsRequest(column=name)]).values
                order = tuple(sorted(values) if texts else sorted(values, key=float))
            parts.append(FittedOrdinal(column=name, texts=texts, categories=order))
        return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedHash(CategoryPart):
    """Bucket of each text by its CRC-32; null stays null."""

    buckets: int

    @property
    def name(self) -> str:
        return f"{self.column}_hash"

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column)
        if not self.texts:
            number = column.cast(pl.Float64)
            integer = number.cast(pl.Int64, strict=False).cast(pl.String)
            column = pl.when(number == number.floor()).then(integer)
        return (column.map_batches(self._hash, return_dtype=pl.UInt32).alias(self.name),)

    def _hash(self, series: pl.Series) -> pl.Series:
        return hash_buckets(series, self.buckets)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.name: "UInt32"}, drop=(self.column,))

    def numpy_operation(self, slots: Slots) -> Operation:
        place = slots.place(self.column, self.texts)
        at = slots.number(self.name)

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = [
                np.nan if text is None else float(crc32(text.encode()) % self.buckets)
                for text in category_lists(batch, place)
            ]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Hash(CategoryStep):
    """Hash bucket of each category: no fit, any number of categories; numbers must be integers."""

    PARTS = (FittedHash,)
    buckets: Annotated[int, AtLeast(2), Doc("number of buckets, at most 2^31")] = 1024

    def check(self, where: str) -> None:
        """Raise InputError for too many buckets."""
        if self.buckets > MAX_BUCKETS:
            raise InputError.one(
                where, f"{self.buckets} buckets are too many", f"write {MAX_BUCKETS} or fewer"
            )

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[FittedHash, ...]:  # noqa: ARG002
        return tuple(
            FittedHash(column=name, texts=columns.is_text(name), buckets=self.buckets)
            for name in self.columns
        )
