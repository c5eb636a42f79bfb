"""machineSpec of Vertex AI: type, accelerators, topology, reservation."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.consumption import RESERVATION_KEY
from gpuyard.provision.launch.tpu_slices import Slices
from gpuyard.provision.platforms.google_machine_types import machine_type

# Vertex AI: schedule training jobs with flex-start (stored copy of unknown age, read 2026-11).
FLEX_CHIPS = ("l4", "a100-40gb", "a100-80gb", "h100-sxm", "h200-sxm", "b200")


def machine_spec(
    blueprint: Blueprint, settings: ResolvedSettings, slices: Slices | None, chips: int
) -> dict[str, Plain]:
    """Return the machineSpec of one replica; `slices` is set for TPUs."""
    machine = blueprint.machine
    spec: dict[str, Plain] = {"machineType": machine_type(machine)}
    if slices is not None:
        spec["tpuTopology"] = slices.topology
    else:
        spec |= {"acceleratorType": machine.platforms.vertex_ai, "acceleratorCount": chips}
    if blueprint.consumption == "reservation":
        reservation = settings.requested.reservation
        name = f"projects/{settings.project}/zones/{settings.zone}/reservations/{reservation}"
        spec["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": [name],
        }
    return spec
