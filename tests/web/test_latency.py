"""Recent latency of a service, from cumulative counters."""

from __future__ import annotations

import pytest

from gpuyard.serving.live_metrics import LiveModelMetrics
from gpuyard.web.latency import LEAST_S, WINDOW_S, LatencyHistory, recent


def row(fast: int, slow: int) -> LiveModelMetrics:
    """Counters of a model with requests below 1 ms and below 1 s."""
    buckets = ((0.001, float(fast)), (1.0, float(fast + slow)), (float("inf"), float(fast + slow)))
    return LiveModelMetrics(
        service="s",
        state="running",
        url="",
        model="m/1",
        requests_count=fast + slow,
        buckets=buckets,
    )


def test_only_requests_in_the_window_count() -> None:
    history = LatencyHistory()
    history.look([row(fast=1000, slow=0)], now_s=0.0)
    assert recent(history.samples(row(0, 0))) == (None, None, None)
    history.look([row(fast=1000, slow=10)], now_s=WINDOW_S)
    assert pytest.approx((10 / WINDOW_S, 1.0, 1.0)) == recent(history.samples(row(0, 0)))
    history.look([row(fast=1099, slow=11)], now_s=2 * WINDOW_S)
    assert pytest.approx((100 / WINDOW_S, 0.001, 0.001)) == recent(history.samples(row(0, 0)))
    assert "polyline" in history.curves([row(0, 0)])


def test_samples_are_rate_limited_and_reset_after_a_restart() -> None:
    history = LatencyHistory()
    for at_s in (0.0, LEAST_S / 2, LEAST_S):
        history.look([row(fast=5, slow=0)], now_s=at_s)
    assert len(history.samples(row(0, 0))) == 2
    history.look([row(fast=1, slow=0)], now_s=10.0)
    assert len(history.samples(row(0, 0))) == 1
