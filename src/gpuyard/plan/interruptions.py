"""Interruption risk of a cluster and its cost in time, from published failure rates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gpuyard.catalog.interruptions import Interruption
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.perf.goodput import Goodput, goodput
from gpuyard.workload.where import ConsumptionName

# Assumption: the pause of one checkpoint. Storage is sized to write a checkpoint in this time;
# asynchronous checkpoints pause for less.
CHECKPOINT_STALL_S = 60.0
RateBound = Literal["low", "counted", "high"]  # of an interruption rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Resilience:
    """How the work recovers from interruptions."""

    write_s: float = CHECKPOINT_STALL_S  # pause of one checkpoint
    interval_s: float | None = None  # between checkpoints; None: the optimum
    together: bool = True  # an interruption stops all machines
    start_s: float = 0.0  # from the first billed second to the first useful one


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRisk:
    """Interruption rate of the machines that stop together."""

    mean_time_between_s: float  # infinite without a record
    restart_s: float
    records: tuple[str, ...]  # rows under interruptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """Time to finish a run, and the interruptions in it."""

    expected_s: float
    interruptions_count: float


def interruption_risk(
    machine: Machine,
    machine_count: int,
    consumption: ConsumptionName,
    catalog: Catalog,
    together: bool = True,
    bound: RateBound = "counted",
) -> InterruptionRisk:
    """Return the combined rate of failures and, for spot machines, preemptions."""
    rates = [_failures(machine, catalog)]
    if consumption == "spot":
        rates.append(_preemptions(machine, catalog))
    known = [
        (record, max(per_s * _factor(record, bound), _unlike(record, machine, catalog, bound)))
        for record, per_s in rates
        if record is not None
    ]
    machines = machine_count if together else 1
    total_per_s = machines * sum(per_s for _, per_s in known)
    if total_per_s <= 0.0:
        return InterruptionRisk(mean_time_between_s=math.inf, restart_s=0.0, records=())
    restart_s = (
        machines * sum(per_s * (record.restart_s or 0.0) for record, per_s in known) / total_per_s
    )
    return InterruptionRisk(
        mean_time_between_s=1.0 / total_per_s,
        restart_s=restart_s,
        records=tuple(record.name for record, _ in known),
    )


def _factor(record: Interruption, bound: RateBound) -> float:
    low, high = record.rate_interval
    return {"low": low, "counted": 1.0, "high": high}[bound]


def _unlike(record: Interruption, machine: Machine, catalog: Catalog, bound: RateBound) -> float:
    """The high end of preemptions where the record counted machines without accelerators.

    Nobody publishes a rate of spot accelerators but for one trace, so its rate bounds the others.
    """
    if bound != "high" or record.cause != "preemption" or record.chips or machine.chip is None:
        return 0.0
    return max((1.0 / row.mean_time_between_s for row in _preemption_records(catalog)), default=0.0)


def _preemption_records(catalog: Catalog) -> list[Interruption]:
    return [row for row in catalog.interruptions if row.cause == "preemption" and row.default]


def run_time(
    useful_s: float,
    machine: Machine,
    machine_count: int,
    consumption: ConsumptionName,
    resilience: Resilience,
    catalog: Catalog,
    bound: RateBound = "counted",
) -> Goodput:
    """Return the expected time of a run on this cluster, with its terms.

    `bound` takes the interruption rate as counted, or an end of its 90 % interval; the high end
    for spot accelerators is the highest rate of the catalog.
    """
    together = resilience.together
    risk = interruption_risk(machine, machine_count, consumption, catalog, together, bound)
    run = goodput(
        useful_s,
        risk.mean_time_between_s,
        resilience.write_s,
        risk.restart_s,
        resilience.interval_s,
    )
    return replace(run, expected_s=run.expected_s + resilience.start_s)


def run_times(
    useful_s: float,
    machine: Machine,
    machine_count: int,
    consumption: ConsumptionName,
    resilience: Resilience,
    catalog: Catalog,
) -> dict[RateBound, ExpectedRun]:
    """Return the expected run at the counted interruption rate and at the ends of its interval."""
    bounds: tuple[RateBound, ...] = ("low", "counted", "high")
    risks = [
        interruption_risk(machine, machine_count, consumption, catalog, resilience.together, bound)
        for bound in bounds
    ]
    runs = goodput(
        useful_s,
        np.array([risk.mean_time_between_s for risk in risks]),
        resilience.write_s,
        np.array([risk.restart_s for risk in risks]),
        resilience.interval_s,
    )
    times = np.asarray(runs.expected_s) + resilience.start_s
    counts = np.asarray(runs.interruptions_count)
    return {
        bound: ExpectedRun(expected_s=float(times[at]), interruptions_count=float(counts[at]))
        for at, bound in enumerate(bounds)
    }


def _failures(machine: Machine, catalog: Catalog) -> tuple[Interruption | None, float]:
    """The failure record of the machine's chip, and failures per machine and second."""
    records = [record for record in catalog.interruptions if record.cause == "failure"]
    if machine.chip is None:  # no public record of CPU machines: GPU nodes are an upper bound
        record = next((record for record in records if record.unit == "machine"), None)
        return record, 1.0 / record.mean_time_between_s if record else 0.0
    own = (record for record in records if machine.chip in record.chips)
    record = next(own, None) or next((record for record in records if record.default), None)
    units = machine.chip_count / record.chips_per_unit if record else 0.0
    return record, units / record.mean_time_between_s if record else 0.0


def _preemptions(machine: Machine, catalog: Catalog) -> tuple[Interruption | None, float]:
    """The preemption record of the provider, and preemptions per machine and second.

    Of a provider without a record, the highest rate of the catalog counts.
    """
    records = _preemption_records(catalog)
    own = (row for row in records if row.provider in (machine.provider, ""))
    worst = min(records, key=lambda row: row.mean_time_between_s, default=None)
    record = next(own, worst)
    return record, 1.0 / record.mean_time_between_s if record else 0.0
