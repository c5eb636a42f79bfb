"""Rank options, and mark the Pareto front of time, cost and number of chips."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuyard.plan.option import Option

RISK_STEPS = 5  # options that meet a limit only nominally are ranked in steps of 20 % of chance
EQUAL_COST = math.log(1.1)  # of the cheapest: within it the smaller cluster leads


def pareto_front(options: Sequence[Option]) -> tuple[Option, ...]:
    """Set `on_pareto_front` of each option; an unknown cost counts as the highest."""
    triples = [_triple(option) for option in options]
    front = _minimal(set(triples))
    return tuple(
        replace(option, on_pareto_front=triple in front)
        for option, triple in zip(options, triples, strict=True)
    )


def ranked(options: Iterable[Option], owned: bool = False) -> tuple[Option, ...]:
    """Sort options as an expert would choose.

    First come options that meet every limit with the confidence of the file, then those that meet
    it only nominally, the likelier first. Within them the cheapest leads, but of options within
    10 % of its cost the fewest machines and chips; a chip without a published run counts as dear
    as its error bar allows. Options without a price come last, by the fewest chips, or by time
    on machines that are owned.
    """
    rest = list(options)
    known = [_ranking_usd(option) for option in rest if option.usd and option.meets_limits]
    known = known or [_ranking_usd(option) for option in rest if option.usd]
    least = min(known, default=1.0)
    return tuple(sorted(rest, key=lambda option: _order(option, least, owned)))


def _order(option: Option, least_usd: float, owned: bool) -> tuple[object, ...]:
    """The machine's name makes the order deterministic."""
    time_s, usd, chip_count = _triple(option)
    machines = option.cluster.machine_count
    risk = 0 if option.meets_limits else 1 + round(RISK_STEPS * (1.0 - option.chance))
    advised = option.bill is None or option.bill.advised
    if math.isfinite(usd):
        step = math.floor(math.log(max(_ranking_usd(option), 1e-9) / least_usd) / EQUAL_COST + 1e-9)
        size: tuple[float, ...] = (step, machines, chip_count, usd, time_s)
    elif owned and option.service is None:
        size = (math.inf, time_s, chip_count)
    else:
        size = (math.inf, not option.measured, chip_count, machines, time_s)
    return risk, not advised, size, option.cluster.machine, machines


def _ranking_usd(option: Option) -> float:
    return (option.usd or 0.0) * (1.0 if option.measured else 1.0 + option.error_ratio)


def _triple(option: Option) -> tuple[float, float, float]:
    """Time, cost and chips; the time of a service is its end-to-end latency."""
    usd = option.usd
    time_s = option.service.e2e.mean_s if option.service else option.expected_s
    return time_s, math.inf if usd is None else usd, option.cluster.chip_count


def _minimal(triples: set[tuple[float, float, float]]) -> set[tuple[float, float, float]]:
    """The triples that no other triple dominates."""
    # Sweep over time. `costs` (rising) and `chips` (falling) are the front of the triples that
    # are at least as fast; a triple below that staircase is new, and replaces the steps it beats.
    front: set[tuple[float, float, float]] = set()
    costs: list[float] = []
    chips: list[float] = []
    for time_s, usd, chip_count in sorted(triples):
        at = bisect.bisect_right(costs, usd)
        if at and chips[at - 1] <= chip_count:
            continue  # dominated
        front.add((time_s, usd, chip_count))
        at = bisect.bisect_left(costs, usd)
        end = at
        while end < len(chips) and chips[end] >= chip_count:
            end += 1
        costs[at:end] = [usd]
        chips[at:end] = [chip_count]
    return front
