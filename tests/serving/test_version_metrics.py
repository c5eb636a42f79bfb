"""Counts, and what is judged by them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.serving.canaries import counts_between, rollback_reason
from gpuyard.serving.spec import CanaryGuardSpec
from gpuyard.serving.version_metrics import (
    BOUNDS_S,
    MetricsSnapshot,
    VersionMetrics,
    prometheus,
    quantile_s,
    sum_snapshots,
)

TIMES = st.lists(st.floats(0, 60), max_size=30)


def snapshot(
    times: list[float], failures: int = 0, version: str = "1", status: int = 200
) -> MetricsSnapshot:
    metrics = VersionMetrics("m", version)
    for seconds in times:
        metrics.count(status, seconds)
    metrics.failures = failures
    return metrics.snapshot()


@given(one=TIMES, other=TIMES)
def test_sum_of_snapshots_is_undone_by_difference(one: list[float], other: list[float]) -> None:
    both = snapshot(one + other)
    (added,) = sum_snapshots([snapshot(one), snapshot(other)])
    assert replace(added, sum_s=0) == replace(both, sum_s=0)
    assert added.sum_s == pytest.approx(both.sum_s)
    assert counts_between(both, snapshot(one)).buckets == snapshot(other).buckets
    assert both.responses == len(one) + len(other) == sum(both.buckets)


@given(times=st.lists(st.floats(0, 60), min_size=1, max_size=40), share=st.floats(0.01, 1))
def test_quantile_is_an_upper_bound(times: list[float], share: float) -> None:
    bound = quantile_s(snapshot(times), share)
    assert sum(seconds <= bound for seconds in times) >= share * len(times) - 1e-9
    assert bound in (*BOUNDS_S, float("inf"))


def test_prometheus_writes_what_was_counted() -> None:
    text = prometheus([snapshot([0.0002, 0.4], version='a"b')], [("gpuyard_up", "It is.", 1.0)])
    assert 'gpuyard_requests_total{model="m",version="a\\"b",code="200"} 2' in text
    assert 'gpuyard_request_seconds_bucket{model="m",version="a\\"b",le="0.00025"} 1' in text
    assert 'gpuyard_request_seconds_bucket{model="m",version="a\\"b",le="+Inf"} 2' in text
    assert text.endswith("gpuyard_up 1\n")


GUARD = CanaryGuardSpec(requests=10, errors_ratio=0.05, slowdown=2.0)


@pytest.mark.parametrize(
    ("canary", "active", "verdict"),
    [
        (snapshot([0.1] * 9, 9), snapshot([0.001] * 99), ""),  # too few to judge
        (snapshot([0.001] * 20, 0), snapshot([0.001] * 99), ""),
        (snapshot([0.001] * 20, 1), snapshot([0.001] * 99), ""),  # 5 % is allowed
        (snapshot([0.001] * 20, 2), snapshot([0.001] * 99), "failure rate 10.0%"),
        (snapshot([0.001] * 20, 2), snapshot([0.001] * 100, 10), ""),  # the other fails as often
        (snapshot([0.09] * 20), snapshot([0.009] * 99), "p95 latency"),
        (snapshot([0.02] * 20), snapshot([0.015] * 99), ""),
        (snapshot([0.004] * 20), snapshot([0.0001] * 99), ""),  # 5 ms are excused
        (snapshot([0.09] * 20), snapshot([0.009] * 5), ""),  # nothing to compare with
    ],
)
def test_canary_is_judged_by_failures_and_latency(
    canary: MetricsSnapshot, active: MetricsSnapshot, verdict: str
) -> None:
    assert (
        (verdict in rollback_reason(canary, active, GUARD))
        if verdict
        else rollback_reason(canary, active, GUARD) == ""
    )
