"""Name the limit that really binds an infeasible workload, and a change that makes it feasible.

A nearest miss is no answer: the candidate that misses one limit least may exceed another far
more. So each limit is dropped in turn. If the rest is feasible, that limit binds, and the least
value that an option reaches with the confidence of the file is the fix; it is planned again
before it is proposed. Without a latency target the cheapest services are far from it, so such a
target is then bisected towards that of the file. If no single limit binds, the fix raises several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from gpuyard.errors import Infeasible
from gpuyard.perf.interval import COVERAGE
from gpuyard.plan.limits import rounded_up_text
from gpuyard.plan.option import Option, Plan
from gpuyard.plan.predictions import Prediction
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, Dimension, parse
from gpuyard.workload.requirements import TAILS
from gpuyard.workload.workload import Workload

Planner = Callable[[Workload], Plan | Infeasible]
SIZES = ("where.inventory", "where.max_chips")
ROUNDS = 3  # times that a fix is raised by a tenth until it is feasible
RAISE = 1.1
BISECTIONS = 4  # of a latency target
CLOSE = 1.15  # ratio of two targets that need no value between them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """A limit of the file and the figure of an option that it bounds."""

    key: str  # as the file spells it
    field: str  # of the requirements
    dimension: Dimension
    figure: str  # a prediction; empty: the hourly price
    verb: str


LIMITS = (
    _Limit(
        key="hourly_budget",
        field="hourly_budget_usd_per_hour",
        dimension=PRICE_PER_HOUR,
        figure="",
        verb="costs",
    ),
    _Limit(key="budget", field="budget_usd", dimension=MONEY, figure="cost_usd", verb="costs"),
    _Limit(key="deadline", field="deadline_s", dimension=DURATION, figure="time_s", verb="takes"),
    _Limit(key="ttft", field="ttft_s", dimension=DURATION, figure="ttft_s", verb="has a TTFT of"),
    _Limit(key="tpot", field="tpot_s", dimension=DURATION, figure="tpot_s", verb="has a TPOT of"),
    _Limit(key="p99", field="p99_s", dimension=DURATION, figure="e2e_p99_s", verb="has a p99 of"),
    *(
        _Limit(
            key=f"{metric}_p{percent}",
            field=f"{metric}_p{percent}_s",
            dimension=DURATION,
            figure=f"{metric}_p{percent}_s",
            verb=f"has a {metric} p{percent} of",
        )
        for metric, percent in TAILS
    ),
)


LATENCIES = {limit.figure for limit in LIMITS if limit.figure.startswith(("ttft", "tpot", "e2e"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A limit with the value that an option reaches."""

    limit: _Limit
    text: str  # the new value
    ratio: float  # new over old
    option: Option


def smallest_change(workload: Workload, infeasible: Infeasible, plan: Planner) -> Infeasible:
    """Return the reason with the binding limit and a fix that was planned, or the given reason."""
    given = [limit for limit in LIMITS if getattr(workload.requirements, limit.field) is not None]
    if not given:
        return infeasible
    fixes = [fix for limit in given if (fix := _fix(workload, [limit], plan)) is not None]
    if not fixes and len(given) > 1:
        together = _fix(workload, given, plan)
        fixes = [together] if together is not None else []
    if not fixes:
        return infeasible
    best = min(fixes, key=lambda changes: math.prod(change.ratio for change in changes))
    reason = _reason(best, alone=len(given) == 1)
    if infeasible.binding in SIZES:  # more machines are the other way out
        return replace(infeasible, fix=f"{infeasible.fix}, or {reason.fix}")
    chips = _chips_needed(workload, plan)
    if chips is not None:
        return replace(reason, fix=f"{reason.fix}, or max_chips to {chips:,}")
    return reason


def confident_change(workload: Workload, plan: Plan, planner: Planner) -> str:
    """What a plan needs whose options meet the limits only nominally; empty if nothing is known."""
    if plan.options[0].meets_limits:
        return ""
    given = [limit for limit in LIMITS if getattr(workload.requirements, limit.field) is not None]
    confidence = workload.requirements.confidence_ratio
    drops = [given, *([limit] for limit in given if len(given) > 1)]
    relaxed = [planner(_changed(workload, {item.field: None for item in drop})) for drop in drops]
    candidates = [
        changes
        for known in (plan, *relaxed)
        if isinstance(known, Plan)
        for option in known.options
        if (changes := _changes(workload, given, option, confidence))
    ]
    remedies = []
    if candidates:
        changes = min(candidates, key=lambda item: math.prod(change.ratio for change in item))
        for _ in range(ROUNDS):
            planned = planner(_changed(workload, _values(changes)))
            if isinstance(planned, Plan) and planned.options[0].meets_limits:
                texts = (f"raise {change.limit.key} to {change.text}" for change in changes)
                remedies.append(" and ".join(texts))
                break
            changes = tuple(_raised(change) for change in changes)
    remedies += _larger_cluster(workload, plan, planner)
    if not remedies:
        return ""
    return f"to meet every limit with {confidence:.0%}: {', or '.join(remedies)}"


def _larger_cluster(workload: Workload, plan: Plan, planner: Planner) -> list[str]:
    """The fewest machines of an exact cluster's type that meet the limits."""
    if not workload.where.cluster:
        return []
    machine = plan.options[0].cluster.machine
    where = replace(workload.where, cluster=(), machines=(machine,))
    free = planner(replace(workload, where=where))
    if isinstance(free, Infeasible):
        return []
    counts = [option.cluster.machine_count for option in free.options if option.meets_limits]
    return [f"use {min(counts):,} × {machine}"] if counts else []


def _values(changes: Sequence[_Change]) -> dict[str, float | None]:
    return {change.limit.field: parse(change.text, change.limit.dimension) for change in changes}


def _chips_needed(workload: Workload, plan: Planner) -> int | None:
    """The fewest chips that meet every limit, where the file allows fewer; None if none do."""
    if workload.where.max_chips is None:
        return None
    free = plan(replace(workload, where=replace(workload.where, max_chips=None)))
    if isinstance(free, Infeasible):
        return None
    counts = [option.cluster.chip_count for option in free.options if option.meets_limits]
    return math.ceil(min(counts)) if counts else None


def _fix(
    workload: Workload, dropped: Sequence[_Limit], plan: Planner
) -> tuple[_Change, ...] | None:
    """The changes of the dropped limits with which the workload is feasible, or None."""
    relaxed = plan(_changed(workload, {limit.field: None for limit in dropped}))
    if isinstance(relaxed, Infeasible):
        return None
    confidence = workload.requirements.confidence_ratio
    advised = [option for option in relaxed.options if option.bill is None or option.bill.advised]
    candidates = [
        changes
        for option in advised or relaxed.options
        if (changes := _changes(workload, dropped, option, confidence))
    ]
    if not candidates:
        return None
    changes = min(candidates, key=lambda item: math.prod(change.ratio for change in item))
    for _ in range(ROUNDS):
        if isinstance(plan(_changed(workload, _values(changes))), Plan):
            if len(changes) == 1 and changes[0].limit.figure in LATENCIES:
                return (_tightened(workload, changes[0], plan),)
            return changes
        changes = tuple(_raised(change) for change in changes)
    return None


def _tightened(workload: Workload, change: _Change, plan: Planner) -> _Change:
    """The least latency target between that of the file and a feasible one, by bisection."""
    limit = change.limit
    old = low = getattr(workload.requirements, limit.field)
    for _ in range(BISECTIONS):
        high = parse(change.text, limit.dimension)
        if high <= CLOSE * low:
            break
        text = rounded_up_text(math.sqrt(low * high), limit.dimension)
        middle = parse(text, limit.dimension)
        planned = plan(_changed(workload, {limit.field: middle}))
        if isinstance(planned, Plan) and planned.options[0].meets_limits:
            option = planned.options[0]
            change = replace(change, text=text, ratio=middle / old, option=option)
        else:
            low = middle
    return change


def _changes(
    workload: Workload, dropped: Sequence[_Limit], option: Option, confidence: float
) -> tuple[_Change, ...]:
    """The limits that the option exceeds, with the values that it reaches; empty if unknown."""
    changes = []
    for limit in dropped:
        old = getattr(workload.requirements, limit.field)
        value = _figure(option, limit, confidence)
        if value is None:
            return ()
        if value > old:
            text = rounded_up_text(value, limit.dimension)
            changes.append(_Change(limit=limit, text=text, ratio=value / old, option=option))
    return tuple(changes)


def _figure(option: Option, limit: _Limit, confidence: float) -> float | None:
    """The figure that the option stays below with the confidence."""
    if not limit.figure:
        return option.bill.usd_per_hour if option.bill is not None else None
    predicted = option.prediction(limit.figure)
    return None if predicted is None else _quantile(predicted, confidence)


def _quantile(predicted: Prediction, confidence: float) -> float:
    normal = NormalDist()
    spread = math.log(predicted.high / predicted.value) / normal.inv_cdf(0.5 + COVERAGE / 2.0)
    return predicted.value * math.exp(spread * normal.inv_cdf(confidence))


def _changed(workload: Workload, values: Mapping[str, float | None]) -> Workload:
    changes: dict[str, Any] = dict(values)
    return replace(workload, requirements=replace(workload.requirements, **changes))


def _raised(change: _Change) -> _Change:
    value = RAISE * parse(change.text, change.limit.dimension)
    text = rounded_up_text(value, change.limit.dimension)
    return replace(change, text=text, ratio=RAISE * change.ratio)


def _reason(changes: Sequence[_Change], *, alone: bool) -> Infeasible:
    worst = max(changes, key=lambda change: change.ratio)
    cluster = worst.option.cluster
    others = "" if alone else " within the other limits"
    over = f"{worst.ratio:.0f} times" if worst.ratio > 10.0 else f"{worst.ratio - 1.0:.0%} above"
    figures = " and ".join(f"{change.limit.verb} {change.text}" for change in changes)
    return Infeasible(
        binding=f"requirements.{worst.limit.key}",
        what=f"the nearest option{others}, {cluster.machine_count} × {cluster.machine}, {figures}"
        f" ({over} the limit)",
        fix=" and ".join(f"raise {change.limit.key} to {change.text}" for change in changes),
    )
