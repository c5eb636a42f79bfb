"""How long something takes: repeated until it is known, told with its spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Timed", "timed"]

LEAST, MOST = 5, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The median of repeated times, and how far their quarters lie apart."""

    median_s: float
    spread_ratio: float
    count: int


def timed(call: Callable[[], object], budget_s: float = 0.3) -> Timed:
    """Calls again and again for about `budget_s`, at least five times, after one call that is not counted."""
    call()
    times: list[float] = []
    end_s = time.perf_counter() + budget_s
    while len(times) < LEAST or (time.perf_counter() < end_s and len(times) < MOST):
        start_s = time.perf_counter()
        call()
        times.append(time.perf_counter() - start_s)
    low, middle, high = statistics.quantiles(times, n=4)
    return Timed(median_s=middle, spread_ratio=(high - low) / middle if middle else 0.0, count=len(times))
