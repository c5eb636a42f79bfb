"""Counts, and what is judged by them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.serving import GuardSpec
from gpuyard.serving.guard import judge, since
from gpuyard.serving.meter import BOUNDS_S, Meter, Reading, add_readings, prometheus, quantile_s

TIMES = st.lists(st.floats(0, 60), max_size=30)


def reading(times: list[float], failures: int = 0, version: str = "1", status: int = 200) -> Reading:
    meter = Meter("m", version)
    for seconds in times:
        meter.count(status, seconds)
    meter.failures = failures
    return meter.reading()


@given(one=TIMES, other=TIMES)
def test_readings_add_up_and_differences_undo_it(one: list[float], other: list[float]) -> None:
    both = reading(one + other)
    (added,) = add_readings([reading(one), reading(other)])
    assert replace(added, sum_s=0) == replace(both, sum_s=0)
    assert added.sum_s == pytest.approx(both.sum_s)
    assert since(both, reading(one)).buckets == reading(other).buckets
    assert both.answers == len(one) + len(other) == sum(both.buckets)


@given(times=st.lists(st.floats(0, 60), min_size=1, max_size=40), share=st.floats(0.01, 1))
def test_a_quantile_is_an_upper_bound(times: list[float], share: float) -> None:
    bound = quantile_s(reading(times), share)
    assert sum(seconds <= bound for seconds in times) >= share * len(times) - 1e-9
    assert bound in (*BOUNDS_S, float("inf"))


def test_prometheus_writes_what_was_counted() -> None:
    text = prometheus([reading([0.0002, 0.4], version='a"b')], [("gpuyard_up", "It is.", 1.0)])
    assert 'gpuyard_requests_total{model="m",version="a\\"b",code="200"} 2' in text
    assert 'gpuyard_request_seconds_bucket{model="m",version="a\\"b",le="0.00025"} 1' in text
    assert 'gpuyard_request_seconds_bucket{model="m",version="a\\"b",le="+Inf"} 2' in text
    assert text.endswith("gpuyard_up 1\n")


GUARD = GuardSpec(requests=10, errors_ratio=0.05, slowdown=2.0)


@pytest.mark.parametrize(
    ("canary", "active", "verdict"),
    [
        (reading([0.1] * 9, 9), reading([0.001] * 99), ""),  # too few to judge
        (reading([0.001] * 20, 0), reading([0.001] * 99), ""),
        (reading([0.001] * 20, 1), reading([0.001] * 99), ""),  # 5 % is allowed
        (reading([0.001] * 20, 2), reading([0.001] * 99), "10.0% of its requests failed"),
        (reading([0.001] * 20, 2), reading([0.001] * 100, 10), ""),  # the other fails as often
        (reading([0.09] * 20), reading([0.009] * 99), "95th percentile"),
        (reading([0.02] * 20), reading([0.015] * 99), ""),
        (reading([0.004] * 20), reading([0.0001] * 99), ""),  # 5 ms are excused
        (reading([0.09] * 20), reading([0.009] * 5), ""),  # nothing to compare with
    ],
)
def test_a_canary_is_judged_by_failures_and_latency(canary: Reading, active: Reading, verdict: str) -> None:
    assert (verdict in judge(canary, active, GUARD)) if verdict else judge(canary, active, GUARD) == ""
