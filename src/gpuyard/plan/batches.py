"""The batch of a server that answers in one pass: the largest whose slowest answers are in time."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.perf.samples import Pace

__all__ = ["Batched", "batched"]

MOST_BATCH = 4096
ENOUGH = 0.9  # of the rate that ever larger batches would give: larger ones only wait longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Batched:
    """The most samples at once in one replica, and what it then does."""

    batch: float
    batch_s: float
    rate_per_s: float  # that random arrivals may come at, the 99th percentile kept

    def under(self, rate_per_s: float, pace: Pace, flop: float, weight_bytes: float) -> float:
        """The batch that forms by itself at a lower rate: what arrives while one is under way."""
        batch = 1.0
        for _ in range(60):  # contracts: a batch grows by less than the rate's share of the chip
            batch = min(self.batch, max(1.0, rate_per_s * pace.batch_s(flop, weight_bytes, batch)))
        return batch


def batched(pace: Pace, flop: float, weight_bytes: float, p99_s: float | None, tail: float) -> Batched | None:
    """The largest batch (a power of two) within the limit that still brings more; None if one sample is too slow.

    The slowest of a hundred takes `tail` batches: it waits for the one under way.
    """
    best: Batched | None = None
    ceiling = pace.flop_per_s / flop
    batch = 1
    while batch <= MOST_BATCH:
        batch_s = pace.batch_s(flop, weight_bytes, batch)
        if p99_s is not None and tail * batch_s > p99_s:
            break
        best = Batched(batch=batch, batch_s=batch_s, rate_per_s=pace.server_ratio * batch / batch_s)
        if batch / batch_s >= ENOUGH * ceiling:
            break
        batch *= 2
    return best
