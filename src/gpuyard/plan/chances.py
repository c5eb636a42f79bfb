"""Predictions of an option, and the chance that it meets each limit of the workload."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuyard.perf.interval import PredictionInterval
from gpuyard.plan.option import Bill, Option
from gpuyard.plan.predictions import LimitChance, Prediction, combined, of_interval, prediction
from gpuyard.units import HOUR_S
from gpuyard.workload.requirements import Requirements

# Peak memory of 134 published runs: 4.8 % mean error (docs/concepts/training-model.md), which is
# 4.8 / 0.8 = 6 % of standard deviation, and 10 % within which nine of ten runs are.
MEMORY_ERROR_RATIO = 0.10
ROUNDING = 1e-9  # of a chance


def run_predictions(option: Option) -> tuple[Prediction, ...]:
    """Return time, cost, step and memory of a run; the bill adds the interruption rate's error."""
    bill = option.bill
    step = of_interval("step_s", _step_interval(option, option.step_s)) if option.step_s else None
    results = [step]
    time = time_interval(option, bill)
    if time is not None:
        results.append(of_interval("time_s", time))
        if bill is not None and bill.usd > 0.0:
            results.append(of_interval("cost_usd", _cost(bill, time)))
    if option.arrangement is not None:
        results.append(prediction("memory_bytes", option.memory_bytes, MEMORY_ERROR_RATIO))
    return tuple(item for item in results if item is not None)


def time_interval(option: Option, bill: Bill | None) -> PredictionInterval | None:
    """Return the time to finish with a consumption option, with both sources of error."""
    expected_s = bill.expected_s if bill is not None else option.expected_s
    if expected_s <= 0.0:
        return None
    step = _step_interval(option, expected_s)
    if bill is None or not 0.0 < bill.low_s <= expected_s <= bill.high_s < math.inf:
        return step
    interruptions = PredictionInterval(value=expected_s, low=bill.low_s, high=bill.high_s)
    return combined(step, interruptions)


def _step_interval(option: Option, value_s: float) -> PredictionInterval:
    """Return the interval of a time that is a multiple of the step time."""
    low_ratio = option.error_ratio if option.error_low_ratio is None else option.error_low_ratio
    low, high = value_s / (1.0 + low_ratio), value_s * (1.0 + option.error_ratio)
    return PredictionInterval(value=value_s, low=low, high=high)


def _cost(bill: Bill, time: PredictionInterval) -> PredictionInterval:
    """A commitment is billed for its term however short the run is."""
    per_s = bill.usd_per_hour / HOUR_S
    return PredictionInterval(
        value=bill.usd,
        low=min(bill.usd, per_s * max(time.low, bill.term_s)),
        high=max(bill.usd, per_s * time.high),
    )


def with_chances(option: Option, requirements: Requirements, *, timed: bool = True) -> Option:
    """Return the option with its predictions and the chance of meeting each limit.

    `timed` is false for an hour of a service, whose length is no prediction.
    """
    if option.service is None and timed:
        option = replace(option, predictions=run_predictions(option))
    limits = [*limit_chances(option.predictions, requirements), *_certain(option, requirements)]
    return replace(option, limits=tuple(limits))


def limit_chances(
    predictions: Sequence[Prediction], requirements: Requirements
) -> Iterator[LimitChance]:
    """Yield the chance of meeting each limit that a prediction is compared with."""
    known = {item.name: item for item in predictions}
    limits = (
        ("deadline", "time_s", requirements.deadline_s),
        ("budget", "cost_usd", requirements.budget_usd),
        ("ttft", "ttft_s", requirements.ttft_s),
        ("tpot", "tpot_s", requirements.tpot_s),
        ("p99", "e2e_p99_s", requirements.p99_s),
        *((tail.key, f"{tail.key}_s", tail.limit_s) for tail in requirements.tails),
    )
    for name, predicted, limit in limits:
        if limit is not None and predicted in known:
            yield _chance(name, limit, known[predicted], requirements)


def _chance(
    name: str, limit: float, predicted: Prediction, requirements: Requirements
) -> LimitChance:
    chance = predicted.interval.chance_below(limit)
    met = chance >= requirements.confidence_ratio - ROUNDING
    return LimitChance(name=name, limit=limit, chance=chance, met=met)


def _certain(option: Option, requirements: Requirements) -> Iterator[LimitChance]:
    """Memory of a layout, and an hourly rate, which is listed and not predicted."""
    memory = option.prediction("memory_bytes")
    if memory is not None:
        yield _chance("memory", option.memory_capacity_bytes, memory, requirements)
    hourly = requirements.hourly_budget_usd_per_hour
    if hourly is not None and option.bill is not None:
        met = option.bill.usd_per_hour <= hourly
        yield LimitChance(name="hourly_budget", limit=hourly, chance=float(met), met=met)
