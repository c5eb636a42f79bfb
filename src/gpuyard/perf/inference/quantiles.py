"""Mean and quantiles of a latency."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyQuantiles:
    """Mean and quantiles of a duration."""

    mean_s: float
    p50_s: float
    p90_s: float
    p95_s: float
    p99_s: float


def quantiles(values: npt.NDArray[np.float64]) -> LatencyQuantiles:
    """Return mean and quantiles; zeros without values."""
    if not len(values):
        return LatencyQuantiles(mean_s=0.0, p50_s=0.0, p90_s=0.0, p95_s=0.0, p99_s=0.0)
    p50, p90, p95, p99 = np.quantile(values, (0.5, 0.9, 0.95, 0.99))
    return LatencyQuantiles(
        mean_s=float(values.mean()),
        p50_s=float(p50),
        p90_s=float(p90),
        p95_s=float(p95),
        p99_s=float(p99),
    )
