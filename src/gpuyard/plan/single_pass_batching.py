"""Batch size of a single-pass server: the largest that meets the p99 target."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.perf.single_pass import SinglePassRate

MAX_BATCH = 4096
ENOUGH = 0.9  # of the peak rate: larger batches only add latency


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """The maximum batch of a replica, its time and its request rate."""

    batch: float
    batch_s: float
    rate_per_s: float  # of random arrivals, within the p99 target

    def under(
        self, rate_per_s: float, pace: SinglePassRate, flop: float, weight_bytes: float
    ) -> float:
        """Return the batch that forms at a lower rate: arrivals during the previous batch."""
        batch = 1.0
        for _ in range(60):  # a contraction: fixed-point iteration converges
            batch = min(self.batch, max(1.0, rate_per_s * pace.batch_s(flop, weight_bytes, batch)))
        return batch


def choose_batch(
    pace: SinglePassRate, flop: float, weight_bytes: float, p99_s: float | None, tail: float
) -> BatchChoice | None:
    """Return the largest useful batch (a power of two) within p99, or None if one is too slow.

    The 99th percentile takes `tail` batches: it waits for the batch in progress.
    """
    best: BatchChoice | None = None
    ceiling = pace.flop_per_s / flop
    batch = 1
    while batch <= MAX_BATCH:
        batch_s = pace.batch_s(flop, weight_bytes, batch)
        if p99_s is not None and tail * batch_s > p99_s:
            break
        best = BatchChoice(
            batch=batch, batch_s=batch_s, rate_per_s=pace.server_ratio * batch / batch_s
        )
        if batch / batch_s >= ENOUGH * ceiling:
            break
        batch *= 2
    return best
