"""`gpuyard check`: is the workload file right, and which machines of the catalog may run it."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

from gpuyard.catalog import Catalog, Machine, Price, load_catalog
from gpuyard.errors import RefusedError
from gpuyard.plan import chip_of, ruled_out
from gpuyard.workload import Workload, own_catalogs, read_workload

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
    stages: tuple[str, ...] = ()  # of its pipeline


def check_workload(path: Path, layers: Sequence[Path] = ()) -> Answer:
    """The catalog's answer to a workload file; InputError with every problem if the file is wrong."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    workload = read_workload(path, catalog)
    stages = _stages(path) if workload.pipeline is not None else ()
    return replace(answer(workload, catalog), stages=stages)


class _Pipelines(Protocol):
    """What the module that reads pipelines offers."""

    def read_stages(self, path: Path) -> _Named: ...


class _Named(Protocol):
    """Stages with their names."""

    names: tuple[str, ...]


def _stages(path: Path) -> tuple[str, ...]:
    """The stages of the pipeline, every section checked; its rooms are loaded only for a file that has one."""
    try:
        module = cast(_Pipelines, importlib.import_module("gpuyard.app.pipeline"))
    except ModuleNotFoundError as error:
        raise RefusedError(
            f"{path}: pipeline", f"{error.name} is not installed", "pip install 'gpuyard[run]'"
        ) from error
    return module.read_stages(path).names


def answer(workload: Workload, catalog: Catalog) -> Answer:
    """The machines that pass every rule, the recommended first, and what ruled out the others."""
    reasons: dict[str, list[str]] = {}
    candidates = []
    for machine in catalog.machines:
        if machine.provider != workload.where.provider:
            continue
        reason = ruled_out(workload, machine, catalog)
        if reason is None:
            candidates.append(_candidate(workload, machine, catalog))
        else:
            reasons.setdefault(reason, []).append(machine.name)
    candidates.sort(key=lambda candidate: not candidate.recommended)
    left_out = tuple(LeftOut(reason=reason, machines=tuple(names)) for reason, names in reasons.items())
    return Answer(workload=workload, candidates=tuple(candidates), left_out=left_out)


def _candidate(workload: Workload, machine: Machine, catalog: Catalog) -> Candidate:
    """The machine with what decides between candidates."""
    chip, price = chip_of(machine, catalog), _price(workload, machine, catalog)
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
