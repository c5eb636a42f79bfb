"""From replicas to machines: how many of a type carry the load, before anything is simulated."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.catalog import Machine
from gpuyard.plan.inference.grid import SEQUENCES, ChipGrid
from gpuyard.plan.inference.layouts import machines_of, replicas_in
from gpuyard.plan.inference.load import Load, Targets
from gpuyard.plan.inference.replica import Replica

__all__ = ["Sized", "limited", "machines_for", "replicas_on", "sized"]

SPARE_SEQUENCES = 1.5  # what the engine may run at once over what the load needs on average: room for a burst


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sized:
    """A replica on a machine type, and how many machines the closed form asks for."""

    machine: Machine
    replica: Replica
    sequences: float  # of one rank, the most at which every target is kept
    tpot_s: float
    ttft_s: float
    e2e_s: float
    capacity: float  # of one replica at that point: requests/s, or users in a closed loop
    machine_count: int

    @property
    def replicas(self) -> int:
        """Replicas that the machines hold."""
        return replicas_on(self.replica, self.machine, self.machine_count)


def replicas_on(replica: Replica, machine: Machine, machine_count: int) -> int:
    """Replicas on so many machines."""
    inside = replicas_in(replica.layout, machine)
    return machine_count * inside if inside else machine_count // max(machines_of(replica.layout, machine), 1)


def machines_for(replica: Replica, machine: Machine, replicas: int) -> int:
    """Machines of so many replicas."""
    inside = replicas_in(replica.layout, machine)
    return math.ceil(replicas / inside) if inside else replicas * machines_of(replica.layout, machine)


def sized(grid: ChipGrid, machine: Machine, load: Load, targets: Targets) -> Iterator[Sized]:
    """Each replica of the chip that the machine can hold and that keeps the targets, with its number of machines."""
    if not len(grid):
        return
    keeps = grid.keeps(targets, load)
    for index, replica in enumerate(grid.replicas):
        if not keeps[index].any() or not machines_of(replica.layout, machine):
            continue
        at = int(np.flatnonzero(keeps[index])[-1])
        most = float(SEQUENCES[at])
        tokens_per_s = float(grid.output_tokens_per_s[index, at]) * replica.ranks
        capacity = tokens_per_s / load.output_tokens if load.users is None else most * replica.ranks
        asked = load.requests_per_s if load.users is None else float(load.users)
        count = max(1, math.ceil((asked or 0.0) / capacity - 1e-9))
        tpot_s, ttft_s = float(grid.tpot_s[index, at]), float(grid.ttft_s[index, at])
        yield Sized(
            machine=machine,
            replica=limited(replica, most),
            sequences=most,
            tpot_s=tpot_s,
            ttft_s=ttft_s,
            e2e_s=ttft_s + tpot_s * max(load.output_tokens - 1.0, 0.0),
            capacity=capacity,
            machine_count=machines_for(replica, machine, count),
        )


def limited(replica: Replica, sequences: float) -> Replica:
    """The replica with its engine told how many sequences to run at once: more would break the targets."""
    most = 8 * math.ceil(SPARE_SEQUENCES * sequences / 8.0)
    return replace(replica, limits=replace(replica.limits, sequences=min(replica.limits.sequences, most)))
