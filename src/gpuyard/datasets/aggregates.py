"""Statistics of columns that partitions gather alone and merge in order: the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import polars as pl

from gpuyard.datasets.step import FOLD
from gpuyard.errors import InputError

__all__ = [
    "Counts", "CountsNeed", "Distinct", "DistinctNeed", "GroupMeans", "GroupMeansNeed", "Moments", "MomentsNeed",
    "Quantiles", "QuantilesNeed", "as_text",
]  # fmt: skip

POINTS = 131_072  # of a partition and column; where it has more values, ranks are right to 1 in POINTS
MAX_CATEGORIES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Count, mean, squared distance from it, least and greatest of the values; nulls are counted apart."""

    count: int
    nulls: int
    mean: float
    squares: float  # sum of (x - mean)²
    least: float
    greatest: float

    @property
    def deviation(self) -> float:
        """The standard deviation of the population."""
        return float((self.squares / self.count) ** 0.5) if self.count else 0.0

    def merged(self, other: Moments) -> Moments:
        """The moments of both (Chan, Golub and LeVeque 1979)."""
        if not self.count or not other.count:
            full = self if self.count else other
            return Moments(
                count=full.count, nulls=self.nulls + other.nulls, mean=full.mean, squares=full.squares,
                least=full.least, greatest=full.greatest,
            )  # fmt: skip
        count, apart = self.count + other.count, other.mean - self.mean
        return Moments(
            count=count,
            nulls=self.nulls + other.nulls,
            mean=self.mean + apart * other.count / count,
            squares=self.squares + other.squares + apart**2 * self.count * other.count / count,
            least=min(self.least, other.least),
            greatest=max(self.greatest, other.greatest),
        )

    def filled(self, value: float, count: int) -> Moments:
        """The moments once `count` of the nulls hold `value`."""
        full = Moments(count=count, nulls=-count, mean=value, squares=0.0, least=value, greatest=value)
        return self.merged(full) if count else self


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsNeed:
    """Asks for the moments of a column of numbers."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Count, nulls, mean, variance, least, greatest."""
        column = pl.col(self.column).cast(pl.Float64)
        return column.count(), column.null_count(), column.mean(), column.var(ddof=0), column.min(), column.max()

    def aggregate(self, values: Sequence[object]) -> Moments:
        """The moments of a partition."""
        count, nulls, mean, variance, least, greatest = (float(cast(float, value or 0.0)) for value in values)
        return Moments(
            count=int(count), nulls=int(nulls), mean=mean, squares=variance * count, least=least, greatest=greatest
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantiles:
    """Values in order, and how many values each stands for."""

    values: np.ndarray
    weights: np.ndarray
    nulls: int

    @property
    def count(self) -> float:
        """How many values there were."""
        return float(self.weights.sum())

    def at(self, ratio: float) -> float:
        """The value below which that part of the values lies, between two neighbours in proportion."""
        if not len(self.values):
            return 0.0
        rank = ratio * (self.count - 1)
        ends = np.cumsum(self.weights)
        if self.weights.max() <= 1:  # every value is here: exact, as NumPy's linear method
            low = int(np.floor(rank))
            high = min(low + 1, len(self.values) - 1)
            return float(self.values[low] + (self.values[high] - self.values[low]) * (rank - low))
        return float(np.interp(rank, ends - (self.weights + 1) / 2, self.values))

    def merged(self, other: Quantiles) -> Quantiles:
        """The values of both, in order."""
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        weights = np.concatenate([self.weights, other.weights])[order]
        return Quantiles(values=values[order], weights=weights, nulls=self.nulls + other.nulls)

    def filled(self, value: float, count: int) -> Quantiles:
        """The values once `count` of the nulls hold `value`."""
        if not count:
            return self
        one = Quantiles(values=np.array([value]), weights=np.array([float(count)]), nulls=-count)
        return self.merged(one)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantilesNeed:
    """Asks for the order of a column's values; exact up to POINTS values a partition."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The values in order, and the number of nulls."""
        column = pl.col(self.column).to_physical().cast(pl.Float64)  # a time as its number
        return column.drop_nulls().sort().implode(), column.null_count()

    def aggregate(self, values: Sequence[object]) -> Quantiles:
        """The order of a partition's values, thinned to POINTS."""
        ordered = cast(pl.Series, values[0]).to_numpy()
        nulls = int(cast(int, values[1]))
        if len(ordered) <= POINTS:
            return Quantiles(values=ordered, weights=np.ones(len(ordered)), nulls=nulls)
        edges = np.linspace(0, len(ordered), POINTS + 1).astype(np.int64)
        middle = (edges[:-1] + edges[1:] - 1) // 2
        return Quantiles(values=ordered[middle], weights=np.diff(edges).astype(np.float64), nulls=nulls)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often each value stands in a column; a number is its shortest text."""

    values: tuple[str, ...]
    counts: tuple[int, ...]
    nulls: int

    def merged(self, other: Counts) -> Counts:
        """The counts of both."""
        total = dict(zip(self.values, self.counts, strict=True))
        for value, count in zip(other.values, other.counts, strict=True):
            total[value] = total.get(value, 0) + count
        if len(total) > MAX_CATEGORIES:
            raise InputError.one("steps", f"a column has over {MAX_CATEGORIES:,} categories", "use `hash` for it")
        return Counts(values=tuple(total), counts=tuple(total.values()), nulls=self.nulls + other.nulls)

    def filled(self, value: str, count: int) -> Counts:
        """The counts once `count` of the nulls hold `value`."""
        return self.merged(Counts(values=(value,), counts=(count,), nulls=-count)) if count else self


def as_text(value: object) -> str:
    """A category as text: a whole number without its point."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsNeed:
    """Asks how often each value of a column occurs."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Values with their counts, and the number of nulls."""
        column = pl.col(self.column)
        return column.drop_nulls().value_counts(name="__count").implode(), column.null_count()

    def aggregate(self, values: Sequence[object]) -> Counts:
        """The counts of a partition."""
        table = cast(pl.Series, values[0]).struct.unnest()
        texts = tuple(as_text(value) for value in table.to_series(0))
        return Counts(values=texts, counts=tuple(table["__count"]), nulls=int(cast(int, values[1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """The values of a column, as long as they are few."""

    values: tuple[str, ...]
    most: int

    @property
    def few(self) -> bool:
        """Whether these are all."""
        return len(self.values) <= self.most

    def merged(self, other: Distinct) -> Distinct:
        """The values of both."""
        values = tuple(dict.fromkeys((*self.values, *other.values)))
        return Distinct(values=values[: self.most + 1], most=self.most)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctNeed:
    """Asks for the values of a column, up to a number of them."""

    column: str
    most: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The values, one more than the most if there are."""
        return (pl.col(self.column).drop_nulls().unique().sort().head(self.most + 1).implode(),)

    def aggregate(self, values: Sequence[object]) -> Distinct:
        """The values of a partition."""
        return Distinct(values=tuple(as_text(value) for value in cast(pl.Series, values[0])), most=self.most)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupMeans:
    """The sum and the number of a column's values by group and, where asked for, by fold."""

    groups: tuple[str, ...]
    sums: np.ndarray  # [groups, folds]
    counts: np.ndarray

    def merged(self, other: GroupMeans) -> GroupMeans:
        """The sums and numbers of both."""
        groups = tuple(dict.fromkeys((*self.groups, *other.groups)))
        place = {group: index for index, group in enumerate(groups)}
        sums, counts = np.zeros((len(groups), self.sums.shape[1])), np.zeros((len(groups), self.sums.shape[1]))
        for part in (self, other):
            rows = np.array([place[group] for group in part.groups], dtype=np.intp)
            sums[rows] += part.sums
            counts[rows] += part.counts
        return GroupMeans(groups=groups, sums=sums, counts=counts)

    def means(self) -> Mapping[str, float]:
        """The mean of each group that has values."""
        sums, counts = self.sums.sum(axis=1), self.counts.sum(axis=1)
        pairs = zip(self.groups, sums, counts, strict=True)
        return {group: float(total / count) for group, total, count in pairs if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeansNeed:
    """Asks for the sum and number of a column by the values of another, and by fold for out-of-fold means."""

    column: str
    by: str
    folds: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Both columns."""
        return (self.column, self.by)

    def collect(self, frame: pl.DataFrame) -> GroupMeans:
        """The sums of a partition."""
        fold = pl.lit(0, dtype=pl.UInt8) if self.folds == 1 else pl.col(FOLD) % self.folds
        column = pl.col(self.column).cast(pl.Float64)
        table = (
            frame.lazy()
            .filter(pl.col(self.by).is_not_null())
            .group_by(pl.col(self.by).alias("g"), fold.alias("f"), maintain_order=True)
            .agg(column.sum().alias("s"), column.count().alias("n"))
            .collect()
        )
        texts = [as_text(value) for value in table["g"]]
        groups = tuple(dict.fromkeys(texts))
        place = {group: index for index, group in enumerate(groups)}
        rows = np.array([place[text] for text in texts], dtype=np.intp)
        sums, counts = np.zeros((len(groups), self.folds)), np.zeros((len(groups), self.folds))
        np.add.at(sums, (rows, table["f"].to_numpy()), table["s"].to_numpy())
        np.add.at(counts, (rows, table["f"].to_numpy()), table["n"].to_numpy())
        return GroupMeans(groups=groups, sums=sums, counts=counts)
