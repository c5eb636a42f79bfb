"""Request body of a Cluster Director cluster: capacity, network, storage, Slurm."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.platforms.google_machine_types import boot_disk

NODES = "gpus"  # the id of a node set: letters and digits, at most 15
PARTITION = "gpu"
HOME = "home"
LOGIN_MACHINE = "n2-standard-8"
# Minimum of a zonal Filestore (https://docs.cloud.google.com/filestore/docs/service-tiers).
HOME_GB = "1024"
LOGIN_DISK_GB = "100"
NODE_DISK_GB = "200"


def cluster_id(settings: ResolvedSettings) -> str:
    """Return the id of the cluster: at most ten letters and digits."""
    return f"g{settings.hash[:8]}"


def cluster_body(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, count: int
) -> dict[str, Plain]:
    """Return the cluster; its GPU nodes exist only while a job runs."""
    folders = ((HOME, "/home"), *((mount.name, mount.path) for mount in launch.mounts))
    mounts: list[Plain] = [{"id": name, "localMount": path} for name, path in folders]
    node_set: dict[str, Plain] = {
        "id": NODES,
        "computeId": NODES,
        "maxDynamicNodeCount": str(count),
        "storageConfigs": mounts,
        "computeInstance": {
            "labels": settings.labels,
            "bootDisk": {
                "sizeGb": NODE_DISK_GB,
                "type": _disk(settings, boot_disk(blueprint.machine)),
            },
        },
    }
    return {
        "description": settings.labels_text,
        "labels": settings.labels,
        "computeResources": {NODES: {"config": _capacity(blueprint, settings)}},
        "networkResources": {"net": {"config": _network(settings)}},
        "storageResources": _storage(settings, launch),
        "orchestrator": {
            "slurm": {
                "loginNodes": _login(settings, mounts),
                "nodeSets": [node_set],
                "partitions": [{"id": PARTITION, "nodeSetIds": [NODES]}],
            }
        },
    }


def _capacity(blueprint: Blueprint, settings: ResolvedSettings) -> dict[str, Plain]:
    machine: dict[str, Plain] = {"machineType": blueprint.machine.name, "zone": settings.zone}
    if blueprint.consumption == "reservation":
        name = settings.requested.reservation.split("/")[
            0
        ]  # version 1 of the API cannot name a block
        link = f"projects/{settings.project}/zones/{settings.zone}/reservations/{name}"
        return {"newReservedInstances": {"reservation": link}}
    if blueprint.consumption == "flex-start":
        return {"newFlexStartInstances": {**machine, "maxDuration": f"{settings.ttl_s}s"}}
    if blueprint.consumption == "spot":
        return {"newSpotInstances": {**machine, "terminationAction": "DELETE"}}
    return {"newOnDemandInstances": machine}


def _network(settings: ResolvedSettings) -> dict[str, Plain]:
    # The host network; Cluster Director creates the GPU fabric itself.
    existing = settings.requested.network
    if existing:
        link = f"projects/{settings.project}/regions/{settings.region}/subnetworks/{existing}"
        return {
            "existingNetwork": {
                "network": f"projects/{settings.project}/global/networks/{existing}",
                "subnetwork": link,
            }
        }
    name = f"projects/{settings.project}/global/networks/{settings.name}-net"
    return {"newNetwork": {"network": name, "description": settings.labels_text}}


def _storage(settings: ResolvedSettings, launch: Launch) -> dict[str, Plain]:
    home: dict[str, Plain] = {
        "newFilestore": {
            "filestore": f"projects/{settings.project}/locations/{settings.zone}/instances/"
            f"{settings.name}-home",
            "tier": "ZONAL",
            "description": settings.labels_text,
            "fileShares": [{"capacityGb": HOME_GB, "fileShare": HOME}],
        }
    }
    buckets: dict[str, Plain] = {
        mount.name: {"config": {"existingBucket": {"bucket": mount.bucket}}}
        for mount in launch.mounts
    }
    return {HOME: {"config": home}, **buckets}


def _login(settings: ResolvedSettings, mounts: list[Plain]) -> dict[str, Plain]:
    # No public address: users log in through Identity-Aware Proxy.
    return {
        "count": "1",
        "machineType": LOGIN_MACHINE,
        "zone": settings.zone,
        "enableOsLogin": True,
        "enablePublicIps": False,
        "labels": settings.labels,
        "bootDisk": {"sizeGb": LOGIN_DISK_GB, "type": _disk(settings, "pd-balanced")},
        "storageConfigs": mounts,
    }


def _disk(settings: ResolvedSettings, kind: str) -> str:
    return f"projects/{settings.project}/zones/{settings.zone}/diskTypes/{kind}"
