"""Goodput: checkpoint overhead, work lost to interruptions, restarts.

Idea: interruptions are a Poisson process, also during restarts; an interruption loses the work
since the last checkpoint (rollback). All functions take numbers or NumPy arrays that broadcast.
Invariant: expected = useful + checkpoint + lost + restart.
Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9),
1974; J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
FGCS 22(3), 2006.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Numbers: TypeAlias = float | npt.NDArray[np.float64]

NEVER_S = 1e18  # longer than any run, small enough to divide by
# Shortest interval over the mean time between interruptions; shorter changes nothing.
MIN_INTERVAL_RATIO = 1e-9
MAX_EXPONENT = 100.0  # work that takes e**100 times as long never ends; more would overflow
NEWTON_STEPS = 5  # quadratic convergence from Daly's estimate: four reach the last digit


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Expected time: expected_s = useful_s + checkpoint_s + lost_s + restart_s."""

    interval_s: Numbers  # useful work between checkpoints
    useful_s: Numbers
    checkpoint_s: Numbers  # writing checkpoints
    lost_s: Numbers  # work and started checkpoints lost to interruptions
    restart_s: Numbers
    expected_s: Numbers
    goodput_ratio: Numbers  # useful_s / expected_s
    interruptions_count: Numbers


def young_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """Return the first-order optimal checkpoint interval (Young 1974)."""
    return _plain(np.sqrt(2.0 * np.asarray(write_s) * mean_time_between_s))


def daly_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """Return the higher-order optimal checkpoint interval (Daly 2006, eq. 37)."""
    between = np.asarray(mean_time_between_s, dtype=np.float64)
    ratio = np.asarray(write_s) / (2.0 * between)
    estimate = (
        np.asarray(young_interval_s(between, write_s))
        * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0)  # higher-order terms
        - write_s  # the write is not part of the interval
    )
    return _plain(np.where(ratio < 1.0, estimate, between))


def best_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """Return the interval that minimises the expected time: Newton steps from Daly's estimate.

    With u = interval / M and d = write / M, the expected time is minimal where
    u − 1 + exp(−(u + d)) = 0.
    """
    between = np.minimum(np.asarray(mean_time_between_s, dtype=np.float64), NEVER_S)
    write = np.asarray(write_s) / between
    gap = np.maximum(np.asarray(daly_interval_s(between, write_s)) / between, MIN_INTERVAL_RATIO)
    for _ in range(NEWTON_STEPS):
        slope = -np.expm1(-(gap + write))
        gap = np.clip(gap - (gap + np.expm1(-(gap + write))) / slope, MIN_INTERVAL_RATIO, 1.0)
    return _plain(gap * between)


def goodput(
    useful_s: Numbers,
    mean_time_between_s: Numbers,
    write_s: Numbers,
    restart_s: Numbers,
    interval_s: Numbers | None = None,
) -> Goodput:
    """Return the expected time of `useful_s` seconds of work; default: the best interval.

    With M = `mean_time_between_s` of the whole cluster, R = restart and L = interval + write, one
    interval takes M·exp(R/M)·(exp(L/M) − 1) (Daly 2006).
    """
    useful = np.asarray(useful_s, dtype=np.float64)
    between = np.minimum(np.asarray(mean_time_between_s, dtype=np.float64), NEVER_S)
    gap = np.asarray(
        best_interval_s(between, write_s) if interval_s is None else interval_s, dtype=np.float64
    )
    longest = np.where(useful > 0.0, useful, between)  # shorter work is one interval
    gap = np.clip(gap, np.minimum(MIN_INTERVAL_RATIO * between, longest), longest)
    pieces = useful / gap
    length = gap + write_s
    exponent = np.minimum(length / between, MAX_EXPONENT)
    # M·(exp(L/M) − 1): attempts until one interval completes.
    worked = length * np.expm1(exponent) / exponent
    restarts = np.expm1(np.minimum(np.asarray(restart_s) / between, MAX_EXPONENT))
    checkpoint = pieces * write_s
    lost = pieces * np.maximum(worked - length, 0.0)
    restart = pieces * worked * restarts
    expected = useful + checkpoint + lost + restart
    ones = np.ones(np.shape(expected))
    return Goodput(
        interval_s=_plain(gap),
        useful_s=_plain(useful),
        checkpoint_s=_plain(checkpoint),
        lost_s=_plain(lost),
        restart_s=_plain(restart),
        expected_s=_plain(expected),
        goodput_ratio=_plain(np.divide(useful, expected, where=expected > 0.0, out=ones)),
        interruptions_count=_plain(expected / between),
    )


def _plain(value: npt.NDArray[np.float64]) -> Numbers:
    """Return a float for numbers, an array for arrays."""
    return float(value) if np.ndim(value) == 0 else value
