"""Replicas that read prompts apart from those that write: pairs of them on one machine type, by the closed form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from gpuyard.catalog import Machine
from gpuyard.perf.inference import read_calibration, step_time_s
from gpuyard.plan.inference.grid import SEQUENCES, TAIL_WAIT, ChipGrid
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import VARIATION, Load, Targets
from gpuyard.plan.inference.replica import PromptPool, Replica
from gpuyard.plan.inference.sizing import limited
from gpuyard.units import bytes_from_bits

__all__ = [
    "ENGINES",
    "Pair",
    "handing",
    "handover_s",
    "hands_over",
    "machines_for_pair",
    "pairs",
    "prompt_s",
]

RDMA = ("roce", "infiniband")  # TCPX and TCPXO carry NCCL alone; NIXL and UCX would fall back to the host's NIC
ENGINES = ("vllm-v1", "sglang", "trt-torch-2")  # those whose documentation has pools apart
FULLEST = 0.85  # of the time of a replica that reads: random arrivals need the rest
BEST = 3  # replicas of each role that are combined


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """A pool that reads prompts and a pool that writes, and how many replicas of each the closed form asks for."""

    machine: Machine
    prompts: PromptPool
    writer: Replica
    writers: int
    sequences: float  # of one rank of a writer, the most at which a token is in time
    ttft_s: float
    tpot_s: float
    e2e_s: float

    @property
    def machine_count(self) -> int:
        """Machines of both."""
        return machines_for_pair(self.machine, self.prompts.replica, self.prompts.replicas, self.writer, self.writers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Role:
    """A replica in one role: what one request costs it."""

    replica: Replica
    seconds: float  # to read a prompt, or of a token
    per_s: float  # requests a second that it takes, targets kept
    sequences: float = 1.0

    @property
    def chips_s(self) -> float:
        """Chip seconds of a request."""
        return self.replica.layout.chips / self.per_s


def handover_s() -> float:
    """Seconds until the bytes of a cache begin to go from one pool to the other."""
    return read_calibration()["transfer.latency_us"] * 1e-6


def hands_over(machine: Machine) -> bool:
    """True when a cache can go from one machine of the type to another by RDMA, at a rate that is known."""
    return machine.network.technology in RDMA and bool(machine.network.fabric_bits_per_s)


def handing(machine: Machine, reader: Replica, writer: Replica, replicas: int) -> PromptPool:
    """The pool that reads, joined to the writers: each chip sends or takes its part of a cache over its own NIC."""
    assert machine.network.fabric_bits_per_s, "asked before"
    nic_bytes_per_s = bytes_from_bits(machine.network.fabric_bits_per_s) / machine.chip_count
    part_bytes = max(reader.room.token_bytes, writer.room.token_bytes)
    return PromptPool(
        replica=reader, replicas=replicas, handover_s=handover_s(), token_s=part_bytes / nic_bytes_per_s
    )  # fmt: skip


def machines_for_pair(machine: Machine, reader: Replica, readers: int, writer: Replica, writers: int) -> int:
    """Machines of both pools: replicas that fill whole ones, and the rest side by side (sizes are powers of two)."""
    chips = int(machine.chip_count) or 1
    whole = shared = 0
    for replica, count in ((reader, readers), (writer, writers)):
        if replica.layout.chips >= chips:
            whole += count * (replica.layout.chips // chips)
        else:
            shared += count * replica.layout.chips
    return whole + math.ceil(shared / chips)


def pairs(grid: ChipGrid, machine: Machine, load: Load, targets: Targets) -> list[Pair]:
    """The pair of the fewest machines for each engine and format, the best first; none where pools cannot pay.

    Without a limit on tokens or whole answers nothing is gained: prompts may then wait their turn beside them.
    """
    if not hands_over(machine) or (targets.tpot_s is None and targets.p99_s is None):
        return []
    found = []
    for replicas in _alike(grid, machine):
        both = [
            pair
            for reader, writer in product(_readers(replicas, load, targets), _writers(replicas, load, targets))
            if (pair := _pair(machine, reader, writer, load, targets)) is not None
        ]
        if both:
            found.append(min(both, key=_order))
    return sorted(found, key=_order)


def _order(pair: Pair) -> tuple[int, int, float]:
    """Fewer machines, fewer chips, sooner answers."""
    chips = pair.prompts.replicas * pair.prompts.replica.layout.chips + pair.writers * pair.writer.layout.chips
    return pair.machine_count, chips, pair.e2e_s


def _alike(grid: ChipGrid, machine: Machine) -> Iterator[list[Replica]]:
    """Replicas that can hand caches to each other: of one engine and format, without pipelines."""
    groups: dict[tuple[object, ...], list[Replica]] = {}
    for replica in grid.replicas:
        if replica.engine.name in ENGINES and replica.layout.pp == 1 and machines_of(replica.layout, machine):
            groups.setdefault((replica.engine.name, replica.precision), []).append(replica)
    yield from groups.values()


def prompt_s(replica: Replica, load: Load) -> float:
    """Seconds to read a prompt alone, in as many steps as the engine's budget makes of it."""
    new, cached = load.new_tokens, load.input_tokens - load.new_tokens
    steps = max(1, math.ceil(new / replica.limits.budget_tokens)) if replica.engine.chunks else 1
    pair_count = new * (cached + 0.5 * (new + 1.0))
    return steps * float(step_time_s(replica.row, new / steps, pair_count / steps, 0.0, 0.0, 1.0 / steps))


def _token_s(replica: Replica, sequences: float, load: Load) -> float:
    """Seconds of a step in which so many sequences write a token and nobody reads."""
    context = sequences * (load.input_tokens + 0.5 * load.output_tokens)
    return float(step_time_s(replica.row, 0.0, 0.0, sequences, context, sequences))


def _readers(replicas: Sequence[Replica], load: Load, targets: Targets) -> list[_Role]:
    """The replicas that read a prompt in time, those of the fewest chip seconds first.

    At a share u of its time, prompts of varying length wait u / (1 - u) x (1 + variation²) / 2 of one (M/G/1).
    """
    spread = 0.5 * (1.0 + VARIATION[0] ** 2)
    found = []
    for replica in replicas:
        seconds = prompt_s(replica, load)
        busy = FULLEST
        if targets.ttft_s is not None:
            left_s = targets.ttft_s - handover_s() - seconds
            if left_s <= 0.0:
                continue
            busy = min(FULLEST, left_s / (left_s + spread * seconds))
        found.append(_Role(replica=replica, seconds=seconds, per_s=busy * replica.ranks / seconds))
    return sorted(found, key=lambda role: role.chips_s)[:BEST]


def _writers(replicas: Sequence[Replica], load: Load, targets: Targets) -> list[_Role]:
    """The replicas that write a token in time, at the most sequences that allow it."""
    limit_s = targets.tpot_s or math.inf
    if targets.p99_s is not None:
        whole_s = targets.p99_s - TAIL_WAIT * handover_s()
        limit_s = min(limit_s, whole_s / max(load.long_output_tokens - 1.0, 1.0))
    found = []
    for replica in replicas:
        fits = SEQUENCES[: int(np.searchsorted(SEQUENCES, replica.held(load.total_tokens), side="right"))]
        low, high = 0, len(fits)  # the steps of the first `low` are in time
        while low < high:
            middle = (low + high) // 2
            if _token_s(replica, float(fits[middle]), load) <= limit_s:
                low = middle + 1
            else:
                high = middle
        if low:
            most = float(fits[low - 1])
            seconds = _token_s(replica, most, load)
            per_s = most * replica.ranks / (seconds * max(load.output_tokens - 1.0, 1.0))
            found.append(_Role(replica=limited(replica, most), seconds=seconds, per_s=per_s, sequences=most))
    return sorted(found, key=lambda role: role.chips_s)[:BEST]


def _pair(machine: Machine, reader: _Role, writer: _Role, load: Load, targets: Targets) -> Pair | None:
    """As many of each as the load needs; None where handing over breaks the first token."""
    prompts = handing(machine, reader.replica, writer.replica, 1)
    first_s = reader.seconds + prompts.hand_over_s(load.input_tokens)
    if targets.ttft_s is not None and first_s > targets.ttft_s:
        return None
    whole_s = first_s + writer.seconds * max(load.output_tokens - 1.0, 0.0)
    rate = load.requests_per_s if load.users is None else load.users / whole_s
    return Pair(
        machine=machine,
        prompts=replace(prompts, replicas=max(1, math.ceil((rate or 0.0) / reader.per_s - 1e-9))),
        writer=writer.replica,
        writers=max(1, math.ceil((rate or 0.0) / writer.per_s - 1e-9)),
        sequences=writer.sequences,
        ttft_s=first_s,
        tpot_s=writer.seconds,
        e2e_s=whole_s,
    )
