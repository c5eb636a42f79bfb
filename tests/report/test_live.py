"""Table of running services with their latencies."""

from __future__ import annotations

from gpuyard.report.live import live_table
from gpuyard.serving.live_metrics import LiveModelMetrics


def test_service_without_requests_has_no_latency() -> None:
    rows = live_table(
        (
            LiveModelMetrics(
                service="iris",
                state="running",
                url="http://127.0.0.1:1",
                model="iris/3",
                requests_count=12345,
                failures_count=6,
                p50_s=0.0012,
                p99_s=0.02,
            ),
            LiveModelMetrics(
                service="old",
                state="stopped",
                url="http://127.0.0.1:2",
                model="old/1",
                requests_count=0,
                failures_count=0,
                p50_s=None,
                p99_s=None,
            ),
        )
    ).rows
    assert rows[0] == (
        "iris",
        "running",
        "iris/3",
        "12,345",
        "6",
        "1.2ms",
        "20ms",
        "http://127.0.0.1:1",
    )
    assert rows[1][5:7] == ("–", "–")
