"""What the catalog says of a machine against what a workload asks: ways to obtain it, platforms, frameworks."""

from __future__ import annotations

from gpuyard.catalog import Catalog, Chip, Framework, Machine
from gpuyard.workload.where import ConsumptionName, PlatformChoice, Where

__all__ = ["allowed_machines", "chip_of", "may_be_had", "may_be_placed", "may_run"]

_WAYS: dict[ConsumptionName, tuple[str, ...]] = {
    "on-demand": ("on_demand",),
    "spot": ("spot",),
    "flex-start": ("flex_start",),
    "reservation": ("on_demand_reservation", "calendar_reservation", "future_reservation"),
}
_PRODUCTS: dict[PlatformChoice, tuple[str, ...]] = {
    "compute-engine": ("compute_engine",),
    "gke": ("gke_standard", "gke_autopilot"),
    "slurm": ("cluster_toolkit", "cluster_director"),
    "vertex-ai": ("vertex_ai", "vertex_training_clusters"),
    "cloud-run": ("cloud_run",),
}


def may_be_had(machine: Machine, way: ConsumptionName) -> bool:
    """False when the catalog says no to every form of that way; an unknown answer is not a no."""
    return any(getattr(machine.consumption, field) != "no" for field in _WAYS[way])


def may_be_placed(machine: Machine, platform: PlatformChoice) -> bool:
    """False when the catalog says no to every product of that platform; an unknown answer is not a no."""
    products = _PRODUCTS.get(platform, ())
    return not products or any(getattr(machine.platforms, field) != "no" for field in products)


def chip_of(machine: Machine, catalog: Catalog) -> Chip | None:
    """The machine's accelerator, None if it has none or the catalog does not describe it."""
    return next((chip for chip in catalog.chips if machine.chip in (chip.name, *chip.aliases)), None)


def may_run(machine: Machine, framework: Framework, catalog: Catalog) -> bool:
    """False when the machine's accelerator is known not to run the framework."""
    chip = chip_of(machine, catalog)
    return chip is None or framework in chip.frameworks


def allowed_machines(where: Where, catalog: Catalog) -> tuple[Machine, ...]:
    """The catalog's machines with accelerators that provider, inventory, machines and exclude leave in."""
    return tuple(machine for machine in catalog.machines if machine.is_accelerated and where.allows(machine))
