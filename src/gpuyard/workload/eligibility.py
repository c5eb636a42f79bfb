"""Whether the catalog offers a machine for a consumption option, a platform or a framework."""

from __future__ import annotations

from gpuyard.catalog.chips import Chip, Framework
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.workload.where import ConsumptionName, PlatformChoice, Where

_CONSUMPTION_FIELDS: dict[ConsumptionName, tuple[str, ...]] = {
    "on-demand": ("on_demand",),
    "spot": ("spot",),
    "flex-start": ("flex_start",),
    "reservation": ("on_demand_reservation", "calendar_reservation", "future_reservation"),
}
_PLATFORM_FIELDS: dict[PlatformChoice, tuple[str, ...]] = {
    "compute-engine": ("compute_engine",),
    "gke": ("gke_standard", "gke_autopilot"),
    "slurm": ("cluster_toolkit", "cluster_director"),
    "vertex-ai": ("vertex_ai", "vertex_training_clusters"),
    "cloud-run": ("cloud_run",),
}


def is_available(machine: Machine, consumption: ConsumptionName) -> bool:
    """Return False only if the catalog says no to every variant; unknown counts as available."""
    return any(
        getattr(machine.consumption, field) != "no" for field in _CONSUMPTION_FIELDS[consumption]
    )


def can_be_placed(machine: Machine, platform: PlatformChoice) -> bool:
    """Return False only if the catalog says no to every product of the platform."""
    fields = _PLATFORM_FIELDS.get(platform, ())
    return not fields or any(getattr(machine.platforms, field) != "no" for field in fields)


def chip_of(machine: Machine, catalog: Catalog) -> Chip | None:
    """Return the machine's accelerator, or None if it has none or the catalog lacks it."""
    return next(
        (chip for chip in catalog.chips if machine.chip in (chip.name, *chip.aliases)), None
    )


def may_run(machine: Machine, framework: Framework, catalog: Catalog) -> bool:
    """Return False if the machine's accelerator is known not to run the framework."""
    chip = chip_of(machine, catalog)
    return chip is None or framework in chip.frameworks


def allowed_machines(where: Where, catalog: Catalog) -> tuple[Machine, ...]:
    """Return the accelerated machines that `where` allows."""
    return tuple(
        machine for machine in catalog.machines if machine.is_accelerated and where.allows(machine)
    )
