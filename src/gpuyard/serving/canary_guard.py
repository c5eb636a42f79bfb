"""Canary guard: roll a canary back when it fails more or is slower than the active version."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.serving.spec import CanaryGuardSpec
from gpuyard.serving.version_metrics import MetricsSnapshot, quantile_s

SLOW_FROM_S = 0.005  # a faster canary is never slow: histogram buckets this small are noise


def counts_between(now: MetricsSnapshot, before: MetricsSnapshot) -> MetricsSnapshot:
    """Return the counts between two snapshots."""
    codes = dict(before.codes)
    return replace(
        now,
        codes=tuple((status, count - codes.get(status, 0)) for status, count in now.codes),
        buckets=tuple(new - old for new, old in zip(now.buckets, before.buckets, strict=True)),
        sum_s=now.sum_s - before.sum_s,
        rows=now.rows - before.rows,
        batches=now.batches - before.batches,
        failures=now.failures - before.failures,
    )


def rollback_reason(
    canary: MetricsSnapshot, active: MetricsSnapshot, guard: CanaryGuardSpec
) -> str:
    """Return why the canary must be rolled back, or an empty string while it may stay.

    Both snapshots cover the same period.
    """
    if canary.responses < guard.requests:
        return ""
    failed, failed_active = _failure_ratio(canary), _failure_ratio(active)
    if failed > failed_active + guard.errors_ratio:
        return f"failure rate {failed:.1%}, active version {failed_active:.1%}"
    p95_s, active_p95_s = quantile_s(canary, 0.95), quantile_s(active, 0.95)
    if active.responses >= guard.requests and p95_s > max(
        guard.slowdown * active_p95_s, SLOW_FROM_S
    ):
        return f"p95 latency {p95_s * 1e3:g} ms, active version {active_p95_s * 1e3:g} ms"
    return ""


def _failure_ratio(snapshot: MetricsSnapshot) -> float:
    if not snapshot.responses:
        return 0.0
    # At most 1: a failure is counted before its response is.
    return min(1.0, snapshot.failures / snapshot.responses)
