"""Repeated timing of a call: median and spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

MIN_CALLS = 5
MAX_CALLS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedResult:
    """The median of the repeated times, and their interquartile range relative to it."""

    median_s: float
    spread_ratio: float
    count: int


def timed(call: Callable[[], object], budget_s: float = 0.3) -> TimedResult:
    """Time a call repeatedly for about `budget_s`, at least five times, after one warm-up call."""
    call()
    times: list[float] = []
    end_s = time.perf_counter() + budget_s
    while len(times) < MIN_CALLS or (time.perf_counter() < end_s and len(times) < MAX_CALLS):
        start_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - start_s)
    low, middle, high = statistics.quantiles(times, n=4)
    return TimedResult(
        median_s=middle, spread_ratio=(high - low) / middle if middle else 0.0, count=len(times)
    )
