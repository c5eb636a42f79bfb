"""Predicted figures with their intervals, and chances of meeting a limit.

Errors are factors, so every interval is on a log scale. Independent errors add in quadrature on
that scale, each side of the median on its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.perf.interval import COVERAGE, PredictionInterval

SERVING_COVERAGE = 0.8  # of the error bars of the serving model


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A predicted figure with its 90 % interval."""

    name: Annotated[str, Doc("with its unit: time_s, cost_usd, ttft_s")]
    value: Annotated[float, Doc("the median")]
    low: Annotated[float, Doc("5 % of measured values are below")]
    high: Annotated[float, Doc("5 % of measured values are above")]

    @property
    def interval(self) -> PredictionInterval:
        return PredictionInterval(value=self.value, low=self.low, high=self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChance:
    """A limit of the workload and the chance that the option meets it."""

    name: Annotated[str, Doc("the key under requirements, or memory")]
    limit: float
    chance: Annotated[float, Doc("probability, 0 to 1")]
    met: Annotated[bool, Doc("true: with the confidence of the file; false: only nominally")]


def prediction(
    name: str, value: float, ratio: float, coverage: float = COVERAGE
) -> Prediction | None:
    """Return value / (1 + ratio) to value × (1 + ratio) as a prediction; None for zero."""
    if value <= 0.0 or not math.isfinite(value):
        return None
    return of_interval(name, PredictionInterval.from_ratio(value, ratio, coverage))


def error_factor(ratio: float, confidence: float, coverage: float = SERVING_COVERAGE) -> float:
    """Return the factor that the measured value stays below with the confidence.

    `ratio` is the relative error that a share `coverage` of the predictions stays within.
    """
    normal = NormalDist()
    spread = math.log1p(ratio) / normal.inv_cdf(0.5 + coverage / 2.0)
    return math.exp(spread * normal.inv_cdf(confidence))


def of_interval(name: str, interval: PredictionInterval) -> Prediction:
    """Return an interval under a name."""
    return Prediction(name=name, value=interval.value, low=interval.low, high=interval.high)


def combined(one: PredictionInterval, other: PredictionInterval) -> PredictionInterval:
    """Return `one` widened by the independent relative error of `other`."""
    low = math.hypot(math.log(one.value / one.low), math.log(other.value / other.low))
    high = math.hypot(math.log(one.high / one.value), math.log(other.high / other.value))
    value = one.value
    return PredictionInterval(value=value, low=value * math.exp(-low), high=value * math.exp(high))
