"""Statistics of a column by the values of another, gathered by partitions and merged in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import MAX_CATEGORIES, POINTS, Quantiles, as_text
from gpuyard.errors import InputError

__all__ = ["GroupCounts", "GroupCountsNeed", "GroupQuantiles", "GroupQuantilesNeed"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupQuantiles:
    """The values of every group in order, group after group, and how many values each stands for."""

    groups: tuple[str, ...]
    sizes: np.ndarray  # values that are kept of each group
    values: np.ndarray
    weights: np.ndarray

    def merged(self, other: GroupQuantiles) -> GroupQuantiles:
        """The values of both, group by group."""
        mine, theirs = self._parts(), other._parts()
        both = {group: _both(mine.get(group), theirs.get(group)) for group in dict.fromkeys((*mine, *theirs))}
        return _gathered(both)

    def medians(self) -> Mapping[str, float]:
        """The median of each group."""
        return {group: part.at(0.5) for group, part in self._parts().items()}

    def _parts(self) -> dict[str, Quantiles]:
        """The values of each group."""
        ends = np.cumsum(self.sizes)
        return {
            group: Quantiles(values=self.values[end - size : end], weights=self.weights[end - size : end], nulls=0)
            for group, size, end in zip(self.groups, self.sizes, ends, strict=True)
        }


def _both(first: Quantiles | None, second: Quantiles | None) -> Quantiles:
    """The values of one group in two sets of rows."""
    if first is None or second is None:
        found = first or second
        assert found is not None
        return found
    return first.merged(second)


def _gathered(parts: Mapping[str, Quantiles]) -> GroupQuantiles:
    """Groups as one record."""
    return GroupQuantiles(
        groups=tuple(parts),
        sizes=np.array([len(part.values) for part in parts.values()], dtype=np.int64),
        values=np.concatenate([np.empty(0), *(part.values for part in parts.values())]),
        weights=np.concatenate([np.empty(0), *(part.weights for part in parts.values())]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuantilesNeed:
    """Asks for the order of a column's values in every group; exact up to POINTS values a partition."""

    column: str
    by: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Both columns."""
        return (self.column, self.by)

    def collect(self, frame: pl.DataFrame) -> GroupQuantiles:
        """The order of a partition's values; with over POINTS of them, each group is thinned in proportion."""
        column = pl.col(self.column).cast(pl.Float64)
        table = (
            frame.lazy()
            .select(column.alias("v"), pl.col(self.by).alias("g"))
            .drop_nulls()
            .group_by("g", maintain_order=True)
            .agg(pl.col("v").sort())
            .collect()
        )
        values = [group.to_numpy() for group in table["v"]]
        part = min(1.0, POINTS / max(1, sum(map(len, values))))
        texts = (as_text(group) for group in table["g"])
        return _gathered({text: _thinned(ordered, part) for text, ordered in zip(texts, values, strict=True)})


def _thinned(ordered: np.ndarray, part: float) -> Quantiles:
    """That part of the values, at least one, each standing for its neighbours."""
    points = len(ordered) if part >= 1 else max(1, round(len(ordered) * part))
    edges = np.linspace(0, len(ordered), points + 1).astype(np.int64)
    middle = (edges[:-1] + edges[1:] - 1) // 2
    return Quantiles(values=ordered[middle], weights=np.diff(edges).astype(np.float64), nulls=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """How often each value stands in a column, by group: one entry for each pair of them that occurs."""

    groups: tuple[str, ...]
    values: tuple[str, ...]
    counts: tuple[int, ...]

    def merged(self, other: GroupCounts) -> GroupCounts:
        """The counts of both."""
        total: dict[tuple[str, str], int] = {}
        for part in (self, other):
            for group, value, count in zip(part.groups, part.values, part.counts, strict=True):
                total[group, value] = total.get((group, value), 0) + count
        if len(total) > MAX_CATEGORIES:
            what = f"a column has over {MAX_CATEGORIES:,} values in its groups"
            raise InputError.one("steps", what, "use value: median, or a column with fewer groups")
        pairs = tuple(total)
        return GroupCounts(
            groups=tuple(group for group, _ in pairs), values=tuple(value for _, value in pairs),
            counts=tuple(total.values()),
        )  # fmt: skip

    def modes(self) -> Mapping[str, str]:
        """The most frequent value of each group; of several the first in order."""
        best: dict[str, tuple[int, str]] = {}
        for group, value, count in zip(self.groups, self.values, self.counts, strict=True):
            best[group] = min(best.get(group, (-count, value)), (-count, value))
        return {group: value for group, (_, value) in best.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCountsNeed:
    """Asks how often each value of a column occurs in every group."""

    column: str
    by: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Both columns."""
        return (self.column, self.by)

    def collect(self, frame: pl.DataFrame) -> GroupCounts:
        """The counts of a partition."""
        table = (
            frame.lazy()
            .select(pl.col(self.by).alias("g"), pl.col(self.column).alias("v"))
            .drop_nulls()
            .group_by("g", "v", maintain_order=True)
            .agg(pl.len().alias("n"))
            .collect()
        )
        return GroupCounts(
            groups=tuple(as_text(group) for group in table["g"]), values=tuple(as_text(value) for value in table["v"]),
            counts=tuple(table["n"]),
        )  # fmt: skip
