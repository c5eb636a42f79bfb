"""Quantiles and value counts of a column by group, merged over partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import (
    MAX_CATEGORIES,
    POINTS,
    GroupRequest,
    QuantileSketch,
    as_text,
    thin_sorted,
)
from gpuyard.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupQuantiles:
    """Quantile sketches of all groups, concatenated so that they are stored as arrays."""

    groups: tuple[str, ...]
    sizes: np.ndarray  # values stored per group
    values: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, sketches: Mapping[str, QuantileSketch]) -> GroupQuantiles:
        parts = sketches.values()
        return cls(
            groups=tuple(sketches),
            sizes=np.array([len(part.values) for part in parts], dtype=np.int64),
            values=np.concatenate([np.empty(0), *(part.values for part in parts)]),
            weights=np.concatenate([np.empty(0), *(part.weights for part in parts)]),
        )

    def sketches(self) -> dict[str, QuantileSketch]:
        ends = np.cumsum(self.sizes)
        return {
            group: QuantileSketch(
                values=self.values[end - size : end],
                weights=self.weights[end - size : end],
                nulls=0,
            )
            for group, size, end in zip(self.groups, self.sizes, ends, strict=True)
        }

    def merge(self, other: GroupQuantiles) -> GroupQuantiles:
        merged = self.sketches()
        for group, sketch in other.sketches().items():
            merged[group] = merged[group].merge(sketch) if group in merged else sketch
        return GroupQuantiles.of(merged)

    def medians(self) -> Mapping[str, float]:
        return {group: sketch.at(0.5) for group, sketch in self.sketches().items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupQuantilesRequest(GroupRequest):
    """Request for quantiles by group; exact up to POINTS values per partition."""

    def collect(self, frame: pl.DataFrame) -> GroupQuantiles:
        """Return the sketches of a partition; beyond POINTS, groups are thinned in proportion."""
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
        share = min(1.0, POINTS / max(1, sum(map(len, values))))
        texts = (as_text(group) for group in table["g"])
        return GroupQuantiles.of(
            {
                text: thin_sorted(ordered, max(1, round(len(ordered) * share)))
                for text, ordered in zip(texts, values, strict=True)
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Number of rows per group and value: one entry for each pair that occurs."""

    groups: tuple[str, ...]
    values: tuple[str, ...]
    counts: tuple[int, ...]

    def merge(self, other: GroupCounts) -> GroupCounts:
        total: dict[tuple[str, str], int] = {}
        for part in (self, other):
            for group, value, count in zip(part.groups, part.values, part.counts, strict=True):
                total[group, value] = total.get((group, value), 0) + count
        if len(total) > MAX_CATEGORIES:
            what = f"a column has over {MAX_CATEGORIES:,} values in its groups"
            raise InputError.one("steps", what, "use value: median, or a column with fewer groups")
        return GroupCounts(
            groups=tuple(group for group, _ in total),
            values=tuple(value for _, value in total),
            counts=tuple(total.values()),
        )

    def modes(self) -> Mapping[str, str]:
        """Return the most frequent value of each group; ties go to the first in order."""
        best: dict[str, tuple[int, str]] = {}
        for group, value, count in zip(self.groups, self.values, self.counts, strict=True):
            best[group] = min(best.get(group, (-count, value)), (-count, value))
        return {group: value for group, (_, value) in best.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCountsRequest(GroupRequest):
    """Request for the number of rows per value of a column in every group."""

    def collect(self, frame: pl.DataFrame) -> GroupCounts:
        table = (
            frame.lazy()
            .select(pl.col(self.by).alias("g"), pl.col(self.column).alias("v"))
            .drop_nulls()
            .group_by("g", "v", maintain_order=True)
            .agg(pl.len().alias("n"))
            .collect()
        )
        return GroupCounts(
            groups=tuple(as_text(group) for group in table["g"]),
            values=tuple(as_text(value) for value in table["v"]),
            counts=tuple(table["n"]),
        )
