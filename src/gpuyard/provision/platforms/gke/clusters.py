"""GKE cluster requests, and the data networks as Kubernetes objects."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.platforms.manifests.fabric_setup import network_names
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vpc import Vpc, subnets_of

# New enough for every fabric, managed DRANET and TPU7x (Cluster Toolkit, 2026-06).
VERSION = "1.35"
SYSTEM_MACHINE = "e2-standard-16"
METRICS = ("SYSTEM_COMPONENTS", "POD", "DEPLOYMENT", "DCGM", "JOBSET")


def cluster_request(settings: ResolvedSettings, nodes: PodNodes, vpc: Vpc) -> Request:
    """Return the request for a private cluster.

    It has Dataplane V2, Workload Identity, storage drivers and GPU metrics.
    """
    network: Object = {"datapathProvider": "ADVANCED_DATAPATH", "defaultEnablePrivateNodes": True}
    if nodes.fabric is not None and not nodes.claims:
        network["enableMultiNetworking"] = True
    addons: Object = {
        "gcsFuseCsiDriverConfig": {"enabled": True},
        "lustreCsiDriverConfig": {"enabled": True},
        "gcePersistentDiskCsiDriverConfig": {"enabled": True},
    }
    if settings.requested.gateway:
        network["gatewayApiConfig"] = {"channel": "CHANNEL_STANDARD"}
        addons["httpLoadBalancing"] = {"disabled": False}
    cluster: Object = {
        "name": settings.name,
        "description": settings.labels_text,
        "initialClusterVersion": VERSION,
        "releaseChannel": {"channel": "REGULAR"},
        "locations": [settings.zone],
        "network": vpc.name,
        "subnetwork": vpc.subnets[0].name,
        "resourceLabels": settings.labels,
        "ipAllocationPolicy": {
            "useIpAliases": True,
            "clusterSecondaryRangeName": "pods",
            "servicesSecondaryRangeName": "services",
        },
        "networkConfig": network,
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"allowExternalTraffic": True},
            "ipEndpointsConfig": {"enabled": False},
        },
        "workloadIdentityConfig": {"workloadPool": f"{settings.project}.svc.id.goog"},
        "addonsConfig": addons,
        "monitoringConfig": {
            "componentConfig": {"enableComponents": list(METRICS)},
            "managedPrometheusConfig": {"enabled": True},
        },
        "nodePools": [_system_pool(settings)],
        **_maintenance(settings),
    }
    return Request(
        file="20-cluster.json",
        what=f"Create the private GKE cluster {settings.name}",
        method="container.projects.locations.clusters.create",
        parameters={"projectsId": settings.project, "locationsId": settings.region},
        body={"cluster": cluster},
        resource=settings.name,
    )


def _maintenance(settings: ResolvedSettings) -> Object:
    # Nodes are not upgraded before the TTL: an upgrade would interrupt the whole job
    # (Cluster Toolkit at 1047080, examples/gke-a3-ultragpu: NO_MINOR_OR_NODE_UPGRADES).
    start_s = settings.requested.rendered_s
    if not start_s:
        return {}
    times = [
        datetime.datetime.fromtimestamp(moment_s, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for moment_s in (start_s, start_s + settings.ttl_s)
    ]
    exclusion: Object = {
        "startTime": times[0],
        "endTime": times[1],
        "maintenanceExclusionOptions": {"scope": "NO_MINOR_OR_NODE_UPGRADES"},
    }
    return {"maintenancePolicy": {"window": {"maintenanceExclusions": {"until-ttl": exclusion}}}}


def _system_pool(settings: ResolvedSettings) -> Object:
    return {
        "name": "system",
        "initialNodeCount": 1,
        "autoscaling": {
            "enabled": True,
            "totalMinNodeCount": 0,
            "totalMaxNodeCount": 3,
            "locationPolicy": "ANY",
        },
        "config": {
            "machineType": SYSTEM_MACHINE,
            "resourceLabels": settings.labels,
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        },
    }


def network_objects(
    settings: ResolvedSettings, nodes: PodNodes, vpcs: tuple[Vpc, ...]
) -> Iterator[Object]:
    """Yield the data networks as Kubernetes objects: GKENetworkParamSet and Network per NIC."""
    if nodes.fabric is None or nodes.claims:
        return
    data = [(vpc, subnet) for vpc, subnet in subnets_of(vpcs) if vpc.is_fabric]
    mode = "RDMA" if nodes.fabric.network_profile else "NetDevice"
    for name, (vpc, subnet) in zip(network_names(nodes.fabric), data, strict=True):
        meta: Object = {"name": name, "labels": settings.labels}
        yield {
            "apiVersion": "networking.gke.io/v1",
            "kind": "GKENetworkParamSet",
            "metadata": meta,
            "spec": {"vpc": vpc.name, "vpcSubnet": subnet.name, "deviceMode": mode},
        }
        reference: Object = {
            "group": "networking.gke.io",
            "kind": "GKENetworkParamSet",
            "name": name,
        }
        yield {
            "apiVersion": "networking.gke.io/v1",
            "kind": "Network",
            "metadata": meta,
            "spec": {"type": "Device", "parametersRef": reference},
        }
