"""The order of options, and those that nothing beats in time, cost and number of chips at once."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuyard.plan.option import Option

__all__ = ["pareto_front", "ranked"]


def pareto_front(options: Sequence[Option]) -> tuple[Option, ...]:
    """The same options in the same order, with `on_front` set; an unknown cost counts as the highest."""
    triples = [_triple(option) for option in options]
    front = _least(set(triples))
    return tuple(
        replace(option, on_front=triple in front) for option, triple in zip(options, triples, strict=True)
    )  # fmt: skip


def ranked(options: Iterable[Option]) -> tuple[Option, ...]:
    """By cost, then by time, then by the number of chips; an unknown cost comes last, and doubt after everything."""
    return tuple(sorted(options, key=_order))


def _order(option: Option) -> tuple[bool, float, float, float, str, int]:
    """What decides between two options; the name only so that the same input gives the same order."""
    time_s, usd, chip_count = _triple(option)
    doubtful = bool(option.service and option.service.doubts)
    return doubtful, usd, time_s, chip_count, option.cluster.machine, option.cluster.machine_count


def _triple(option: Option) -> tuple[float, float, float]:
    """Time, cost and chips; the time of a service is that of its answers."""
    usd = option.usd
    time_s = option.service.e2e.mean_s if option.service else option.expected_s
    return time_s, math.inf if usd is None else usd, option.cluster.chip_count


def _least(triples: set[tuple[float, float, float]]) -> set[tuple[float, float, float]]:
    """The triples that no other is below or equal to in all three; a sweep over time with a staircase of the rest."""
    found: set[tuple[float, float, float]] = set()
    costs: list[float] = []  # of the staircase, rising …
    chips: list[float] = []  # … while these fall
    for time_s, usd, chip_count in sorted(triples):
        at = bisect.bisect_right(costs, usd)
        if at and chips[at - 1] <= chip_count:
            continue  # something as fast costs no more and has no more chips
        found.add((time_s, usd, chip_count))
        at = bisect.bisect_left(costs, usd)
        end = at
        while end < len(chips) and chips[end] >= chip_count:
            end += 1  # steps that the new one makes useless
        costs[at:end], chips[at:end] = [usd], [chip_count]
    return found
