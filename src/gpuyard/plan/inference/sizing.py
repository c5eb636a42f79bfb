"""Number of machines that carry the load, in closed form, before anything is simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.catalog.machines import Machine
from gpuyard.plan.inference.candidates import SEQUENCES, ChipGrid
from gpuyard.plan.inference.layouts import machines_of, replicas_in
from gpuyard.plan.inference.load import ServingLoad, Targets
from gpuyard.plan.inference.replica import Replica

NO_TARGETS = Targets()
BURST_RATIO = 1.5  # concurrent sequences that the engine allows / the mean of the load


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicaSizing:
    """A replica on a machine type, and the number of machines in closed form."""

    machine: Machine
    replica: Replica
    sequences: float  # per rank, the most at which every target is met
    tpot_s: float
    ttft_s: float
    e2e_s: float
    capacity: float  # per replica: requests/s, or users in a closed loop
    machine_count: int
    loaded_s: float  # end to end at the load of a replica, below that of `sequences`
    targets: Targets = NO_TARGETS  # that the nominal latencies must meet

    @property
    def replicas(self) -> int:
        return replicas_on(self.replica, self.machine, self.machine_count)


def replicas_on(replica: Replica, machine: Machine, machine_count: int) -> int:
    """Return the replicas that `machine_count` machines hold."""
    per_machine = replicas_in(replica.layout, machine)
    if per_machine:
        return machine_count * per_machine
    return machine_count // max(machines_of(replica.layout, machine), 1)


def machines_for(replica: Replica, machine: Machine, replicas: int) -> int:
    """Return the machines that `replicas` replicas need."""
    per_machine = replicas_in(replica.layout, machine)
    if per_machine:
        return math.ceil(replicas / per_machine)
    return replicas * machines_of(replica.layout, machine)


def replica_sizings(
    grid: ChipGrid, machine: Machine, load: ServingLoad, targets: Sequence[Targets]
) -> Iterator[ReplicaSizing]:
    """Yield the replicas that fit the machine and meet the targets, with their machine count.

    `targets` are those of each replica of the grid.
    """
    if not len(grid):
        return
    meets = grid.meets(targets, load)
    for index, replica in enumerate(grid.replicas):
        if not meets[index].any() or not machines_of(replica.layout, machine):
            continue
        at = int(np.flatnonzero(meets[index])[-1])
        most = float(SEQUENCES[at])
        tokens_per_s = float(grid.output_tokens_per_s[index, at]) * replica.ranks
        capacity = tokens_per_s / load.output_tokens if load.users is None else most * replica.ranks
        demand = load.requests_per_s if load.users is None else float(load.users)
        count = max(1, math.ceil((demand or 0.0) / capacity - 1e-9))
        tpot_s = float(grid.tpot_s[index, at])
        ttft_s = float(grid.ttft_s[index, at])
        machines = machines_for(replica, machine, count)
        share = (demand or 0.0) / max(replicas_on(replica, machine, machines), 1)
        yield ReplicaSizing(
            machine=machine,
            replica=with_sequence_limit(replica, most),
            sequences=most,
            tpot_s=tpot_s,
            ttft_s=ttft_s,
            e2e_s=ttft_s + tpot_s * max(load.output_tokens - 1.0, 0.0),
            capacity=capacity,
            machine_count=machines,
            loaded_s=_loaded_s(grid, index, share, load),
            targets=targets[index],
        )


def _loaded_s(grid: ChipGrid, index: int, share: float, load: ServingLoad) -> float:
    """End-to-end latency where a replica just carries its share of requests/s or users."""
    ranks = grid.replicas[index].ranks
    carried = (
        grid.output_tokens_per_s[index] * ranks / load.output_tokens
        if load.users is None
        else SEQUENCES * ranks
    )
    at = int(np.argmax(carried >= min(share, float(carried.max()))))
    decode_s = float(grid.tpot_s[index, at]) * max(load.output_tokens - 1.0, 0.0)
    return float(grid.ttft_s[index, at]) + decode_s


def with_sequence_limit(replica: Replica, sequences: float) -> Replica:
    """Limit the engine's concurrent sequences, so that the targets hold."""
    most = 8 * math.ceil(BURST_RATIO * sequences / 8.0)
    return replace(
        replica, limits=replace(replica.limits, sequences=min(replica.limits.sequences, most))
    )
