"""Which machines a workload file leaves in, and the first condition that rules out each of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from gpuyard.catalog import Catalog, Chip, Machine
from gpuyard.workload import ConsumptionName, Workload, may_be_had, may_be_placed, may_run

__all__ = ["RULES", "Rule", "chip_of", "ruled_out"]

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
    precision, chip = workload.requirements.precision, chip_of(machine, catalog)
    if precision is None or chip is None:
        return None
    known = getattr(chip.dense, f"{precision}_flop_per_s") is not None
    return None if known else f"requirements.precision: no {precision} rate is known for its chip"


def _consumption(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    ways = workload.where.consumption
    if not ways or any(may_be_had(machine, way) for way in ways):
        return None
    return f"where.consumption: cannot be had by {' or '.join(ways)}"


def _offered(_workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    ways: tuple[ConsumptionName, ...] = get_args(ConsumptionName)
    if machine.provider == "onprem" or any(may_be_had(machine, way) for way in ways):
        return None
    return "machines: it cannot be created any more"


def _platform(workload: Workload, machine: Machine, _catalog: Catalog) -> str | None:
    platform = workload.where.platform
    if platform is None or may_be_placed(machine, platform):
        return None
    return f"where.platform: not on {platform}"


def _graphics(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    if workload.task != "graphics" or not machine.is_accelerated:
        return None
    chip = chip_of(machine, catalog)
    return None if chip is None or chip.kind == "gpu" else "graphics: draws no pixels"


def _quantised(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    chip = chip_of(machine, catalog)
    if workload.training is None or workload.training.method != "qlora" or chip is None or "cuda" in chip.frameworks:
        return None
    return "training.method: the 4-bit kernels of QLoRA are written for CUDA"  # bitsandbytes, arXiv 2305.14314


RULES: tuple[Rule, ...] = (
    _where,
    _offered,
    _accelerator,
    _graphics,
    _framework,
    _quantised,
    _precision,
    _consumption,
    _platform,
)


def ruled_out(workload: Workload, machine: Machine, catalog: Catalog) -> str | None:
    """The first condition that rules the machine out, as `key: why`; None if nothing does."""
    found = (rule(workload, machine, catalog) for rule in RULES)
    return next((reason for reason in found if reason is not None), None)


def chip_of(machine: Machine, catalog: Catalog) -> Chip | None:
    """The machine's accelerator."""
    return catalog.chip(machine.chip) if machine.chip else None
