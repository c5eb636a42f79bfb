"""A machine as Vertex AI asks for it: type, accelerators, topology, reservation."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.offers import RESERVATION_KEY
from gpuyard.provision.platforms.machines import machine_type
from gpuyard.provision.platforms.slices import Slices
from gpuyard.provision.settings import Place

__all__ = ["FLEX_CHIPS", "machine_spec"]

# Vertex AI: schedule training jobs with flex-start (stored copy of unknown age, read 2026-11)
FLEX_CHIPS = ("l4", "a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm", "b200")


def machine_spec(blueprint: Blueprint, place: Place, slices: Slices | None, chips: int) -> dict[str, Plain]:
    """The machineSpec of one replica; `slices` where it is a TPU."""
    machine = blueprint.machine
    spec: dict[str, Plain] = {"machineType": machine_type(machine)}
    if slices is not None:
        spec["tpuTopology"] = slices.topology
    else:
        spec |= {"acceleratorType": machine.platforms.vertex_ai, "acceleratorCount": chips}
    if blueprint.way == "reservation":
        name = f"projects/{place.project}/zones/{place.zone}/reservations/{place.settings.reservation}"
        spec["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [name],
        }
    return spec
