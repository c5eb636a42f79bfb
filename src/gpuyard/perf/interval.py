"""Prediction intervals on a log scale.

Idea: errors of a performance model are factors, not differences ("1.3 times too fast"), so the
logarithm of measured / predicted is close to normal and the interval is predicted / (1 + r) to
predicted × (1 + r). Half of the probability lies on either side of the predicted value; each side
has its own spread, so a shifted interval needs no other formula.
Invariant: `chance_below(low)` is 5 %, `chance_below(value)` 50 %, `chance_below(high)` 95 %.
Source: two-piece normal distribution, K. F. Wallis, Statistical Science 29 (2014) 106-112; here
with equal mass on both sides, so that the predicted value is the median.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

from gpuyard.document.field_types import Doc

COVERAGE = 0.9  # of every PredictionInterval


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionInterval:
    """A predicted value and the interval that contains the measured one in 90 % of cases."""

    value: Annotated[float, Doc("predicted value, the median")]
    low: Annotated[float, Doc("5 % of measured values are below")]
    high: Annotated[float, Doc("5 % of measured values are above")]

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= self.value <= self.high < math.inf:
            raise ValueError(f"no interval: {self.low} <= {self.value} <= {self.high}")

    @classmethod
    def from_ratio(
        cls, value: float, ratio: float, coverage: float = COVERAGE
    ) -> PredictionInterval:
        """Return value / (1 + r) to value × (1 + r), widened from `coverage` to 90 %.

        Args:
            value: the predicted value, positive.
            ratio: relative error that a share `coverage` of the predictions stays within.
            coverage: 0.9 for training error bars, 0.8 for serving error bars.
        """
        factor = 1.0 + ratio_at_90(ratio, coverage)
        return cls(value=value, low=value / factor, high=value * factor)

    def scaled(self, factor: float) -> PredictionInterval:
        """Return the interval of `factor` times the predicted quantity."""
        return PredictionInterval(
            value=self.value * factor, low=self.low * factor, high=self.high * factor
        )

    def contains(self, measured: float) -> bool:
        """Return whether a measured value is inside the interval."""
        return self.low <= measured <= self.high

    def chance_below(self, limit: float) -> float:
        """Return the probability that the measured value is at most `limit`."""
        if limit <= 0.0:
            return 0.0
        bound = self.low if limit < self.value else self.high
        if bound == self.value:  # no spread on this side
            return 1.0 if limit >= self.value else 0.0
        spread = abs(math.log(bound / self.value)) / _z(COVERAGE)
        return NormalDist().cdf(math.log(limit / self.value) / spread)

    def chance_above(self, limit: float) -> float:
        """Return the probability that the measured value is at least `limit`."""
        return 1.0 - self.chance_below(limit)


def ratio_at_90(ratio: float, coverage: float) -> float:
    """Return the relative error bar at 90 % for one that states another coverage."""
    if coverage == COVERAGE:
        return ratio
    return math.expm1(math.log1p(ratio) * _z(COVERAGE) / _z(coverage))


def _z(coverage: float) -> float:
    """Return the standard deviations on either side of the median that give `coverage`."""
    return NormalDist().inv_cdf(0.5 + coverage / 2.0)
