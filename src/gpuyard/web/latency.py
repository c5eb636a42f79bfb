"""Live latency of services, sampled from their metrics while a page is open."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gpuyard.report.curves import Line, tracks
from gpuyard.report.svg import Axis
from gpuyard.report.table import NOT_KNOWN, Table, table_columns
from gpuyard.serving.live_metrics import LiveModelMetrics, quantile_of
from gpuyard.units import DURATION, show

LEAST_S = 0.8  # between two samples; several pages that are open share them
WINDOW_S = 30.0  # that a value is taken over
HISTORY_COUNT = 600  # samples
REACH_COUNT = int(WINDOW_S / LEAST_S) + 1  # samples that a window may hold
MOST_POINTS = 120  # of a line


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySample:
    """The counters of one model at one moment."""

    at_s: float
    requests_count: int
    buckets: tuple[tuple[float, float], ...]


class LatencyHistory:
    """Samples of every model behind every service, since somebody first looked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._history: dict[tuple[str, str], deque[LatencySample]] = {}

    def look(self, rows: Sequence[LiveModelMetrics], now_s: float | None = None) -> None:
        """Take a sample, unless one was taken just now."""
        at_s = time.monotonic() if now_s is None else now_s
        with self._lock:
            for row in rows:
                history = self._history.setdefault(
                    (row.service, row.model), deque(maxlen=HISTORY_COUNT)
                )
                if history and row.requests_count < history[-1].requests_count:
                    history.clear()  # it was restarted
                if row.buckets and (not history or at_s - history[-1].at_s >= LEAST_S):
                    history.append(
                        LatencySample(
                            at_s=at_s, requests_count=row.requests_count, buckets=row.buckets
                        )
                    )

    def samples(self, row: LiveModelMetrics) -> tuple[LatencySample, ...]:
        with self._lock:
            return tuple(self._history.get((row.service, row.model), ()))

    def table(self, rows: Sequence[LiveModelMetrics]) -> Table:
        """Rate and quantiles of the last seconds."""
        cells = []
        for row in rows:
            rate, p50_s, p99_s = recent(self.samples(row))
            times = (
                show(value, DURATION) if value is not None else NOT_KNOWN
                for value in (p50_s, p99_s)
            )
            cells.append(
                (row.service, row.model, NOT_KNOWN if rate is None else f"{rate:,.1f}", *times)
            )
        columns = table_columns("service", "model", ">requests/s", ">p50", ">p99")
        note = (
            f"over the last {WINDOW_S:.0f} s at most, from the service's own histogram: the upper"
            " edge of a bucket"
        )
        return Table(columns=columns, rows=tuple(cells), notes=(note,))

    def curves(self, rows: Sequence[LiveModelMetrics]) -> str:
        """Latency quantiles over time, a plot per model."""
        drawn = []
        for row in rows:
            samples = self.samples(row)
            every = max(1, -(-len(samples) // MOST_POINTS))
            places = range(1, len(samples), every)
            curve = [
                (
                    samples[place].at_s - samples[0].at_s,
                    recent(samples[max(0, place - REACH_COUNT) : place + 1]),
                )
                for place in places
            ]
            lines = []
            for name, index in (("p50", 1), ("p99", 2)):
                points = [
                    (at_s, values[index]) for at_s, values in curve if values[index] is not None
                ]
                if len(points) > 1:
                    ys = tuple(value for _, value in points if value is not None)
                    lines.append(Line(name=name, xs=tuple(at_s for at_s, _ in points), ys=ys))
            if lines:
                clock = Axis(
                    title="since it was first looked at",
                    words=lambda value: show(value, DURATION, 2),
                )
                plot = tracks(lines, clock, lambda value: show(value, DURATION, 2), "latency")
                drawn.append(f"<h2>{escape(row.service)}: {escape(row.model)}</h2>{plot}")
        return "".join(drawn)


def recent(samples: Sequence[LatencySample]) -> tuple[float | None, float | None, float | None]:
    """Requests per second, p50 and p99 of the last window; None without requests."""
    if len(samples) < 2:
        return None, None, None
    last = samples[-1]
    first = next(sample for sample in samples if last.at_s - sample.at_s <= WINDOW_S)
    if first is last:
        first = samples[-2]
    before = dict(first.buckets)
    new = [(edge, count - before.get(edge, 0.0)) for edge, count in last.buckets]
    rate = (last.requests_count - first.requests_count) / (last.at_s - first.at_s)
    return rate, quantile_of(new, 0.5), quantile_of(new, 0.99)
