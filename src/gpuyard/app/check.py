"""`gpuyard check`: validate a workload file and list the machines that may run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.prices import Price
from gpuyard.plan.eligible import exclusion_of
from gpuyard.workload.eligibility import chip_of
from gpuyard.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibleMachine:
    """A machine that nothing in the workload file excludes."""

    machine: str
    series: str
    chip: str | None
    chip_count: float
    memory_bytes: float | None  # of all its accelerators
    network: str
    recommended: bool  # the provider's guidance names its series for this task
    region: str | None = None
    on_demand_usd_per_hour: float | None = None
    spot_usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludedMachines:
    """Machines that one condition of the workload file excludes."""

    reason: str
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Eligible and excluded machines of a workload."""

    workload: Workload
    candidates: tuple[EligibleMachine, ...]
    left_out: tuple[ExcludedMachines, ...]
    stages: tuple[str, ...] = ()  # of its pipeline


def check_workload(workspace: Workspace) -> CheckResult:
    """List the machines that may run a workload, and the stages of its pipeline."""
    stages = _stages(workspace.path) if workspace.workload.pipeline is not None else ()
    return replace(eligible_machines(workspace.workload, workspace.catalog), stages=stages)


def _stages(path: Path) -> tuple[str, ...]:
    """Stage names of the pipeline; its packages are imported only for a file that has one."""
    from gpuyard.app.stages import read_stages

    return read_stages(path).names


def eligible_machines(workload: Workload, catalog: Catalog) -> CheckResult:
    """Machines that pass every rule, recommended ones first, and why the others are excluded."""
    reasons: dict[str, list[str]] = {}
    candidates = []
    for machine in catalog.machines:
        if not workload.where.includes(machine.provider):
            continue
        exclusion = exclusion_of(workload, machine, catalog)
        if exclusion is None:
            candidates.append(_candidate(workload, machine, catalog))
        else:
            reason = f"{exclusion.binding}: {exclusion.what}"
            reasons.setdefault(reason, []).append(machine.name)
    candidates.sort(key=lambda candidate: not candidate.recommended)
    left_out = tuple(
        ExcludedMachines(reason=reason, machines=tuple(names)) for reason, names in reasons.items()
    )
    return CheckResult(workload=workload, candidates=tuple(candidates), left_out=left_out)


def _candidate(workload: Workload, machine: Machine, catalog: Catalog) -> EligibleMachine:
    chip, price = chip_of(machine, catalog), _price(workload, machine, catalog)
    return EligibleMachine(
        machine=machine.name,
        series=machine.series,
        chip=machine.chip,
        chip_count=machine.chip_count,
        memory_bytes=chip.memory_bytes * machine.chip_count if chip else None,
        network=machine.network.technology,
        recommended=any(
            machine.series in guidance.series
            for guidance in catalog.guidance
            if guidance.task == workload.task
        ),
        region=price.region if price else None,
        on_demand_usd_per_hour=price.on_demand_usd_per_hour
        if price and price.on_demand_can_be_created
        else None,
        spot_usd_per_hour=price.spot_usd_per_hour if price else None,
    )


def _price(workload: Workload, machine: Machine, catalog: Catalog) -> Price | None:
    """Price in the workload's region, or in the first region with one."""
    prices = [
        price
        for price in catalog.prices
        if price.machine == machine.name
        and price.provider == machine.provider
        and price.covers == "machine"
        and workload.where.region in (None, price.region)
    ]
    return prices[0] if prices else None
