"""Reasons why a machine cannot serve the model: memory, latency targets, and their fixes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpuyard.catalog.machines import Machine
from gpuyard.perf.inference.memory import weight_bytes
from gpuyard.perf.inference.shape import DecoderShape
from gpuyard.plan.inference.candidates import ChipGrid, TooBig
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import ServingLoad, Targets
from gpuyard.plan.inference.refine import P99_MARGIN, MissedTarget, SimulatedSizing, TargetName
from gpuyard.plan.inference.replica import Replica
from gpuyard.plan.inference.sizing import machines_for
from gpuyard.plan.limits import LimitViolation, rounded_up_text
from gpuyard.plan.service import layout_text
from gpuyard.units import DURATION, MEMORY, show

FOUR_BITS_HELP = 1.7  # how far over memory 8-bit weights may be for 4-bit weights to fit
MISSED: dict[str, str] = {
    "ttft": "mean TTFT is {value}, above {limit}",
    "tpot": "mean TPOT is {value}, above {limit}",
    "p99": "p99 latency is {value}, above {limit}",
    "queue": "requests arrive faster than they are served",
}


def _layout(replica: Replica) -> str:
    layout = replica.layout
    return layout_text(layout.tp, layout.pp, layout.ep, layout.attention_dp)


def min_decode_s(shape: DecoderShape, replica: Replica) -> float:
    """Return the memory-bandwidth bound of TPOT: each used weight is read once."""
    used = replace(shape, experts=shape.experts_per_token) if shape.experts else shape
    # The input embedding is looked up, not read.
    embedding = 0.0 if shape.tied else 2.0 * shape.head_parameters / replica.layout.tp
    read = weight_bytes(used, replica.precision, replica.layout) - embedding
    return read * replica.layout.pp / replica.chip.memory_bytes_per_s


def too_big(grid: ChipGrid, machine: Machine) -> LimitViolation | None:
    """Compare the leanest replica with the machine's memory; None if a replica fits."""
    if len(grid):
        return None
    tried = [item for item in grid.too_big if machines_of(item.layout, machine)]
    if not tried:
        return None
    leanest = min(tried, key=lambda item: item.ratio)
    memory = f"{show(leanest.needed_bytes, MEMORY)} of {show(leanest.memory_bytes, MEMORY)}"
    chips = leanest.layout.chips
    chips_text = f"{chips} chips" if chips > 1 else "one chip"
    return LimitViolation(
        family=machine.series,
        binding="memory",
        ratio=leanest.ratio,
        what=f"{machine.name}: {leanest.precision.weights} weights on {chips_text} need "
        f"{memory} per chip",
        fix=_memory_fix(leanest),
    )


def _memory_fix(leanest: TooBig) -> str:
    chips = leanest.layout.chips * 2 ** math.ceil(math.log2(max(leanest.ratio, 1.0) + 1e-9) + 1e-9)
    helps = (
        leanest.precision.weights not in ("int4-weights", "nvfp4", "mxfp4")
        and leanest.ratio < FOUR_BITS_HELP
    )
    narrower = ", or precision: fp4" if helps else ""
    return f"allow machines with about {chips} such chips or with more memory per chip{narrower}"


def too_slow(
    grid: ChipGrid,
    machine: Machine,
    load: ServingLoad,
    targets: Targets,
    shape: DecoderShape,
    most: int,
) -> LimitViolation | None:
    """Return the target that even one user misses on the nearest replica, or None."""
    if grid.meets([targets] * len(grid), load).any():
        return None
    nearest: tuple[int, MissedTarget] | None = None
    for index in range(len(grid)):
        single_user = _single_user(grid, index, load, targets)
        worst = max(single_user, key=lambda target: target.ratio, default=None)
        if worst is not None and (nearest is None or worst.ratio < nearest[1].ratio):
            nearest = (index, worst)
    if nearest is None:
        return None
    index, worst = nearest
    violation = _violation(machine, grid.replicas[index], worst, load, shape)
    overload = _overload_ratio(grid, index, machine, load, most)
    return replace(violation, ratio=violation.ratio * overload)


def _overload_ratio(
    grid: ChipGrid, index: int, machine: Machine, load: ServingLoad, most: int
) -> float:
    """Machines that the load needs without targets / allowed machines; at least one."""
    replica = grid.replicas[index]
    best = (
        float(np.where(grid.fits[index], grid.output_tokens_per_s[index], 0.0).max())
        * replica.ranks
    )
    needed = machines_for(
        replica,
        machine,
        max(1, math.ceil((load.requests_per_s or 0.0) * load.output_tokens / best)),
    )
    return max(1.0, needed / max(most, 1))


def _single_user(
    grid: ChipGrid, index: int, load: ServingLoad, targets: Targets
) -> Iterator[MissedTarget]:
    """Latencies of a single user of the replica, for each target."""
    values: dict[TargetName, float] = {
        "ttft": float(grid.ttft_s[index, 0]),
        "tpot": float(grid.tpot_s[index, 0]),
        "p99": float(np.asarray(grid.long_s(load))[index, 0]),
    }
    limits: tuple[tuple[TargetName, float | None], ...] = (
        ("ttft", targets.ttft_s),
        ("tpot", targets.tpot_s),
        ("p99", targets.p99_s),
        *((tail.key, tail.limit_s) for tail in targets.tails),
    )
    values["e2e"] = values["ttft"] + values["tpot"] * max(load.output_tokens - 1.0, 0.0)
    for name, limit in limits:
        if limit is not None:
            value_s = values[name if name == "p99" else name.partition("_")[0]]
            yield MissedTarget(name=name, limit_s=limit, value_s=value_s)


def _violation(
    machine: Machine, replica: Replica, worst: MissedTarget, load: ServingLoad, shape: DecoderShape
) -> LimitViolation:
    where = f"{_layout(replica)} {machine.name} ({replica.precision.weights})"
    limit = show(worst.limit_s, DURATION)
    value = show(worst.value_s, DURATION)
    floor_s = min_decode_s(shape, replica)
    metric = worst.name if worst.name == "p99" else worst.name.partition("_")[0]
    if metric == "tpot" and worst.limit_s < floor_s:
        floor = show(floor_s, DURATION)
        what = f"TPOT {limit} is below the memory-bandwidth bound of {floor} on {where}"
    elif metric == "tpot":
        what = f"TPOT is {value} on {where} with one user, above {limit}"
    elif metric == "ttft":
        what = f"prefill of {load.new_tokens:,.0f} tokens takes {value} on {where}, above {limit}"
    else:
        output = f"{load.long_output_tokens:,.0f} output tokens (p99)"
        what = f"{output} take {value} on {where}, above {limit}"
    narrow = replica.precision.weights in ("nvfp4", "mxfp4", "int4-weights")
    other = "a smaller model" if narrow else "a narrower weight dtype or a smaller model"
    fix = f"raise {worst.name} to {rounded_up_text(worst.value_s, DURATION)}, or use {other}"
    binding = f"requirements.{worst.name}"
    return LimitViolation(
        family=machine.series, binding=binding, ratio=worst.ratio, what=what, fix=fix, fits=True
    )


def missed_under_load(
    machine: Machine, replica: Replica, sizing: SimulatedSizing
) -> LimitViolation:
    """Return the targets that the simulation misses with all allowed machines."""
    worst = max(sizing.missed, key=lambda target: target.ratio)
    messages = []
    fixes = []
    for target in sizing.missed:
        value = show(target.value_s, DURATION)
        limit = show(target.limit_s, DURATION)
        message = MISSED.get(target.name, f"{target.name} is {{value}}, above {{limit}}")
        messages.append(message.format(value=value, limit=limit))
        if target.name != "queue":
            needed_s = target.value_s / (P99_MARGIN if target.name.endswith("p99") else 1.0)
            fixes.append(f"raise {target.name} to {rounded_up_text(needed_s, DURATION)}")
    cluster = f"{sizing.machine_count} × {machine.name}, {_layout(replica)}"
    return LimitViolation(
        family=machine.series,
        binding="requirements.requests" if worst.name == "queue" else f"requirements.{worst.name}",
        ratio=worst.ratio,
        what=f"{cluster}: {'; '.join(messages)}",
        fix=f"{' and '.join(fixes) or 'reduce the load'}, or allow more machines",
        fits=True,
    )
