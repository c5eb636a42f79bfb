"""What a pinned layout costs, compared with the best layout of the same machines."""

from __future__ import annotations

from gpuyard.plan.option import Option, Plan
from gpuyard.plan.service import layout_text
from gpuyard.units import DURATION, PRICE_PER_HOUR, show

LEAST_GAIN = 0.01  # of speed or cost, to be mentioned


def what_would_be_better(pinned: Plan, free: Plan) -> str:
    """Compare the first option with the first one without pins; empty if it is no better."""
    own = pinned.options[0]
    alike = (option for option in free.options if option.cluster == own.cluster)
    best = next(alike, free.options[0])
    if own.service is not None and best.service is not None:
        return _service(own, best)
    gain = own.expected_s / best.expected_s - 1.0
    if gain < LEAST_GAIN:
        return "no layout of these machines is faster than the pinned one"
    return (
        f"better: {_layout(best)} takes {show(best.expected_s, DURATION, 3)}, "
        f"{gain:.0%} faster than the pinned {_layout(own)}"
    )


def _layout(option: Option) -> str:
    layout = option.arrangement
    if layout is None:
        return "no layout"
    sizes = (("TP", layout.tp), ("PP", layout.pp), ("CP", layout.cp), ("EP", layout.ep))
    text = " ".join(f"{name}{size}" for name, size in sizes if size > 1) or "data parallel"
    return f"{text}, micro-batch {layout.micro_batch}, recompute {layout.recompute}"


def _service(own: Option, best: Option) -> str:
    one, other = own.service, best.service
    assert one is not None, "the caller compares services"
    assert other is not None, "the caller compares services"
    text = layout_text(other.tp, other.pp, other.ep, other.attention_dp)
    text = f"{other.engine.name}, {text}, {other.weights} weights, {other.kv} cache"
    cluster = f"{best.cluster.machine_count} × {best.cluster.machine}"
    if best.cluster != own.cluster and own.bill is not None and best.bill is not None:
        if best.bill.usd_per_hour >= own.bill.usd_per_hour * (1.0 - LEAST_GAIN):
            return "no other layout serves the load for less than the pinned one"
        price = show(best.bill.usd_per_hour, PRICE_PER_HOUR)
        return f"better: {cluster} ({text}) for {price}"
    close_s = one.e2e.mean_s * (1.0 - LEAST_GAIN)
    if one.tpot is None or other.tpot is None or other.e2e.mean_s > close_s:
        return "no other layout of these machines answers faster than the pinned one"
    return (
        f"better: {text} answers in {show(other.e2e.mean_s, DURATION, 3)} on average, "
        f"the pinned layout in {show(one.e2e.mean_s, DURATION, 3)}"
    )
