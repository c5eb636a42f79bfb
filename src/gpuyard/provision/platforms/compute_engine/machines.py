"""What a machine is asked for: type, disks, NICs, offer, lifetime, identity."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.platforms.compute_engine.workstations import read_workstation_facts
from gpuyard.provision.platforms.machines import attaches_gpus, boot_disk, machine_type
from gpuyard.provision.platforms.vpc import Vpc, subnets_of
from gpuyard.provision.settings import Place

__all__ = ["BOOT_GB", "MOST_RUN_S", "instance_properties", "multi_node_fabric"]

BOOT_GB = "200"
MOST_RUN_S = 120 * 86_400  # https://docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, 2026-04
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
MODELS = {"on-demand": "STANDARD", "spot": "SPOT", "flex-start": "FLEX_START", "reservation": "RESERVATION_BOUND"}
IMAGES = "projects/ubuntu-os-accelerator-images/global/images/family/ubuntu-accelerator-2404"
DRIVER = "with-nvidia-580"
PLAIN_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"


def multi_node_fabric(blueprint: Blueprint) -> Fabric | None:
    """The fabric, where machines work together and theirs has one of its own."""
    return read_facts().fabric(blueprint.machine.name) if blueprint.shape == "multi-node" else None


def instance_properties(
    blueprint: Blueprint, place: Place, vpcs: tuple[Vpc, ...], script: str, *, zoned: bool
) -> dict[str, Plain]:
    """The properties of a template; `zoned` writes types as an instance wants them, with their zone."""
    machine, place_prefix = blueprint.machine, f"zones/{place.zone}/" if zoned else ""
    name = machine_type(machine)
    body: dict[str, Plain] = {
        "labels": place.labels,
        "machineType": f"{place_prefix}machineTypes/{name}" if zoned else name,
        "disks": [_boot_disk(blueprint, place, place_prefix)],
        "networkInterfaces": [_nic(place, vpc, subnet.name) for vpc, subnet in subnets_of(vpcs)],
        "scheduling": _scheduling(blueprint, place),
        "serviceAccounts": _identity(blueprint, place),
        "metadata": {"items": [{"key": "startup-script", "value": script}, {"key": "enable-oslogin", "value": "TRUE"}]},
    }
    accelerator = (machine.vws_api_name or "") if blueprint.shape == "desks" else machine.api_name
    if attaches_gpus(machine) or blueprint.shape == "desks":
        kind = f"projects/{place.project}/zones/{place.zone}/acceleratorTypes/{accelerator}"
        body["guestAccelerators"] = [
            {"acceleratorType": kind if zoned else accelerator, "acceleratorCount": int(machine.chip_count)}
        ]
    affinity = _affinity(blueprint, place)
    if affinity:
        body["reservationAffinity"] = affinity
    return body


def _identity(blueprint: Blueprint, place: Place) -> list[Plain]:
    """Who the machine is in the project: the one that was named; people at desks are given no other."""
    named = place.settings.service_account
    if blueprint.shape == "desks" and not named:
        return []
    return [{"email": named or "default", "scopes": ["https://www.googleapis.com/auth/cloud-platform"]}]


def _boot_disk(blueprint: Blueprint, place: Place, prefix: str) -> dict[str, Plain]:
    """The boot disk: an image with the driver; Hyperdisk where the machine takes nothing else."""
    machine, fabric = blueprint.machine, read_facts().fabric(blueprint.machine.name)
    disk = boot_disk(machine)
    architecture = fabric.architecture if fabric else "amd64"
    image = f"{IMAGES}-{architecture}-{DRIVER}" if machine.is_accelerated else PLAIN_IMAGE
    image = read_workstation_facts().part("image").address if blueprint.shape == "desks" else image
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": image,
            "diskType": f"projects/{place.project}/{prefix}diskTypes/{disk}" if prefix else disk,
            "diskSizeGb": BOOT_GB,
            "labels": place.labels,
        },
    }


def _nic(place: Place, vpc: Vpc, subnet: str) -> dict[str, Plain]:
    """A NIC without an external address."""
    nic: dict[str, Plain] = {
        "network": f"projects/{place.project}/global/networks/{vpc.name}",
        "subnetwork": f"projects/{place.project}/regions/{place.region}/subnetworks/{subnet}",
        "nicType": vpc.nic_type,
    }
    if vpc.profile.endswith("metal"):
        nic["stackType"] = "IPV6_ONLY"
    return nic


def _scheduling(blueprint: Blueprint, place: Place) -> dict[str, Plain]:
    """The offer, and the end that the server keeps."""
    return {
        "provisioningModel": _model(blueprint),
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": blueprint.shape == "desks" and blueprint.way in ("on-demand", "reservation"),
        "maxRunDuration": {"seconds": str(min(place.ttl_s, MOST_RUN_S))},
        "instanceTerminationAction": "DELETE",
    }


def _model(blueprint: Blueprint) -> str:
    """The provisioning model; a reservation made on demand is used by standard machines."""
    offers = blueprint.machine.consumption
    if blueprint.way == "reservation" and "yes" not in (offers.calendar_reservation, offers.future_reservation):
        return "STANDARD"
    return MODELS[blueprint.way or "on-demand"]


def _affinity(blueprint: Blueprint, place: Place) -> dict[str, Plain]:
    """Which reservation is used: the named one, or none for offers that take none."""
    if blueprint.way == "reservation":
        values: list[Plain] = [place.settings.reservation]
        return {"consumeReservationType": "SPECIFIC_RESERVATION", "key": RESERVATION_KEY, "values": values}
    if blueprint.way in ("flex-start", "spot"):
        return {"consumeReservationType": "NO_RESERVATION"}
    return {}
