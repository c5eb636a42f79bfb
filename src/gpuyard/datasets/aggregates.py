"""Column statistics that partitions gather separately and merge in order, on every engine alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import polars as pl

from gpuyard.datasets.step import FOLD
from gpuyard.errors import InputError

POINTS = 131_072  # per partition and column; with more values ranks are exact to 1 in POINTS
MAX_CATEGORIES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRequest:
    """Request for a statistic of one column."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRequest:
    """Request for a statistic of a column by the values of another."""

    column: str
    by: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column, self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """Count, mean, sum of squared deviations, min and max; nulls are counted separately."""

    count: int
    nulls: int
    mean: float
    squares: float  # sum of (x - mean)²
    min: float
    max: float

    @property
    def std(self) -> float:
        """Standard deviation of the population."""
        return float((self.squares / self.count) ** 0.5) if self.count else 0.0

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows (Chan, Golub and LeVeque 1979)."""
        nulls = self.nulls + other.nulls
        if not self.count or not other.count:
            return replace(self if self.count else other, nulls=nulls)
        count = self.count + other.count
        delta = other.mean - self.mean
        return Moments(
            count=count,
            nulls=nulls,
            mean=self.mean + delta * other.count / count,
            squares=self.squares + other.squares + delta**2 * self.count * other.count / count,
            min=min(self.min, other.min),
            max=max(self.max, other.max),
        )

    def fill_nulls(self, value: float, count: int) -> Moments:
        """Return the moments once `count` of the nulls hold `value`."""
        if not count:
            return self
        return self.merge(
            Moments(count=count, nulls=-count, mean=value, squares=0.0, min=value, max=value)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsRequest(ColumnRequest):
    """Request for the moments of a number column."""

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column).cast(pl.Float64)
        return (
            column.count(),
            column.null_count(),
            column.mean(),
            column.var(ddof=0),
            column.min(),
            column.max(),
        )

    def aggregate(self, values: Sequence[object]) -> Moments:
        count, nulls, mean, variance, low, high = (
            float(cast(float, value or 0.0)) for value in values
        )
        return Moments(
            count=int(count),
            nulls=int(nulls),
            mean=mean,
            squares=variance * count,
            min=low,
            max=high,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class QuantileSketch:
    """Sorted values, each with the number of values that it represents."""

    values: np.ndarray
    weights: np.ndarray
    nulls: int

    @property
    def count(self) -> float:
        """Number of values that were seen."""
        return float(self.weights.sum())

    def at(self, ratio: float) -> float:
        """Return a quantile, interpolated linearly between neighbours."""
        if not len(self.values):
            return 0.0
        rank = ratio * (self.count - 1)
        ends = np.cumsum(self.weights)
        if self.weights.max() <= 1:  # no value was thinned out: exact, as NumPy's linear method
            low = int(np.floor(rank))
            high = min(low + 1, len(self.values) - 1)
            return float(self.values[low] + (self.values[high] - self.values[low]) * (rank - low))
        return float(np.interp(rank, ends - (self.weights + 1) / 2, self.values))

    def merge(self, other: QuantileSketch) -> QuantileSketch:
        values = np.concatenate([self.values, other.values])
        order = np.argsort(values, kind="stable")
        weights = np.concatenate([self.weights, other.weights])[order]
        return QuantileSketch(values=values[order], weights=weights, nulls=self.nulls + other.nulls)

    def fill_nulls(self, value: float, count: int) -> QuantileSketch:
        """Return the values once `count` of the nulls hold `value`."""
        if not count:
            return self
        fill = QuantileSketch(
            values=np.array([value]), weights=np.array([float(count)]), nulls=-count
        )
        return self.merge(fill)


def thin_sorted(ordered: np.ndarray, points: int, nulls: int = 0) -> QuantileSketch:
    """Return a sketch of sorted values with at most `points` of them, evenly spaced by rank."""
    if len(ordered) <= points:
        return QuantileSketch(values=ordered, weights=np.ones(len(ordered)), nulls=nulls)
    edges = np.linspace(0, len(ordered), points + 1).astype(np.int64)
    middle = (edges[:-1] + edges[1:] - 1) // 2
    return QuantileSketch(
        values=ordered[middle], weights=np.diff(edges).astype(np.float64), nulls=nulls
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantilesRequest(ColumnRequest):
    """Request for the quantiles of a column; exact up to POINTS values per partition."""

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column).to_physical().cast(pl.Float64)  # a time as its number
        return column.drop_nulls().sort().implode(), column.null_count()

    def aggregate(self, values: Sequence[object]) -> QuantileSketch:
        ordered = cast(pl.Series, values[0]).to_numpy()
        return thin_sorted(ordered, POINTS, nulls=int(cast(int, values[1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Number of rows per value of a column; a number is its shortest text."""

    values: tuple[str, ...]
    counts: tuple[int, ...]
    nulls: int

    def merge(self, other: Counts) -> Counts:
        total = dict(zip(self.values, self.counts, strict=True))
        for value, count in zip(other.values, other.counts, strict=True):
            total[value] = total.get(value, 0) + count
        if len(total) > MAX_CATEGORIES:
            raise InputError.one(
                "steps", f"a column has over {MAX_CATEGORIES:,} categories", "use `hash` for it"
            )
        return Counts(
            values=tuple(total), counts=tuple(total.values()), nulls=self.nulls + other.nulls
        )

    def by_frequency(self) -> list[tuple[str, int]]:
        """Return values and counts, most frequent first; ties in order of the values."""
        pairs = zip(self.values, self.counts, strict=True)
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))


def as_text(value: object) -> str:
    """Return a category as text; an integral float has no decimal point."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsRequest(ColumnRequest):
    """Request for the number of rows per value of a column."""

    def expressions(self) -> tuple[pl.Expr, ...]:
        column = pl.col(self.column)
        return column.drop_nulls().value_counts(name="__count").implode(), column.null_count()

    def aggregate(self, values: Sequence[object]) -> Counts:
        table = cast(pl.Series, values[0]).struct.unnest()
        texts = tuple(as_text(value) for value in table.to_series(0))
        return Counts(values=texts, counts=tuple(table["__count"]), nulls=int(cast(int, values[1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Distinct:
    """Distinct values of a column, up to a limit."""

    values: tuple[str, ...]
    limit: int

    @property
    def complete(self) -> bool:
        """Whether these are all of them."""
        return len(self.values) <= self.limit

    def merge(self, other: Distinct) -> Distinct:
        values = tuple(dict.fromkeys((*self.values, *other.values)))
        return Distinct(values=values[: self.limit + 1], limit=self.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctRequest(ColumnRequest):
    """Request for the distinct values of a column, up to a limit."""

    limit: int

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the values, one more than the limit if there are more."""
        return (pl.col(self.column).drop_nulls().unique().sort().head(self.limit + 1).implode(),)

    def aggregate(self, values: Sequence[object]) -> Distinct:
        texts = tuple(as_text(value) for value in cast(pl.Series, values[0]))
        return Distinct(values=texts, limit=self.limit)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupMeans:
    """Sum and count of a column by group and, if requested, by fold."""

    groups: tuple[str, ...]
    sums: np.ndarray  # [groups, folds]
    counts: np.ndarray

    def merge(self, other: GroupMeans) -> GroupMeans:
        groups = tuple(dict.fromkeys((*self.groups, *other.groups)))
        index = {group: number for number, group in enumerate(groups)}
        sums = np.zeros((len(groups), self.sums.shape[1]))
        counts = np.zeros_like(sums)
        for part in (self, other):
            rows = np.array([index[group] for group in part.groups], dtype=np.intp)
            sums[rows] += part.sums
            counts[rows] += part.counts
        return GroupMeans(groups=groups, sums=sums, counts=counts)

    def means(self) -> Mapping[str, float]:
        pairs = zip(self.groups, self.sums.sum(axis=1), self.counts.sum(axis=1), strict=True)
        return {group: float(total / count) for group, total, count in pairs if count}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMeansRequest(GroupRequest):
    """Request for sum and count of a column by group, and by fold for out-of-fold means."""

    folds: int = 1

    def collect(self, frame: pl.DataFrame) -> GroupMeans:
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
        index = {group: number for number, group in enumerate(groups)}
        cells = (np.array([index[text] for text in texts], dtype=np.intp), table["f"].to_numpy())
        sums = np.zeros((len(groups), self.folds))
        counts = np.zeros_like(sums)
        np.add.at(sums, cells, table["s"].to_numpy())
        np.add.at(counts, cells, table["n"].to_numpy())
        return GroupMeans(groups=groups, sums=sums, counts=counts)
