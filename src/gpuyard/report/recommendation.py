"""Why an option has its rank: the sentence on top of a plan, and the rows of an explanation."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.plan.mixed import machines_text
from gpuyard.plan.option import Bill, Option, Plan
from gpuyard.plan.pareto import compared_usd, has_idle_chips, has_unused_chips
from gpuyard.plan.predictions import LimitChance, Prediction
from gpuyard.report.inference import consumption_label
from gpuyard.units import DURATION, MEMORY, MONEY, PRICE_PER_HOUR, Dimension, show
from gpuyard.workload.requirements import TAILS

FIGURES: dict[str, tuple[str, Dimension, str]] = {  # limit -> prediction, unit, name
    "deadline": ("time_s", DURATION, "time"),
    "budget": ("cost_usd", MONEY, "cost"),
    "ttft": ("ttft_s", DURATION, "TTFT"),
    "tpot": ("tpot_s", DURATION, "TPOT"),
    "p99": ("e2e_p99_s", DURATION, "p99"),
    "memory": ("memory_bytes", MEMORY, "memory"),
    **{
        f"{metric}_p{percent}": (f"{metric}_p{percent}_s", DURATION, f"{metric} p{percent}")
        for metric, percent in TAILS
    },
}
UNSURE = (
    "no option meets every limit with the confidence of the file (requirements.confidence): "
    "this one is the likeliest"
)
PREEMPTED = "preemptible machines do not suit this work, but no other bill meets the limits"
HEADLINE = (("time_s", ""), ("ttft_s", "mean TTFT "), ("tpot_s", "mean TPOT "))
AMPLE = 0.5  # of a limit left over: it is not named as a risk
SIMILAR = 1.1  # cost ratio up to which the smaller cluster ranks first


def cluster_words(option: Option) -> str:
    """Machines of an option: `4 × a3-ultragpu-8g`."""
    return f"{option.cluster.machine_count} × {option.cluster.machine}"


def range_words(predicted: Prediction, dimension: Dimension) -> str:
    """The 90 % interval: `36d to 43d`."""
    low, high = show(predicted.low, dimension, 2), show(predicted.high, dimension, 2)
    return low if low == high else f"{low} to {high}"


def price_words(option: Option) -> str:
    """Cost of a run, or the hourly cost of a service."""
    bill = option.bill
    if bill is None:
        return "no public price"
    if option.prediction("time_s") is None:  # a service
        return show(bill.usd_per_hour, PRICE_PER_HOUR)
    return show(bill.usd, MONEY)


def recommendation(plan: Plan) -> tuple[str, ...]:
    """The first option as a sentence, and the reasons for its place."""
    if plan.combined:
        return _together(plan)
    option = plan.options[0]
    chips = (
        f" ({option.cluster.chip_count:g} × {option.cluster.chip})" if option.cluster.chip else ""
    )
    tokens = option.service.usd_per_million_tokens if option.service and plan.by_token else None
    bill = f", {show(tokens, MONEY)} per million tokens" if tokens is not None else ""
    bill += f", {consumption_label(option.bill)}" if option.bill is not None else ""
    region = _place(option.bill) if option.bill is not None else ""
    parts = [f"Use {cluster_words(option)}{chips}: {price_words(option)}{bill}{region}"]
    ranges = [
        f"{label}{range_words(predicted, DURATION)}"
        for name, label in HEADLINE
        if (predicted := option.prediction(name)) is not None
    ]
    if ranges:
        parts.append(f"{', '.join(ranges)} (90% interval)")
    doubt = [] if option.meets_limits else [UNSURE]
    if option.bill is not None and not option.bill.advised:
        doubt.append(PREEMPTED)
    return (
        ", ".join(parts) + ".",
        *doubt,
        *(f"{name}: {text}" for name, text in reasons(plan, 1)),
    )


def _place(bill: Bill) -> str:
    """The region of a bill, with the provider where it is not Google: ` in us-east-1 (aws)`."""
    provider = bill.price.partition("/")[0]
    owner = "" if provider in ("google", "onprem", "") else f" ({provider})"
    return f" in {bill.region}{owner}" if bill.region else ""


def _together(plan: Plan) -> tuple[str, ...]:
    """The sentence of a plan whose options are used together, and the margin of each."""
    rates = [option.service.requests_per_s for option in plan.options if option.service]
    rate = " + ".join(f"{value:.3g}" for value in rates)
    shares = f", {rate} requests/s" if rates else ""
    lines = [f"Use {machines_text(plan.options)} together{shares}."]
    for option in plan.options:
        margins = "; ".join(_margin(option, limit) for limit in option.limits)
        if margins:
            lines.append(f"{cluster_words(option)}: {margins}")
    return tuple(lines)


def reasons(plan: Plan, number: int) -> Iterator[tuple[str, str]]:
    """Yield margin, bottleneck, runner-up and sensitivity of an option."""
    option = plan.options[number - 1]
    if option.limits:
        yield "margin", "; ".join(_margin(option, limit) for limit in option.limits)
    yield from _bottleneck(option)
    if plan.combined:
        return
    if number == 1 and len(plan.options) > 1:
        yield "before option 2", _why_before(plan, option, plan.options[1])
    elif number > 1:
        yield "behind option 1", _why_before(plan, plan.options[0], option)
    changes = "; ".join(_changes(plan, option, number))
    if changes:
        yield "what would change this", changes


def _margin(option: Option, limit: LimitChance) -> str:
    chance = "100%" if limit.chance >= 0.9995 else f"{min(limit.chance, 0.99):.0%}"
    predicted = option.prediction(FIGURES[limit.name][0]) if limit.name in FIGURES else None
    if limit.name == "hourly_budget" and option.bill is not None:
        spent, allowed = option.bill.usd_per_hour, limit.limit
        return f"hourly_budget {show(spent, PRICE_PER_HOUR)} of {show(allowed, PRICE_PER_HOUR)}"
    if predicted is None:
        return f"{limit.name} {chance}"
    dimension = FIGURES[limit.name][1]
    word = f"{show(predicted.value, dimension, 3)} of {show(limit.limit, dimension, 3)}"
    return f"{limit.name} {word}, met with {chance}"


def _bottleneck(option: Option) -> Iterator[tuple[str, str]]:
    total = sum(part.value for part in option.step_parts)
    if total <= 0.0 or len(option.step_parts) < 2:
        return
    largest = max(option.step_parts, key=lambda part: part.value)
    yield "bottleneck", f"{largest.name}, {largest.value / total:.0%} of a step"


def _why_before(plan: Plan, first: Option, second: Option) -> str:
    """The first criterion of the ranking in which two options differ."""
    other = f"{cluster_words(second)} ({price_words(second)})"
    if first.meets_limits and not second.meets_limits:
        risk = min(second.limits, key=lambda limit: limit.chance)
        return f"{other} meets {risk.name} with only {risk.chance:.0%}"
    if not first.meets_limits and first.chance > second.chance:
        return f"{other} is less likely to meet every limit: {second.chance:.0%}"
    if first.bill is not None and second.bill is not None:
        if not second.bill.advised:
            return f"{other} is preemptible, which this work does not suit"
        ratio = _cost_ratio(plan, first, second)
        if has_unused_chips(second) and not has_unused_chips(first):
            return f"{other} has accelerators that the work does not use"
        if has_idle_chips(second) and not has_idle_chips(first):
            return f"{other} leaves its accelerators idle most of the time"
        if first.measured and not second.measured and ratio <= SIMILAR:
            return f"{other} {_unmeasured(second)}"
        if first.keeps_numerics and not second.keeps_numerics and ratio <= SIMILAR:
            return f"{other} computes in {_numerics(second)}, which the file does not ask for"
        if ratio > SIMILAR:
            unit = " per token" if plan.by_token else ""
            return f"{other} costs {ratio - 1.0:.0%} more{unit}"
        return f"{other} {_similar_cost(first, second, ratio)}"
    if first.bill is not None:
        return f"{other} cannot be compared by cost"
    if second.cluster.chip_count > first.cluster.chip_count:
        return f"{other} has more chips, and no price is known"
    slower = second.expected_s / first.expected_s - 1.0 if first.expected_s > 0.0 else 0.0
    return f"{other} takes {slower:.0%} longer" if slower > 0.0 else f"{other} is no better"


def _numerics(option: Option) -> str:
    """The dtype of an option that changes the numerics; chips without bf16 compute in fp16."""
    return "fp16" if option.precision == "bf16" else option.precision


def _unmeasured(option: Option) -> str:
    """Why a prediction is less certain than that of the other options."""
    if any(part.name == "messages" for part in option.step_parts):
        return "passes MPI messages over TCP, without RDMA"
    return "rests on no published run of its chip and software"


def _cost_ratio(plan: Plan, first: Option, second: Option) -> float:
    one, other = (compared_usd(option, by_token=plan.by_token) for option in (first, second))
    return (other or 0.0) / one if one else math.inf


def _similar_cost(first: Option, second: Option, ratio: float) -> str:
    """What decides between options at a similar cost."""
    more = f"{100.0 * (ratio - 1.0):+.0f}%"
    cost = "the same cost" if more in ("+0%", "-0%") else f"a similar cost ({more})"
    if second.cluster.machine_count > first.cluster.machine_count:
        return f"is a larger cluster at {cost}"
    if second.cluster.chip_count > first.cluster.chip_count:
        return f"has more chips at {cost}"
    ran = first.expected_s, second.expected_s
    if first.service is not None and second.service is not None:
        ran = first.service.e2e.mean_s, second.service.e2e.mean_s
    slower = ran[1] / ran[0] - 1.0 if ran[0] > 0.0 else 0.0
    return f"is {slower:.0%} slower at {cost}" if slower >= 0.005 else f"is at {cost}"


def _changes(plan: Plan, option: Option, number: int) -> Iterator[str]:
    """Sensitivity to price, speed and interruption rate."""
    bill = option.bill
    others = (other for other in plan.options if other.cluster.machine != option.cluster.machine)
    rivals = [
        _cost_ratio(plan, option, other)
        for other in others
        if other.usd is not None and other.meets_limits
    ]
    if number == 1 and bill is not None and rivals and bill.usd > 0.0:
        factor = min(rivals)
        if factor > 1.0:
            yield f"a price {factor - 1.0:.0%} higher makes another machine cheaper"
    yield from _speed_changes(option)
    if bill is not None and bill.interruptions_count >= 0.5 and bill.high_s > 0.0:
        late = bill.high_s / bill.expected_s - 1.0
        count = round(bill.interruptions_count)
        expected = "1 interruption is" if count == 1 else f"{count:,} interruptions are"
        yield f"{expected} expected; at the high end of their rate it takes {late:.0%} longer"


def _speed_changes(option: Option) -> Iterator[str]:
    """How far the speed may differ before a limit is missed; one sentence where none is near."""
    margins = {
        limit.name: 1.0 - predicted.value / limit.limit
        for limit in option.limits
        if limit.name in FIGURES
        and limit.name != "memory"
        and (predicted := option.prediction(FIGURES[limit.name][0])) is not None
        and predicted.value > 0.0
    }
    if margins and min(margins.values()) > AMPLE:
        many = "every limit is" if len(margins) > 1 else f"{next(iter(margins))} is"
        yield f"{many} met at half of the predicted speed"
        return
    for name, margin in margins.items():
        if 0.0 <= margin <= AMPLE:
            yield f"{name} is missed if speed is {margin:.0%} below the prediction"
        elif margin < 0.0:
            yield f"{name} needs {-margin:.0%} more speed than predicted"
