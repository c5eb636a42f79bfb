"""What a service does now, from counters that only grow."""

from __future__ import annotations

import pytest

from gpuyard.serving.live import Live
from gpuyard.web.latency import LEAST_S, WINDOW_S, Latencies, recent


def row(fast: int, slow: int) -> Live:
    """A model that answered so many requests within 1 ms, and so many within 1 s."""
    buckets = ((0.001, float(fast)), (1.0, float(fast + slow)), (float("inf"), float(fast + slow)))
    return Live(service="s", state="running", url="", model="m/1", requests_count=fast + slow, buckets=buckets)


def test_only_what_was_asked_in_the_window_counts() -> None:
    seen = Latencies()
    seen.look([row(fast=1000, slow=0)], now_s=0.0)
    assert recent(seen.samples(row(0, 0))) == (None, None, None)
    seen.look([row(fast=1000, slow=10)], now_s=WINDOW_S)
    assert pytest.approx((10 / WINDOW_S, 1.0, 1.0)) == recent(seen.samples(row(0, 0)))
    seen.look([row(fast=1099, slow=11)], now_s=2 * WINDOW_S)
    assert pytest.approx((100 / WINDOW_S, 0.001, 0.001)) == recent(seen.samples(row(0, 0)))
    assert "polyline" in seen.curves([row(0, 0)])


def test_pages_that_look_together_take_one_sample_and_a_new_start_is_not_less_than_nothing() -> None:
    seen = Latencies()
    for at_s in (0.0, LEAST_S / 2, LEAST_S):
        seen.look([row(fast=5, slow=0)], now_s=at_s)
    assert len(seen.samples(row(0, 0))) == 2
    seen.look([row(fast=1, slow=0)], now_s=10.0)
    assert len(seen.samples(row(0, 0))) == 1
