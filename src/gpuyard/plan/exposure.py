"""How often a cluster is interrupted and what that costs in time, from the records of the catalog."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Interruption, Machine
from gpuyard.perf.goodput import Goodput, goodput
from gpuyard.workload import ConsumptionName

__all__ = ["CHECKPOINT_STALL_S", "Exposure", "Resilience", "exposure", "run_time"]

# A stated assumption: the pause that a checkpoint may cause. Storage is sized to write a checkpoint in this time, so
# that the two agree; asynchronous checkpoints pause for less.
CHECKPOINT_STALL_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """How the work outlives interruptions."""

    write_s: float = CHECKPOINT_STALL_S  # the pause of one checkpoint
    interval_s: float | None = None  # useful work between checkpoints; None: the best one
    together: bool = True  # one interruption stops every machine; False: only the one it strikes


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Interruptions of what stops together."""

    mean_time_between_s: float  # infinite where no record is known
    restart_s: float
    records: tuple[str, ...]  # rows under interruptions


def exposure(
    machine: Machine, machine_count: int, way: ConsumptionName, catalog: Catalog, together: bool = True
) -> Exposure:
    """How often machines of this type, obtained this way, are interrupted; failures and preemptions add up."""
    found = [_failures(machine, catalog)]
    if way == "spot":
        found.append(_preemptions(machine, catalog))
    known = [(record, per_s) for record, per_s in found if record is not None]
    machines = machine_count if together else 1
    total_per_s = machines * sum(per_s for _, per_s in known)
    if total_per_s <= 0.0:
        return Exposure(mean_time_between_s=math.inf, restart_s=0.0, records=())
    restart_s = machines * sum(per_s * (record.restart_s or 0.0) for record, per_s in known) / total_per_s
    return Exposure(
        mean_time_between_s=1.0 / total_per_s, restart_s=restart_s, records=tuple(record.name for record, _ in known)
    )


def run_time(
    useful_s: float,
    machine: Machine,
    machine_count: int,
    way: ConsumptionName,
    resilience: Resilience,
    catalog: Catalog,
) -> Goodput:
    """The expected time of a run on this cluster, with its parts."""
    met = exposure(machine, machine_count, way, catalog, resilience.together)
    return goodput(useful_s, met.mean_time_between_s, resilience.write_s, met.restart_s, resilience.interval_s)


def _failures(machine: Machine, catalog: Catalog) -> tuple[Interruption | None, float]:
    """The record of failures for the machine's chip, and failures of one machine a second."""
    records = [record for record in catalog.interruptions if record.cause == "failure"]
    if machine.chip is None:  # no public record is of such machines: one of accelerated nodes is an upper bound
        record = next((record for record in records if record.unit == "machine"), None)
        return record, 1.0 / record.mean_time_between_s if record else 0.0
    own = (record for record in records if machine.chip in record.chips)
    record = next(own, None) or next((record for record in records if record.default), None)
    units = machine.chip_count / record.chips_per_unit if record else 0.0
    return record, units / record.mean_time_between_s if record else 0.0


def _preemptions(machine: Machine, catalog: Catalog) -> tuple[Interruption | None, float]:
    """The record of preemptions at the machine's provider, and preemptions of one machine a second."""
    records = [record for record in catalog.interruptions if record.cause == "preemption" and record.default]
    record = next((record for record in records if record.provider in (machine.provider, "")), None)
    return record, 1.0 / record.mean_time_between_s if record else 0.0
