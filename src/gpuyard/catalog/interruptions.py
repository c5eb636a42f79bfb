"""Interruption rates: published records of failures and spot preemptions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import COUNT, DURATION

Z_90 = 1.645  # standard deviations: 5 % of a normal distribution are beyond


def _chi_squared(degrees: float, z: float) -> float:
    """Quantile of chi², by the cube that is nearly normal (Wilson and Hilferty 1931)."""
    spread = 2.0 / (9.0 * degrees)
    return degrees * max(0.0, 1.0 - spread + z * math.sqrt(spread)) ** 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """One record: a number of interruptions of N chips or machines over a period."""

    name: str
    label: str
    cause: Literal["failure", "preemption"]
    unit: Annotated[Literal["chip", "machine"], Doc("what was counted")]
    events_count: Annotated[float, COUNT, Doc("interruptions observed")]
    unit_count: Annotated[float, COUNT, Doc("chips or machines observed")]
    observed_s: Annotated[float, DURATION, Doc("length of the observation")]
    source: SourceNames
    chips_per_unit: Annotated[int, AtLeast(1), Doc("chips per machine of the record")] = 1
    chips: Annotated[tuple[str, ...], Doc("observed chips: names under chips")] = ()
    provider: Annotated[str, Doc("provider of preempted machines")] = ""
    restart_s: Annotated[
        float | None, DURATION, Doc("time from an interruption to useful work")
    ] = None
    default: Annotated[bool, Doc("used for chips or providers without a record")] = False
    note: str = ""

    @property
    def rate_interval(self) -> tuple[float, float]:
        """Factors from the counted rate to the ends of its 90 % interval.

        Interruptions are a Poisson process, so the rate that N events leave possible is a gamma
        distribution: chi²(2N) / 2 to chi²(2N + 2) / 2 events (Garwood 1936).
        """
        count = self.events_count
        low = 0.5 * _chi_squared(2.0 * count, -Z_90) / count
        high = 0.5 * _chi_squared(2.0 * count + 2.0, Z_90) / count
        return low, high

    @property
    def mean_time_between_s(self) -> float:
        """Mean time between interruptions of one chip or machine."""
        return self.observed_s * self.unit_count / self.events_count
