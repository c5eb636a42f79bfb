"""Node pools: machines, consumption option, TTL, networks, placement, TPU slices."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.launch.tpu_slices import Slices
from gpuyard.provision.platforms.google_machine_types import COMPACT_FLEX, boot_disk, machine_type
from gpuyard.provision.platforms.manifests.disaggregated import is_disaggregated
from gpuyard.provision.platforms.manifests.expiry import has_end
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.services import replica_bounds
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vpc import Vpc, subnets_of

POOL = "work"
BOOT_GB = 200
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
SSD_BYTES = 375 * 2**30
# Series whose local SSDs are requested as a number of 375 GiB disks.
SSD_SERIES = ("A3 High", "A3 Mega", "A3 Edge", "A3 Ultra", "A4", "A2 Ultra")


def pool_request(settings: ResolvedSettings, pool: Object, what: str) -> Request:
    """Return the request for a node pool."""
    name = str(pool["name"])
    return Request(
        file=f"30-pool-{name}.json",
        what=what,
        method="container.projects.locations.clusters.nodePools.create",
        parameters={
            "projectsId": settings.project,
            "locationsId": settings.region,
            "clustersId": settings.name,
        },
        body={"nodePool": pool},
        resource=name,
    )


def max_nodes(blueprint: Blueprint) -> int:
    """Return the maximum number of nodes in the pool."""
    if is_disaggregated(blueprint):
        return blueprint.machine_count
    if blueprint.shape == "service":
        return replica_bounds(blueprint)[1] * machines_per_replica(blueprint)
    return blueprint.machine_count


def pool_body(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes, vpcs: tuple[Vpc, ...]
) -> Object:
    """Return a node pool of GPU machines."""
    is_flex = blueprint.consumption == "flex-start"
    is_multi_node = blueprint.shape == "multi-node"
    pool: Object = {
        "name": POOL,
        "locations": [settings.zone],
        "initialNodeCount": blueprint.machine_count if is_multi_node and not is_flex else 0,
        "autoscaling": {
            "enabled": True,
            "totalMinNodeCount": 0,
            "totalMaxNodeCount": max_nodes(blueprint),
            "locationPolicy": "ANY",
        },
        "management": {"autoRepair": not is_flex, "autoUpgrade": True},
        "config": _config(blueprint, settings, nodes),
        "networkConfig": _networks(nodes, vpcs),
    }
    if is_flex and is_multi_node:
        pool["queuedProvisioning"] = {"enabled": True}
    elif is_multi_node and nodes.fabric is not None and _is_compact(blueprint, nodes.fabric):
        pool["placementPolicy"] = {"type": "COMPACT"}
    return pool


def _is_compact(blueprint: Blueprint, fabric: MachineFabric) -> bool:
    # Reservations and NVLink domains have their own placement.
    if blueprint.consumption == "reservation" or fabric.domain_node_count:
        return False
    return blueprint.consumption != "flex-start" or blueprint.machine.series in COMPACT_FLEX


def _networks(nodes: PodNodes, vpcs: tuple[Vpc, ...]) -> Object:
    # Data NICs come from the automatic profile, or from one network each.
    body: Object = {"enablePrivateNodes": True}
    if nodes.claims:
        body["acceleratorNetworkProfile"] = "auto"
    elif nodes.fabric is not None:
        body["additionalNodeNetworkConfigs"] = [
            {"network": vpc.name, "subnetwork": subnet.name}
            for vpc, subnet in list(subnets_of(vpcs))[1:]
        ]
    return body


def _config(blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes) -> Object:
    machine = blueprint.machine
    body: Object = {
        "machineType": machine_type(machine),
        "diskType": boot_disk(machine),
        **_common_config(blueprint, settings),
    }
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
    if (
        machine.series in SSD_SERIES
        and machine.local_ssd_mode == "attached"
        and machine.local_ssd_bytes
    ):
        body["ephemeralStorageLocalSsdConfig"] = {
            "localSsdCount": round(machine.local_ssd_bytes / SSD_BYTES)
        }
    if nodes.claims:
        labels: Object = {"cloud.google.com/gke-networking-dra-driver": "true"}
        body["labels"] = labels
    return body


def _run_duration(blueprint: Blueprint, settings: ResolvedSettings) -> Object:
    # A service ends by its CronJob: nodes with a run duration would only be replaced.
    is_service = blueprint.shape == "service" and has_end(settings)
    if is_service and blueprint.consumption != "flex-start":
        return {}
    return {"maxRunDuration": f"{settings.ttl_s}s"}


def _common_config(blueprint: Blueprint, settings: ResolvedSettings) -> Object:
    body: Object = {
        "diskSizeGb": BOOT_GB,
        "gvnic": {"enabled": True},
        **_run_duration(blueprint, settings),
        "resourceLabels": settings.labels,
        "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},
    }
    if settings.requested.service_account:
        body["serviceAccount"] = settings.requested.service_account
    if blueprint.consumption == "spot":
        body["spot"] = True
    if blueprint.consumption == "flex-start":
        body["flexStart"] = True
        body["reservationAffinity"] = {"consumeReservationType": "NO_RESERVATION"}
    if blueprint.consumption == "reservation":
        values: list[Plain] = [settings.requested.reservation]
        body["reservationAffinity"] = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": RESERVATION_KEY,
            "values": values,
        }
    return body


def slice_pool_body(
    blueprint: Blueprint, settings: ResolvedSettings, slices: Slices, index: int, policy: str
) -> Object:
    """Return a TPU node pool: one multi-host slice, or autoscaled single-host machines."""
    is_flex = blueprint.consumption == "flex-start"
    hosts = slices.machines_per_slice
    is_single_host = hosts == 1
    config: Object = {"machineType": blueprint.machine.name, **_common_config(blueprint, settings)}
    if boot_disk(blueprint.machine).startswith("hyperdisk"):
        config["diskType"] = boot_disk(blueprint.machine)
    is_scaled = is_single_host and blueprint.shape == "service"
    pool: Object = {
        "name": f"{POOL}-{index}",
        "locations": [settings.zone],
        "initialNodeCount": 0 if is_flex or is_single_host else hosts,
        "autoscaling": {
            "enabled": True,
            "totalMinNodeCount": 0,
            "totalMaxNodeCount": max_nodes(blueprint) if is_scaled else hosts,
            "locationPolicy": "ANY",
        },
        "management": {"autoRepair": not is_flex, "autoUpgrade": True},
        "config": config,
        "networkConfig": {"enablePrivateNodes": True},
    }
    if policy:
        pool["placementPolicy"] = {"type": "COMPACT", "policyName": policy}
    elif not is_single_host:
        pool["placementPolicy"] = {"type": "COMPACT", "tpuTopology": slices.topology}
    return pool
