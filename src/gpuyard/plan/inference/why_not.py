"""Why a machine does not serve the model: what does not fit, which target no load can keep, and what would."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.catalog import Machine
from gpuyard.errors import Infeasible
from gpuyard.perf.inference import ReplicaLayout, Shape, weight_bytes
from gpuyard.plan.inference.grid import ChipGrid, TooBig
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import Load, Targets
from gpuyard.plan.inference.refine import SURE, Proven
from gpuyard.plan.inference.replica import Replica
from gpuyard.plan.inference.sizing import machines_for
from gpuyard.plan.limits import Miss, raised
from gpuyard.plan.option import Rejected
from gpuyard.units import DURATION, MEMORY, show

__all__ = ["first_reason", "missed_under_load", "reading_s", "shape_words", "too_big", "too_slow"]

FOUR_BITS_HELP = 1.7  # times too big in eight bits: what four take away, with their scales
WORDS = {
    "ttft": "the first token takes {value} on average; {limit} are asked for",
    "tpot": "a token takes {value} on average; {limit} are asked for",
    "p99": "99 of 100 answers take up to {value}; {limit} are asked for",
    "queue": "requests come faster than they are answered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reach:
    """The best that a replica reaches for one target, with one user."""

    target: str
    limit_s: float
    value_s: float

    @property
    def ratio(self) -> float:
        """Over the limit."""
        return self.value_s / self.limit_s


def shape_words(layout: ReplicaLayout) -> str:
    """The layout as engineers write it."""
    names = (("TP", layout.tp), ("PP", layout.pp), ("EP", layout.ep), ("DP", layout.attention_dp))
    return " ".join(f"{name}{degree}" for name, degree in names if degree > 1) or "TP1"


def reading_s(shape: Shape, replica: Replica) -> float:
    """The least time of a token: each weight that it uses is read once, at the memory's full rate."""
    used = replace(shape, experts=shape.experts_per_token) if shape.experts else shape
    table = 0.0 if shape.tied else 2.0 * shape.head_parameters / replica.layout.tp  # looked up, not read
    read = weight_bytes(used, replica.precision, replica.layout) - table
    return read * replica.layout.pp / replica.chip.memory_bytes_per_s


def first_reason(misses: Iterable[Miss], out: Iterable[Rejected], otherwise: Infeasible) -> Infeasible:
    """Where nothing misses by a number: what rules out the first machine that the file leaves in, not its place."""
    told = [(miss.family, miss.binding, miss.what, miss.fix) for miss in misses]
    told += [(item.family, item.binding, item.what, item.fix) for item in out]
    for family, binding, what, fix in told:
        if binding not in ("where", "machines"):
            return Infeasible(binding=binding, what=f"{family}: {what}", fix=fix)
    return otherwise


def too_big(grid: ChipGrid, machine: Machine) -> Miss | None:
    """The leanest replica against the chip's memory; None where one fits. `grid` is of the machine."""
    if len(grid):
        return None
    tried = [item for item in grid.too_big if machines_of(item.layout, machine)]
    if not tried:
        return None
    leanest = min(tried, key=lambda item: item.ratio)
    needs, has = show(leanest.needed_bytes, MEMORY), show(leanest.memory_bytes, MEMORY)
    chips = leanest.layout.chips
    over = f"{chips} chips" if chips > 1 else "one chip"
    return Miss(
        family=machine.series,
        binding="memory",
        ratio=leanest.ratio,
        what=f"{machine.name}: with {leanest.precision.weights} weights on {over} it needs {needs} of {has} a chip",
        fix=_room_fix(leanest),
    )


def _room_fix(leanest: TooBig) -> str:
    """What would hold it."""
    chips = leanest.layout.chips * 2 ** math.ceil(math.log2(max(leanest.ratio, 1.0) + 1e-9) + 1e-9)
    helps = leanest.precision.weights not in ("int4-weights", "nvfp4", "mxfp4") and leanest.ratio < FOUR_BITS_HELP
    narrower = ", or precision: fp4" if helps else ""
    return f"allow machines with about {chips} such chips or with more memory a chip{narrower}"


def too_slow(grid: ChipGrid, machine: Machine, load: Load, targets: Targets, shape: Shape, most: int) -> Miss | None:
    """The replica that comes nearest with one user, and the target that it cannot keep; None if one keeps all."""
    if grid.keeps(targets, load).any():
        return None
    best: tuple[float, int, _Reach] | None = None
    for index in range(len(grid)):
        worst = max(_reaches(grid, index, load, targets), key=lambda reach: reach.ratio, default=None)
        if worst is not None and (best is None or worst.ratio < best[0]):
            best = (worst.ratio, index, worst)
    if best is None:
        return None
    _, index, worst = best
    found = _miss(machine, grid.replicas[index], worst, load, shape)
    return replace(found, ratio=found.ratio * _crowd(grid, index, machine, load, most))


def _crowd(grid: ChipGrid, index: int, machine: Machine, load: Load, most: int) -> float:
    """How many times the machines that are allowed the load would need even without targets; at least one."""
    replica = grid.replicas[index]
    best = float(np.where(grid.fits[index], grid.output_tokens_per_s[index], 0.0).max()) * replica.ranks
    needed = machines_for(replica, machine, max(1, math.ceil((load.requests_per_s or 0.0) * load.output_tokens / best)))
    return max(1.0, needed / max(most, 1))


def _reaches(grid: ChipGrid, index: int, load: Load, targets: Targets) -> Iterator[_Reach]:
    """What one user of the replica gets, for each target."""
    values = {
        "ttft": float(grid.ttft_s[index, 0]),
        "tpot": float(grid.tpot_s[index, 0]),
        "p99": float(np.asarray(grid.long_s(load))[index, 0]),
    }
    for name, limit in (("ttft", targets.ttft_s), ("tpot", targets.tpot_s), ("p99", targets.p99_s)):
        if limit is not None:
            yield _Reach(target=name, limit_s=limit, value_s=values[name])


def _miss(machine: Machine, replica: Replica, worst: _Reach, load: Load, shape: Shape) -> Miss:
    """The target in words, against physics where physics forbids it."""
    where = f"{shape_words(replica.layout)} {machine.name} ({replica.precision.weights})"
    limit, value = show(worst.limit_s, DURATION), show(worst.value_s, DURATION)
    floor_s = reading_s(shape, replica)
    if worst.target == "tpot" and worst.limit_s < floor_s:
        what = f"TPOT {limit} is below the {show(floor_s, DURATION)} that reading the weights takes on {where}"
    elif worst.target == "tpot":
        what = f"a token takes {value} on {where} with one user; {limit} are asked for"
    elif worst.target == "ttft":
        what = f"a prompt of {load.new_tokens:,.0f} tokens takes {value} on {where}; {limit} are asked for"
    else:
        longest = f"{load.long_output_tokens:,.0f} tokens"
        what = f"an answer of {longest}, which 1 in 100 exceeds, takes {value} on {where}; {limit} are asked for"
    narrow = replica.precision.weights in ("nvfp4", "mxfp4", "int4-weights")
    other = "a smaller model" if narrow else "fewer bits a weight or a smaller model"
    fix = f"raise {worst.target} to {raised(worst.value_s, DURATION)}, or serve {other}"
    binding = f"requirements.{worst.target}"
    return Miss(family=machine.series, binding=binding, ratio=worst.ratio, what=what, fix=fix, fits=True)


def missed_under_load(machine: Machine, replica: Replica, proven: Proven) -> Miss:
    """The targets that the simulation misses with as many machines as are allowed."""
    worst = max(proven.missed, key=lambda item: item[2] / item[1])
    words = [
        WORDS[name].format(value=show(value, DURATION), limit=show(limit, DURATION))
        for name, limit, value in proven.missed
    ]
    cluster = f"{proven.machine_count} × {machine.name}, {shape_words(replica.layout)}"
    fixes = [
        f"raise {name} to {raised(value / (SURE if name == 'p99' else 1.0), DURATION)}"
        for name, _, value in proven.missed
    ]
    return Miss(
        family=machine.series,
        binding=f"requirements.{worst[0]}",
        ratio=worst[2] / worst[1],
        what=f"{cluster}: {'; '.join(words)}",
        fix=f"{' and '.join(fixes)}, or allow more machines",
        fits=True,
    )
