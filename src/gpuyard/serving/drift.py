"""Input drift: the features of served requests, counted by the bins of the training profile."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.registry.feature_profile import (
    BinCounter,
    FeatureDrift,
    FeatureProfile,
    feature_drift,
)

WINDOW_ROWS = 20_000  # per worker; the report covers the last one to two windows
BUFFER_VALUES = 1 << 16  # rows are counted in batches of this size, not request by request


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCounts:
    """Served rows of one version by feature and bin, in the order of its profile."""

    model: str
    version: str
    rows: int
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDrift:
    """Drift of every feature of one version."""

    model: str
    version: str
    rows: int
    features: tuple[FeatureDrift, ...]


class DriftWindow:
    """The recent rows of one version in one worker; batches may be computed in a thread."""

    __slots__ = ("_buffer", "_counter", "_current", "_filled", "_lock", "_past", "_rows", "profile")

    def __init__(self, profile: FeatureProfile) -> None:
        self.profile = profile
        features = len(profile.features)
        self._counter = BinCounter([feature.edges for feature in profile.features])
        self._buffer = np.empty((max(1, BUFFER_VALUES // features), features), np.float32)
        self._filled = 0
        self._lock = threading.Lock()
        self._current = self._counter.count(self._buffer[:0])
        self._past = self._current
        self._rows = [0, 0]  # of the current and of the past window

    def add(self, x: np.ndarray) -> None:
        """Count the rows of a batch."""
        with self._lock:
            while len(x):
                part = x[: len(self._buffer) - self._filled]
                self._buffer[self._filled : self._filled + len(part)] = part
                self._filled += len(part)
                x = x[len(part) :]
                if self._filled == len(self._buffer):
                    self._flush()

    def _flush(self) -> None:
        self._current = _added(self._current, self._counter.count(self._buffer[: self._filled]))
        self._rows[0] += self._filled
        self._filled = 0
        if self._rows[0] >= WINDOW_ROWS:
            self._past, self._rows = self._current, [0, self._rows[0]]
            self._current = self._counter.count(self._buffer[:0])

    def counts(self, model: str, version: str) -> DriftCounts:
        """Return the counts of the recent rows."""
        with self._lock:
            self._flush()
            table = _added(self._current, self._past)
            rows = sum(self._rows)
        return DriftCounts(
            model=model, version=version, rows=rows, counts=tuple(tuple(row) for row in table)
        )


def sum_drift(items: Iterable[DriftCounts]) -> dict[tuple[str, str], DriftCounts]:
    """Return the counts of every version, summed over workers."""
    sums: dict[tuple[str, str], DriftCounts] = {}
    for item in items:
        key = (item.model, item.version)
        if key in sums:
            before = sums[key]
            table = _added(before.counts, item.counts)
            item = replace(
                item, rows=item.rows + before.rows, counts=tuple(tuple(row) for row in table)
            )
        sums[key] = item
    return sums


def drift_of(profile: FeatureProfile, counts: DriftCounts) -> ModelDrift:
    """Compare the served rows of a version with its training, the largest drift first."""
    rows = (
        feature_drift(bins, served)
        for bins, served in zip(profile.features, counts.counts, strict=True)
    )
    return ModelDrift(
        model=counts.model,
        version=counts.version,
        rows=counts.rows,
        features=tuple(sorted(rows, key=lambda row: -row.psi)),
    )


def _added(one: Iterable[Iterable[int]], other: Iterable[Iterable[int]]) -> list[list[int]]:
    return [
        [a + b for a, b in zip(first, second, strict=True)]
        for first, second in zip(one, other, strict=True)
    ]
