"""`gpuyard check`: is the workload file right, and which machines of the catalog may run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyard.catalog import Catalog, Chip, Machine, Price, load_catalog
from gpuyard.workload import Workload, may_be_had, may_be_placed, may_run, own_catalogs, read_workload

__all__ = ["Answer", "Candidate", "LeftOut", "answer", "check_workload"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A machine that nothing in the workload file rules out."""

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
class LeftOut:
    """Machines that one condition of the file rules out."""

    reason: str
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the catalog has for a workload."""

    workload: Workload
    candidates: tuple[Candidate, ...]
    left_out: tuple[LeftOut, ...]


def check_workload(path: Path, layers: Sequence[Path] = ()) -> Answer:
    """The catalog's answer to a workload file; InputError with every problem if the file is wrong."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    return answer(read_workload(path, catalog), catalog)


Rule = Callable[[Workload, Machine, Catalog], str | None]


def _where(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    return None if workload.where.allows(machine) else "where: not among the machines that the file allows"


def _accelerator(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    if machine.is_accelerated or workload.task in ("hpc", "inference"):
        return None
    return f"{workload.task}: no accelerator"


def _framework(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    framework = workload.requirements.framework
    if framework is None or may_run(machine, framework, catalog):
        return None
    return f"requirements.framework: its chip does not run {framework}"


def _precision(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    precision, chip = workload.requirements.precision, _chip(machine, catalog)
    if precision is None or chip is None:
        return None
    known = getattr(chip.dense, f"{precision}_flop_per_s") is not None
    return None if known else f"requirements.precision: no {precision} rate is known for its chip"


def _consumption(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    ways = workload.where.consumption
    if not ways or any(may_be_had(machine, way) for way in ways):
        return None
    return f"where.consumption: cannot be had by {' or '.join(ways)}"


def _platform(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    platform = workload.where.platform
    if platform is None or may_be_placed(machine, platform):
        return None
    return f"where.platform: not on {platform}"


def _graphics(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    if workload.task != "graphics" or not machine.is_accelerated:
        return None
    chip = _chip(machine, catalog)
    return None if chip is None or chip.kind == "gpu" else "graphics: draws no pixels"


RULES: tuple[Rule, ...] = (_where, _accelerator, _graphics, _framework, _precision, _consumption, _platform)


def answer(workload: Workload, catalog: Catalog) -> Answer:
    """The machines that pass every rule, the recommended first, and what ruled out the others."""
    reasons: dict[str, list[str]] = {}
    candidates = []
    for machine in catalog.machines:
        if machine.provider != workload.where.provider:
            continue
        found = (rule(workload, machine, catalog) for rule in RULES)
        reason = next((text for text in found if text is not None), None)
        if reason is None:
            candidates.append(_candidate(workload, machine, catalog))
        else:
            reasons.setdefault(reason, []).append(machine.name)
    candidates.sort(key=lambda candidate: not candidate.recommended)
    left_out = tuple(LeftOut(reason=reason, machines=tuple(names)) for reason, names in reasons.items())
    return Answer(workload=workload, candidates=tuple(candidates), left_out=left_out)


def _candidate(workload: Workload, machine: Machine, catalog: Catalog) -> Candidate:
    """The machine with what decides between candidates."""
    chip, price = _chip(machine, catalog), _price(workload, machine, catalog)
    return Candidate(
        machine=machine.name,
        series=machine.series,
        chip=machine.chip,
        chip_count=machine.chip_count,
        memory_bytes=chip.memory_bytes * machine.chip_count if chip else None,
        network=machine.network.technology,
        recommended=any(
            machine.series in guidance.series for guidance in catalog.guidance if guidance.task == workload.task
        ),
        region=price.region if price else None,
        on_demand_usd_per_hour=price.on_demand_usd_per_hour if price and price.on_demand_can_be_created else None,
        spot_usd_per_hour=price.spot_usd_per_hour if price else None,
    )


def _chip(machine: Machine, catalog: Catalog) -> Chip | None:
    """The machine's accelerator."""
    return catalog.chip(machine.chip) if machine.chip else None


def _price(workload: Workload, machine: Machine, catalog: Catalog) -> Price | None:
    """The machine's price in the workload's region, or in the first region with one."""
    found = [
        price
        for price in catalog.prices
        if price.machine == machine.name
        and price.provider == machine.provider
        and price.covers == "machine"
        and workload.where.region in (None, price.region)
    ]
    return found[0] if found else None
