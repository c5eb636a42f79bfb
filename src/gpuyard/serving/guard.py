"""Whether a canary may stay: its failures and its latency against those of the version in use."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.serving.meter import Reading, quantile_s
from gpuyard.serving.spec import GuardSpec

__all__ = ["SLOWEST_EXCUSED_S", "judge", "since"]

SLOWEST_EXCUSED_S = 0.005  # below this a canary is not called slow: buckets this small are noise


def since(now: Reading, before: Reading) -> Reading:
    """What was counted between two readings."""
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


def judge(canary: Reading, active: Reading, guard: GuardSpec) -> str:
    """Why the canary must go, both counted over the same time; empty while it may stay."""
    if canary.answers < guard.requests:
        return ""
    its, theirs = _failed(canary), _failed(active)
    if its > theirs + guard.errors_ratio:
        return f"{its:.1%} of its requests failed, {theirs:.1%} of the others"
    its_s, theirs_s = quantile_s(canary, 0.95), quantile_s(active, 0.95)
    if active.answers >= guard.requests and its_s > max(guard.slowdown * theirs_s, SLOWEST_EXCUSED_S):
        return f"its 95th percentile is {its_s * 1e3:g} ms, that of the others {theirs_s * 1e3:g} ms"
    return ""


def _failed(reading: Reading) -> float:
    """The share of failed requests."""
    return min(1.0, reading.failures / reading.answers) if reading.answers else 0.0  # one under way is not yet answered
