"""Useful time against time spent: checkpoints, work lost to interruptions, restarts.

Interruptions arrive at random at a constant rate (exponential gaps), also while the work restarts. Everything takes
numbers or NumPy arrays that broadcast.

    Young 1974    A first order approximation to the optimum checkpoint interval, CACM 17(9)
    Daly 2006     A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Goodput", "Numbers", "best_interval_s", "daly_interval_s", "goodput", "young_interval_s"]

Numbers: TypeAlias = float | npt.NDArray[np.float64]

NEVER_S = 1e18  # longer than any run, and short enough to divide by
LEAST_GAP_RATIO = 1e-9  # of the mean time between interruptions: below it a shorter interval changes nothing
MOST_EXPONENT = 100.0  # work that takes e**100 times as long never ends; more would be no number
NEWTON_STEPS = 5  # quadratic from Daly's estimate, which is near: four reach the last digit


@dataclass(frozen=True, slots=True, kw_only=True)
class Goodput:
    """Where the time goes: expected_s = useful_s + checkpoint_s + lost_s + restart_s."""

    interval_s: Numbers  # of useful work between checkpoints
    useful_s: Numbers
    checkpoint_s: Numbers  # writing checkpoints
    lost_s: Numbers  # work, and checkpoints begun, that interruptions undid
    restart_s: Numbers
    expected_s: Numbers
    goodput_ratio: Numbers  # useful_s / expected_s
    interruptions_count: Numbers


def young_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """The first-order best interval between checkpoints (Young 1974)."""
    return _plain(np.sqrt(2.0 * np.asarray(write_s) * mean_time_between_s))


def daly_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """The higher-order estimate (Daly 2006, eq. 37)."""
    between = np.asarray(mean_time_between_s, dtype=np.float64)
    ratio = np.asarray(write_s) / (2.0 * between)
    estimate = (
        np.asarray(young_interval_s(between, write_s))
        * (1.0 + np.sqrt(ratio) / 3.0 + ratio / 9.0)  # higher-order terms
        - write_s                                     # the write is not part of the interval
    )  # fmt: skip
    return _plain(np.where(ratio < 1.0, estimate, between))


def best_interval_s(mean_time_between_s: Numbers, write_s: Numbers) -> Numbers:
    """The interval with the least expected time: Daly's estimate, led by Newton to the minimum of his model.

    With u = interval / M and d = write / M the expected time is least where u − 1 + exp(−(u + d)) = 0.
    """
    between = np.minimum(np.asarray(mean_time_between_s, dtype=np.float64), NEVER_S)
    write = np.asarray(write_s) / between
    gap = np.maximum(np.asarray(daly_interval_s(between, write_s)) / between, LEAST_GAP_RATIO)
    for _ in range(NEWTON_STEPS):
        slope = -np.expm1(-(gap + write))
        gap = np.clip(gap - (gap + np.expm1(-(gap + write))) / slope, LEAST_GAP_RATIO, 1.0)
    return _plain(gap * between)


def goodput(
    useful_s: Numbers,
    mean_time_between_s: Numbers,
    write_s: Numbers,
    restart_s: Numbers,
    interval_s: Numbers | None = None,
) -> Goodput:
    """The expected time of `useful_s` seconds of work, with its parts; the interval is the best one if none is given.

    `mean_time_between_s` is between interruptions of the whole cluster. One interval takes M·exp(R/M)·(exp(L/M) − 1)
    seconds, L being interval and write together (Daly 2006); the parts are those of the same renewal process.
    """
    useful = np.asarray(useful_s, dtype=np.float64)
    between = np.minimum(np.asarray(mean_time_between_s, dtype=np.float64), NEVER_S)
    gap = np.asarray(best_interval_s(between, write_s) if interval_s is None else interval_s, dtype=np.float64)
    longest = np.where(useful > 0.0, useful, between)  # work shorter than the interval is one piece
    gap = np.clip(gap, np.minimum(LEAST_GAP_RATIO * between, longest), longest)
    pieces = useful / gap
    length = gap + write_s
    exponent = np.minimum(length / between, MOST_EXPONENT)
    worked = length * np.expm1(exponent) / exponent  # M·(exp(L/M) − 1): tries until one piece is through
    again = np.expm1(np.minimum(np.asarray(restart_s) / between, MOST_EXPONENT))
    checkpoint = pieces * write_s
    lost = pieces * np.maximum(worked - length, 0.0)
    restart = pieces * worked * again
    expected = useful + checkpoint + lost + restart
    return Goodput(
        interval_s=_plain(gap),
        useful_s=_plain(useful),
        checkpoint_s=_plain(checkpoint),
        lost_s=_plain(lost),
        restart_s=_plain(restart),
        expected_s=_plain(expected),
        goodput_ratio=_plain(np.where(expected > 0.0, useful / np.where(expected > 0.0, expected, 1.0), 1.0)),
        interruptions_count=_plain(expected / between),
    )


def _plain(value: npt.NDArray[np.float64]) -> Numbers:
    """A float where numbers came in, an array where arrays did."""
    return float(value) if np.ndim(value) == 0 else value
