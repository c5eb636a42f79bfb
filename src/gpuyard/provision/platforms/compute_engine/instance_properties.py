"""Instance properties: machine type, disks, NICs, consumption option, TTL, service account."""

from __future__ import annotations

import datetime

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.platforms.compute_engine.supervision import end_time_s, has_fixed_end
from gpuyard.provision.platforms.compute_engine.workstation_facts import read_workstation_facts
from gpuyard.provision.platforms.google_machine_types import attaches_gpus, boot_disk, machine_type
from gpuyard.provision.platforms.vpc import Vpc, subnets_of
from gpuyard.units import DAY_S

BOOT_GB = "200"
# https://docs.cloud.google.com/compute/docs/instances/limit-vm-runtime, 2026-04
MAX_RUN_S = 120 * DAY_S
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
MODELS = {
    "on-demand": "STANDARD",
    "spot": "SPOT",
    "flex-start": "FLEX_START",
    "reservation": "RESERVATION_BOUND",
}
IMAGE_PROJECT = "projects/ubuntu-os-accelerator-images/global/images"
IMAGES = f"{IMAGE_PROJECT}/family/ubuntu-accelerator-2404"
DRIVER = "with-nvidia-580"
PLAIN_IMAGE = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"


def multi_node_fabric(blueprint: Blueprint) -> MachineFabric | None:
    """Return the machine's GPU fabric if the job is multi-node."""
    return read_facts().fabric(blueprint.machine.name) if blueprint.shape == "multi-node" else None


def instance_properties(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    vpcs: tuple[Vpc, ...],
    script: str,
    *,
    zoned: bool,
) -> dict[str, Plain]:
    """Return the properties of a template; `zoned` adds the zone to types, for instances."""
    machine = blueprint.machine
    zone_prefix = f"zones/{settings.zone}/" if zoned else ""
    name = machine_type(machine)
    body: dict[str, Plain] = {
        "labels": settings.labels,
        "machineType": f"{zone_prefix}machineTypes/{name}" if zoned else name,
        "disks": [_boot_disk(blueprint, settings, zone_prefix)],
        "networkInterfaces": [_nic(settings, vpc, subnet.name) for vpc, subnet in subnets_of(vpcs)],
        "scheduling": _scheduling(blueprint, settings),
        "serviceAccounts": _service_accounts(blueprint, settings),
        "metadata": {
            "items": [
                {"key": "startup-script", "value": script},
                {"key": "enable-oslogin", "value": "TRUE"},
            ]
        },
    }
    accelerator = (
        (machine.vws_api_name or "") if blueprint.shape == "workstations" else machine.api_name
    )
    if attaches_gpus(machine) or blueprint.shape == "workstations":
        kind = f"projects/{settings.project}/zones/{settings.zone}/acceleratorTypes/{accelerator}"
        body["guestAccelerators"] = [
            {
                "acceleratorType": kind if zoned else accelerator,
                "acceleratorCount": int(machine.chip_count),
            }
        ]
    affinity = _reservation_affinity(blueprint, settings)
    if affinity:
        body["reservationAffinity"] = affinity
    return body


def _service_accounts(blueprint: Blueprint, settings: ResolvedSettings) -> list[Plain]:
    email = settings.requested.service_account
    if blueprint.shape == "workstations" and not email:
        return []  # every user of the workstation could act as the default account
    scope = "https://www.googleapis.com/auth/cloud-platform"
    return [{"email": email or "default", "scopes": [scope]}]


def _boot_disk(blueprint: Blueprint, settings: ResolvedSettings, prefix: str) -> dict[str, Plain]:
    machine, fabric = blueprint.machine, read_facts().fabric(blueprint.machine.name)
    disk = boot_disk(machine)
    architecture = fabric.architecture if fabric else "amd64"
    image = f"{IMAGES}-{architecture}-{DRIVER}" if machine.is_accelerated else PLAIN_IMAGE
    if fabric and fabric.image:
        image = f"{IMAGE_PROJECT}/{fabric.image}"
    if blueprint.shape == "workstations":
        image = read_workstation_facts().package("image").url
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": image,
            "diskType": f"projects/{settings.project}/{prefix}diskTypes/{disk}" if prefix else disk,
            "diskSizeGb": BOOT_GB,
            "labels": settings.labels,
        },
    }


def _nic(settings: ResolvedSettings, vpc: Vpc, subnet: str) -> dict[str, Plain]:
    nic: dict[str, Plain] = {
        "network": f"projects/{settings.project}/global/networks/{vpc.name}",
        "subnetwork": f"projects/{settings.project}/regions/{settings.region}/subnetworks/{subnet}",
        "nicType": vpc.nic_type,
    }
    if vpc.profile.endswith("metal"):
        nic["stackType"] = "IPV6_ONLY"
    return nic


def _scheduling(blueprint: Blueprint, settings: ResolvedSettings) -> dict[str, Plain]:
    is_permanent = blueprint.consumption in ("on-demand", "reservation")
    limit: dict[str, Plain] = {"maxRunDuration": {"seconds": str(min(settings.ttl_s, MAX_RUN_S))}}
    if has_fixed_end(blueprint, settings):
        # A duration would begin again for every machine that the group recreates.
        end = datetime.datetime.fromtimestamp(end_time_s(settings), tz=datetime.UTC)
        limit = {"terminationTime": end.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {
        "provisioningModel": _provisioning_model(blueprint),
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": blueprint.shape == "workstations" and is_permanent,
        **limit,
        "instanceTerminationAction": "DELETE",
    }


def _provisioning_model(blueprint: Blueprint) -> str:
    # On-demand reservations are consumed by STANDARD machines.
    options = blueprint.machine.consumption
    is_bound = "yes" in (options.calendar_reservation, options.future_reservation)
    if blueprint.consumption == "reservation" and not is_bound:
        return "STANDARD"
    return MODELS[blueprint.consumption or "on-demand"]


def _reservation_affinity(blueprint: Blueprint, settings: ResolvedSettings) -> dict[str, Plain]:
    if blueprint.consumption == "reservation":
        values: list[Plain] = [settings.requested.reservation]
        return {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": values,
        }
    if blueprint.consumption in ("flex-start", "spot"):
        return {"consumeReservationType": "NO_RESERVATION"}
    return {}
