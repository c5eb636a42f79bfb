"""Rank options, and mark the Pareto front of time, cost and number of chips."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuyard.plan.option import Option
from gpuyard.units import DAY_S
from gpuyard.workload.workload import Workload

RISK_STEPS = 5  # options that meet a limit only nominally are ranked in steps of 20 % of chance
EQUAL_RATIO = 0.1  # of the cheapest: within it the smaller cluster leads
FEWER_CHIPS_RATIO = 0.25  # of the cheapest: of as many machines, those with fewer chips lead
# What saving machines that work together is worth: an engineer's hour. Mean annual wage of US
# software developers in 2024, $144,570 (Bureau of Labor Statistics), over 2,080 hours.
ENGINEER_HOUR_USD = 70.0
# A chip or engine without a published run leads only where a measured one costs twice as much.
UNMEASURED_FACTOR = 2.0
# So does one that changes the numerics: the model has to be evaluated again.
NUMERICS_FACTOR = 2.0
# Time that a run may take before a larger cluster at a similar cost leads, without a deadline:
# assumptions, a month of pre-training and a week of anything else.
PATIENCE_S = {"pretraining": 30.0 * DAY_S}
DEFAULT_PATIENCE_S = 7.0 * DAY_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingRules:
    """What the ranking needs to know of a workload."""

    owned: bool = False  # machines on premises cost nothing more
    together: bool = False  # machines work together: fewer are simpler
    patience_s: float = math.inf
    by_token: bool = False  # a batch without a limit on time: the cost of its tokens counts


DEFAULT_RULES = RankingRules()


def ranking_rules(workload: Workload) -> RankingRules:
    """Return the rules for a workload."""
    training = workload.task in ("pretraining", "finetuning")
    patience_s = PATIENCE_S.get(workload.task, DEFAULT_PATIENCE_S)
    return RankingRules(
        owned=workload.where.provider == "onprem",
        together=training or (workload.hpc is not None and workload.hpc.mpi),
        patience_s=math.inf if workload.requirements.deadline_s is not None else patience_s,
        by_token=_is_batch(workload),
    )


def _is_batch(workload: Workload) -> bool:
    """True for a closed loop of requests without a rate or a limit on latency."""
    needs = workload.requirements
    limits = (needs.requests_per_s, needs.ttft_s, needs.tpot_s, needs.p99_s)
    traffic = workload.traffic
    closed = traffic is not None and traffic.concurrency_count is not None
    return closed and not needs.tails and all(limit is None for limit in limits)


def compared_usd(option: Option, *, by_token: bool) -> float | None:
    """The cost by which options are compared: of the run or hour, or of a million tokens."""
    if by_token and option.service is not None:
        return option.service.usd_per_million_tokens
    return option.usd


def pareto_front(options: Sequence[Option]) -> tuple[Option, ...]:
    """Set `on_pareto_front` of each option; an unknown cost counts as the highest."""
    triples = [_triple(option) for option in options]
    front = _minimal(set(triples))
    return tuple(
        replace(option, on_pareto_front=triple in front)
        for option, triple in zip(options, triples, strict=True)
    )


def ranked(options: Iterable[Option], rules: RankingRules = DEFAULT_RULES) -> tuple[Option, ...]:
    """Sort options as an expert would choose.

    First come options that meet every limit with the confidence of the file, then those that meet
    it only nominally, the likelier first. Within them the cheapest leads, but of options at a
    similar cost those whose accelerators are used, that keep their state on them, that end in
    time, and have the fewest machines and chips. Options without a price come last, by the fewest
    chips, or by time on machines that are owned.
    """
    rest = list(options)
    known = [
        _ranking_usd(option, rules)
        for option in rest
        if option.usd and option.meets_limits and _is_advised(option)
    ]
    known = known or [_ranking_usd(option, rules) for option in rest if option.usd]
    least = min(known, default=1.0)
    return tuple(sorted(rest, key=lambda option: _order(option, least, rules)))


def _order(option: Option, least_usd: float, rules: RankingRules) -> tuple[object, ...]:
    """The machine's name makes the order deterministic."""
    time_s, usd, chip_count = _triple(option)
    machines = option.cluster.machine_count
    risk = 0 if option.meets_limits else 1 + round(RISK_STEPS * (1.0 - option.chance))
    late = option.service is None and time_s > rules.patience_s
    if math.isfinite(usd):
        ranking_usd = _ranking_usd(option, rules)
        size: tuple[float, ...] = (
            _cost_step(ranking_usd, least_usd, ENGINEER_HOUR_USD if rules.together else 0.0),
            has_idle_chips(option),
            option.arrangement is not None and option.arrangement.offload != "none",
            time_s if late else 0.0,
            machines,
            _cost_step(ranking_usd, least_usd, ratio=FEWER_CHIPS_RATIO),
            chip_count,
            _cost_step(ranking_usd, least_usd),
            time_s,
            ranking_usd,
        )
    elif rules.owned and option.service is None:
        size = (math.inf, time_s, chip_count)
    else:
        on_cpu = option.service is not None and option.cluster.chip is None
        size = (math.inf, not option.measured, on_cpu, chip_count, machines, time_s)
    return (
        risk,
        not _is_advised(option),
        has_unused_chips(option),
        size,
        option.cluster.machine,
        machines,
    )


def _is_advised(option: Option) -> bool:
    return option.bill is None or option.bill.advised


def _cost_step(
    usd: float, least_usd: float, hour_usd: float = 0.0, ratio: float = EQUAL_RATIO
) -> int:
    """0 for a cost similar to the least, then one more per 10 %.

    Adding the same base to both costs makes a step as wide as 10 % and an engineer's hour.
    """
    base = hour_usd / ratio
    dearer = (max(usd, 1e-9) + base) / (least_usd + base)
    return math.floor(math.log(dearer) / math.log1p(ratio) + 1e-9)


def has_unused_chips(option: Option) -> bool:
    """Return True if the machine has accelerators and all of the work stays on its CPUs."""
    parts = [part for part in option.step_parts if part.value > 0.0 and part.name != "messages"]
    on_cpu = [part.name.startswith("CPU") for part in parts]
    return option.cluster.chip is not None and bool(on_cpu) and all(on_cpu)


def has_idle_chips(option: Option) -> bool:
    """Return True if accelerators wait for the CPU most of the time."""
    total = sum(part.value for part in option.step_parts)
    cpu = sum(part.value for part in option.step_parts if part.name.startswith("CPU"))
    return option.cluster.chip is not None and cpu > 0.5 * total


def _ranking_usd(option: Option, rules: RankingRules) -> float:
    factor = 1.0 if option.measured else max(UNMEASURED_FACTOR, 1.0 + option.error_ratio)
    if not option.keeps_numerics:
        factor *= NUMERICS_FACTOR
    return (compared_usd(option, by_token=rules.by_token) or 0.0) * factor


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
