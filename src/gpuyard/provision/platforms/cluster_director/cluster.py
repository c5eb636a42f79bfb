"""The body of a Cluster Director cluster: capacity, network, storage, Slurm."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import Launch
from gpuyard.provision.platforms.machines import boot_disk
from gpuyard.provision.settings import Place

__all__ = ["NODES", "PARTITION", "cluster_body", "cluster_id"]

NODES, PARTITION, HOME = "gpus", "gpu", "home"  # a node set's id takes letters and digits, 15 at most
LOGIN_MACHINE = "n2-standard-8"
HOME_GB = "1024"  # the least of a zonal Filestore (https://docs.cloud.google.com/filestore/docs/service-tiers)
LOGIN_DISK_GB, NODE_DISK_GB = "100", "200"


def cluster_id(place: Place) -> str:
    """The cluster's id: ten letters and digits at most."""
    return f"g{place.hash[:8]}"


def cluster_body(blueprint: Blueprint, place: Place, launch: Launch, count: int) -> dict[str, Plain]:
    """The whole cluster; its GPU nodes come with the job and go with it."""
    folders = ((HOME, "/home"), *((mount.name, mount.path) for mount in launch.mounts))
    mounts: list[Plain] = [{"id": name, "localMount": path} for name, path in folders]
    node_set: dict[str, Plain] = {
        "id": NODES,
        "computeId": NODES,
        "maxDynamicNodeCount": str(count),
        "storageConfigs": mounts,
        "computeInstance": {
            "labels": place.labels,
            "bootDisk": {"sizeGb": NODE_DISK_GB, "type": _disk(place, boot_disk(blueprint.machine))},
        },
    }
    return {
        "description": place.stamp,
        "labels": place.labels,
        "computeResources": {NODES: {"config": _capacity(blueprint, place)}},
        "networkResources": {"net": {"config": _network(place)}},
        "storageResources": _storage(place, launch),
        "orchestrator": {
            "slurm": {
                "loginNodes": _login(place, mounts),
                "nodeSets": [node_set],
                "partitions": [{"id": PARTITION, "nodeSetIds": [NODES]}],
            }
        },
    }


def _capacity(blueprint: Blueprint, place: Place) -> dict[str, Plain]:
    """How the machines are had: one of the four ways."""
    machine: dict[str, Plain] = {"machineType": blueprint.machine.name, "zone": place.zone}
    if blueprint.way == "reservation":
        name = place.settings.reservation.split("/")[0]  # version 1 names no block of it
        link = f"projects/{place.project}/zones/{place.zone}/reservations/{name}"
        return {"newReservedInstances": {"reservation": link}}
    if blueprint.way == "flex-start":
        return {"newFlexStartInstances": {**machine, "maxDuration": f"{place.ttl_s}s"}}
    if blueprint.way == "spot":
        return {"newSpotInstances": {**machine, "terminationAction": "DELETE"}}
    return {"newOnDemandInstances": machine}


def _network(place: Place) -> dict[str, Plain]:
    """A network of its own, or the one that was named; the GPU fabric is made by Cluster Director."""
    given = place.settings.network
    if given:
        link = f"projects/{place.project}/regions/{place.region}/subnetworks/{given}"
        return {"existingNetwork": {"network": f"projects/{place.project}/global/networks/{given}", "subnetwork": link}}
    name = f"projects/{place.project}/global/networks/{place.name}-net"
    return {"newNetwork": {"network": name, "description": place.stamp}}


def _storage(place: Place, launch: Launch) -> dict[str, Plain]:
    """Homes on Filestore, and the buckets of the job."""
    home: dict[str, Plain] = {
        "newFilestore": {
            "filestore": f"projects/{place.project}/locations/{place.zone}/instances/{place.name}-home",
            "tier": "ZONAL",
            "description": place.stamp,
            "fileShares": [{"capacityGb": HOME_GB, "fileShare": HOME}],
        }
    }
    buckets: dict[str, Plain] = {
        mount.name: {"config": {"existingBucket": {"bucket": mount.bucket}}} for mount in launch.mounts
    }
    return {HOME: {"config": home}, **buckets}


def _login(place: Place, mounts: list[Plain]) -> dict[str, Plain]:
    """One login node, reached through Google's tunnel only."""
    return {
        "count": "1",
        "machineType": LOGIN_MACHINE,
        "zone": place.zone,
        "enableOsLogin": True,
        "enablePublicIps": False,
        "labels": place.labels,
        "bootDisk": {"sizeGb": LOGIN_DISK_GB, "type": _disk(place, "pd-balanced")},
        "storageConfigs": mounts,
    }


def _disk(place: Place, kind: str) -> str:
    """A disk type by its full name."""
    return f"projects/{place.project}/zones/{place.zone}/diskTypes/{kind}"
