"""Node pools: machines, offer, lifetime, networks, placement, and the slices of TPUs."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.invariants.facts import Fabric
from gpuyard.provision.launch import machines_per_replica
from gpuyard.provision.platforms.machines import COMPACT_FLEX, boot_disk, machine_type
from gpuyard.provision.platforms.manifests import Nodes, Object, replica_bounds
from gpuyard.provision.platforms.slices import Slices
from gpuyard.provision.platforms.vpc import Vpc, subnets_of
from gpuyard.provision.settings import Place

__all__ = ["POOL", "most_nodes", "pool_body", "slice_pool_body"]

POOL = "work"
BOOT_GB = 200
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
SSD_BYTES = 375 * 2**30
SSD_SERIES = ("A3 High", "A3 Mega", "A3 Edge", "A3 Ultra", "A4", "A2 Ultra")  # of disks of 375 GiB, counted one by one


def most_nodes(blueprint: Blueprint) -> int:
    """The most machines that the pool may have."""
    if blueprint.shape == "service":
        return replica_bounds(blueprint)[1] * machines_per_replica(blueprint)
    return blueprint.machine_count


def pool_body(blueprint: Blueprint, place: Place, nodes: Nodes, vpcs: tuple[Vpc, ...]) -> Object:
    """A pool of machines with GPUs."""
    fabric, flex = nodes.fabric, blueprint.way == "flex-start"
    together = blueprint.shape == "multi-node"
    pool: Object = {
        "name": POOL,
        "locations": [place.zone],
        "initialNodeCount": blueprint.machine_count if together and not flex else 0,
        "autoscaling": {
            "enabled": True,
            "totalMinNodeCount": 0,
            "totalMaxNodeCount": most_nodes(blueprint),
            "locationPolicy": "ANY",
        },
        "management": {"autoRepair": not flex, "autoUpgrade": True},
        "config": _config(blueprint, place, nodes),
        "networkConfig": _networks(nodes, vpcs),
    }
    if flex and together:
        pool["queuedProvisioning"] = {"enabled": True}
    elif together and fabric is not None and _is_near(blueprint, fabric):
        pool["placementPolicy"] = {"type": "COMPACT"}
    return pool


def _is_near(blueprint: Blueprint, fabric: Fabric) -> bool:
    """Whether machines are asked to stand together; a reservation and an NVLink domain see to it themselves."""
    if blueprint.way == "reservation" or fabric.domain_node_count:
        return False
    return blueprint.way != "flex-start" or blueprint.machine.series in COMPACT_FLEX


def _networks(nodes: Nodes, vpcs: tuple[Vpc, ...]) -> Object:
    """Private nodes; data NICs by the automatic profile, or one network each."""
    body: Object = {"enablePrivateNodes": True}
    if nodes.claims:
        body["acceleratorNetworkProfile"] = "auto"
    elif nodes.fabric is not None:
        body["additionalNodeNetworkConfigs"] = [
            {"network": vpc.name, "subnetwork": subnet.name} for vpc, subnet in list(subnets_of(vpcs))[1:]
        ]
    return body


def _config(blueprint: Blueprint, place: Place, nodes: Nodes) -> Object:
    """The machine."""
    machine = blueprint.machine
    body: Object = {"machineType": machine_type(machine), "diskType": boot_disk(machine), **_shared(blueprint, place)}
    if machine.api_name and machine.chip_count >= 1:
        driver: Object = {"gpuDriverVersion": "LATEST"}
        body["accelerators"] = [
            {
                "acceleratorType": machine.api_name,
                "acceleratorCount": str(int(machine.chip_count)),
                "gpuDriverInstallationConfig": driver,
            }
        ]
        body["taints"] = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    if machine.series in SSD_SERIES and machine.local_ssd_mode == "attached" and machine.local_ssd_bytes:
        body["ephemeralStorageLocalSsdConfig"] = {"localSsdCount": round(machine.local_ssd_bytes / SSD_BYTES)}
    if nodes.claims:
        labels: Object = {"cloud.google.com/gke-networking-dra-driver": "true"}
        body["labels"] = labels
    return body


def _shared(blueprint: Blueprint, place: Place) -> Object:
    """What GPU and TPU machines have alike: offer, lifetime, labels, identity."""
    body: Object = {
        "diskSizeGb": BOOT_GB,
        "gvnic": {"enabled": True},
        "maxRunDuration": f"{place.ttl_s}s",
        "resourceLabels": place.labels,
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }
    if place.settings.service_account:
        body["serviceAccount"] = place.settings.service_account
    if blueprint.way == "spot":
        body["spot"] = True
    if blueprint.way == "flex-start":
        body["flexStart"] = True
        body["reservationAffinity"] = {"consumeReservationType": "NO_RESERVATION"}
    if blueprint.way == "reservation":
        values: list[Plain] = [place.settings.reservation]
        body["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": values,
        }
    return body


def slice_pool_body(blueprint: Blueprint, place: Place, slices: Slices, index: int, policy: str) -> Object:
    """A pool of TPUs: one slice of several machines, or single machines that come and go."""
    flex, hosts = blueprint.way == "flex-start", slices.machines_per_slice
    config: Object = {"machineType": blueprint.machine.name, **_shared(blueprint, place)}
    if boot_disk(blueprint.machine).startswith("hyperdisk"):
        config["diskType"] = boot_disk(blueprint.machine)
    single = hosts == 1
    most = most_nodes(blueprint) if single and blueprint.shape == "service" else hosts
    pool: Object = {
        "name": f"{POOL}-{index}",
        "locations": [place.zone],
        "initialNodeCount": 0 if flex or single else hosts,
        "autoscaling": {
            "enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": most, "locationPolicy": "ANY",
        },
        "management": {"autoRepair": not flex, "autoUpgrade": True},
        "config": config,
        "networkConfig": {"enablePrivateNodes": True},
    }  # fmt: skip
    if policy:
        pool["placementPolicy"] = {"type": "COMPACT", "policyName": policy}
    elif not single:
        pool["placementPolicy"] = {"type": "COMPACT", "tpuTopology": slices.topology}
    return pool
