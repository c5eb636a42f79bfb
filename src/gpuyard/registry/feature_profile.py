"""The profile of a model's training features, and how far served features have moved from it.

Every feature has up to ten bins of equally many training rows (or one per value, if it has few) and
one for missing values. Between the training shares e and the served shares a of the bins,

    PSI = Σ (a − e) · ln(a / e)     population stability index; usual limits: 0.1 and 0.25
    KS  = max |A(x) − E(x)|         Kolmogorov-Smirnov statistic at the edges of the bins

Source: N. Siddiqi, Credit Risk Scorecards (2006), for PSI and its limits. Half a row is added to
every bin, so that an empty one does not make PSI infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

PROFILE = "profile.json"  # of a bundle
MAX_FEATURES = 512  # of a profile: counts of all of them are published twice per second
SAMPLED_ROWS = 20_000
BINS = 10
MIN_ROWS = 500  # fewer served rows scatter by more than the limits
WATCH, MOVED = 0.1, 0.25
Verdict: TypeAlias = Literal["stable", "watch", "moved", "too few rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureBins:
    """Training rows of one feature by bin; the last count is of missing values."""

    name: str
    edges: tuple[float, ...]  # a value belongs to the bin after the last edge that it reaches
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureProfile:
    """Training distribution of every feature."""

    rows: int
    features: tuple[FeatureBins, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDrift:
    """How far one feature of the served rows is from training."""

    feature: str
    psi: float
    ks: float
    missing_training_ratio: float
    missing_served_ratio: float
    verdict: Verdict


def profile_of(names: Sequence[str], x: np.ndarray) -> FeatureProfile | None:
    """Return the profile of training features, of a sample of the rows; None for too many."""
    if x.ndim != 2 or not 0 < x.shape[1] <= MAX_FEATURES or not len(x):
        return None
    rows = np.asarray(x[:: max(1, len(x) // SAMPLED_ROWS)], np.float32)
    edges = [_edges(rows[:, at]) for at in range(rows.shape[1])]
    counts = BinCounter(edges).count(rows)
    features = tuple(
        FeatureBins(name=name, edges=tuple(own.tolist()), counts=tuple(count))
        for name, own, count in zip(names, edges, counts, strict=True)
    )
    return FeatureProfile(rows=len(rows), features=features)


def _edges(values: np.ndarray) -> np.ndarray:
    finite = values[np.isfinite(values)]
    distinct = np.unique(finite)
    if len(distinct) <= BINS:
        return distinct[1:]
    shares = np.arange(1, BINS) / BINS
    return np.unique(np.quantile(finite, shares).astype(np.float32))


class BinCounter:
    """Counts rows by feature and bin, all features at once."""

    __slots__ = ("_edges", "_sizes", "_width")

    def __init__(self, edges: Sequence[Sequence[float] | np.ndarray]) -> None:
        self._sizes = [len(own) for own in edges]
        self._width = max(self._sizes, default=0) + 2  # bins, and missing values
        self._edges = np.full((len(edges), self._width - 2), np.inf, np.float32)
        for row, own in zip(self._edges, edges, strict=True):
            row[: len(own)] = own

    def count(self, x: np.ndarray) -> list[list[int]]:
        """Return the rows per bin of every feature; the last count is of missing values."""
        bins = (x[:, :, None] >= self._edges).sum(axis=2)
        bins[np.isnan(x)] = self._width - 1
        at = bins + np.arange(len(self._edges)) * self._width
        counts = np.bincount(at.ravel(), minlength=len(self._edges) * self._width)
        table = counts.reshape(len(self._edges), self._width).tolist()
        return [[*row[: size + 1], row[-1]] for row, size in zip(table, self._sizes, strict=True)]


def feature_drift(bins: FeatureBins, served: Sequence[int]) -> FeatureDrift:
    """Compare the served rows of a feature with training."""
    expected, actual = np.array(bins.counts, float), np.array(served, float)
    e = (expected + 0.5) / (expected.sum() + 0.5 * len(expected))
    a = (actual + 0.5) / (actual.sum() + 0.5 * len(actual))
    psi = float(((a - e) * np.log(a / e)).sum())
    verdict: Verdict = "stable" if psi < WATCH else "watch" if psi < MOVED else "moved"
    return FeatureDrift(
        feature=bins.name,
        psi=psi,
        ks=float(np.abs(_cumulative(actual) - _cumulative(expected)).max()),
        missing_training_ratio=_missing(expected),
        missing_served_ratio=_missing(actual),
        verdict=verdict if actual.sum() >= MIN_ROWS else "too few rows",
    )


def _cumulative(counts: np.ndarray) -> np.ndarray:
    present = counts[:-1]
    return np.asarray(present.cumsum() / max(1.0, present.sum()))


def _missing(counts: np.ndarray) -> float:
    return float(counts[-1] / max(1.0, counts.sum()))
