"""Machines that a workload file allows, and the first constraint that excludes the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import choices_text
from gpuyard.plan.limits import LimitViolation
from gpuyard.plan.option import RejectedFamily
from gpuyard.workload.eligibility import can_be_placed, chip_of, is_available, may_run
from gpuyard.workload.where import ConsumptionName
from gpuyard.workload.workload import Workload

NO_ACCELERATOR = "no accelerator"
MAX_REGIONS = 6  # named in a reason
OTHER_MACHINES = "allow other machines"
FIXES = {
    "where.region": "choose another region",
    "where.zone": "choose another zone",
    "where.platform": "choose another platform",
    "where.consumption": "allow another consumption option",
    "requirements.framework": "choose another framework",
    "requirements.precision": "choose another precision",
    "training.method": "choose another training method",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Why a machine is not a candidate."""

    binding: str  # the key of the workload file or the table of the catalog
    what: str

    @property
    def fix(self) -> str:
        return FIXES.get(self.binding, OTHER_MACHINES)

    def rejected(self, family: str) -> RejectedFamily:
        return RejectedFamily(family=family, binding=self.binding, what=self.what, fix=self.fix)

    def violation(self, family: str) -> LimitViolation:
        """Return the exclusion as a violation that no number would fix."""
        return LimitViolation(
            family=family,
            binding=self.binding,
            ratio=math.inf,
            what=self.what,
            fix=self.fix if self.fix == OTHER_MACHINES else f"{self.fix}, or {OTHER_MACHINES}",
        )


Rule = Callable[[Workload, Machine, Catalog], Exclusion | None]


def _where(workload: Workload, machine: Machine, _catalog: Catalog) -> Exclusion | None:
    if workload.where.allows(machine):
        return None
    return Exclusion(binding="where", what="not allowed by the workload file")


def _accelerator(workload: Workload, machine: Machine, _catalog: Catalog) -> Exclusion | None:
    if machine.is_accelerated or workload.task in ("hpc", "inference"):
        return None
    return Exclusion(binding=workload.task, what=NO_ACCELERATOR)


def _framework(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    framework = workload.requirements.framework
    if framework is None or may_run(machine, framework, catalog):
        return None
    return Exclusion(binding="requirements.framework", what=f"its chip does not run {framework}")


def _precision(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    precision = workload.requirements.precision
    chip = chip_of(machine, catalog)
    if precision is None or chip is None:
        return None
    if getattr(chip.dense, f"{precision}_flop_per_s") is not None:
        return None
    return Exclusion(
        binding="requirements.precision", what=f"no {precision} rate is known for its chip"
    )


def _consumption(workload: Workload, machine: Machine, _catalog: Catalog) -> Exclusion | None:
    options = workload.where.consumption
    if not options or any(is_available(machine, option) for option in options):
        return None
    return Exclusion(binding="where.consumption", what=f"not available as {' or '.join(options)}")


def _offered(_workload: Workload, machine: Machine, _catalog: Catalog) -> Exclusion | None:
    options: tuple[ConsumptionName, ...] = get_args(ConsumptionName)
    if machine.provider == "onprem" or any(is_available(machine, option) for option in options):
        return None
    return Exclusion(binding="machines", what="no longer offered")


def _region(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    """A machine whose zones are known, or whose provider is priced by region, is only there."""
    where = workload.where
    rows = [
        row
        for row in catalog.prices
        if row.provider == machine.provider
        and row.machine == machine.name
        and (row.zones or machine.provider != "google")
    ]
    if where.region is None:
        return None
    if not rows:
        return _unknown_region(where.region, machine, catalog)
    here = [row for row in rows if row.region == where.region]
    if not here:
        regions = choices_text(sorted({row.region for row in rows}), limit=MAX_REGIONS)
        what = f"not offered in {where.region}, only in {regions}"
        return Exclusion(binding="where.region", what=what)
    zones = sorted(zone for row in here for zone in row.zones)
    if where.zone is not None and zones and where.zone not in zones:
        what = f"not offered in {where.zone}, only in {' and '.join(zones)}"
        return Exclusion(binding="where.zone", what=what)
    return None


def _unknown_region(region: str, machine: Machine, catalog: Catalog) -> Exclusion | None:
    """Accelerators are in few regions: one that no list places in the region is not planned."""
    listed = {row.region for row in catalog.prices if row.machine == machine.name}
    if machine.provider != "google" or not machine.is_accelerated or region in listed:
        return None
    return Exclusion(binding="where.region", what=f"not known to be offered in {region}")


def _platform(workload: Workload, machine: Machine, _catalog: Catalog) -> Exclusion | None:
    platform = workload.where.platform
    if platform is None or can_be_placed(machine, platform):
        return None
    return Exclusion(binding="where.platform", what=f"not on {platform}")


def _graphics(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    if workload.task != "graphics" or not machine.is_accelerated:
        return None
    chip = chip_of(machine, catalog)
    if chip is None or chip.kind == "gpu":
        return None
    return Exclusion(binding="graphics", what="no graphics support")


def _quantised(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    chip = chip_of(machine, catalog)
    training = workload.training
    if training is None or training.method != "qlora":
        return None
    if chip is None or "cuda" in chip.frameworks:
        return None
    # bitsandbytes, arXiv 2305.14314
    return Exclusion(binding="training.method", what="QLoRA's 4-bit kernels need CUDA")


RULES: tuple[Rule, ...] = (
    _where,
    _offered,
    _accelerator,
    _graphics,
    _framework,
    _quantised,
    _precision,
    _consumption,
    _region,
    _platform,
)


def exclusion_of(workload: Workload, machine: Machine, catalog: Catalog) -> Exclusion | None:
    """Return the first constraint that excludes the machine, or None."""
    results = (rule(workload, machine, catalog) for rule in RULES)
    return next((exclusion for exclusion in results if exclusion is not None), None)
