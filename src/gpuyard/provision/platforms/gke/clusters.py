"""The cluster, its networks as Kubernetes objects, and the requests that make both."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.provision.platforms.manifests import Nodes, Object, network_names
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vpc import Vpc, subnets_of
from gpuyard.provision.settings import Place

__all__ = ["VERSION", "cluster_request", "network_objects", "pool_request"]

VERSION = "1.35"  # its newest patch; new enough for every fabric, managed DRANET and TPU7x (Cluster Toolkit, 2026-06)
SYSTEM_MACHINE = "e2-standard-16"
METRICS = ("SYSTEM_COMPONENTS", "POD", "DEPLOYMENT", "DCGM", "JOBSET")


def cluster_request(place: Place, nodes: Nodes, vpc: Vpc) -> Request:
    """A private cluster with Dataplane V2, workload identity, the storage drivers and metrics of GPUs."""
    network: Object = {"datapathProvider": "ADVANCED_DATAPATH", "defaultEnablePrivateNodes": True}
    if nodes.fabric is not None and not nodes.claims:
        network["enableMultiNetworking"] = True
    cluster: Object = {
        "name": place.name,
        "description": place.stamp,
        "initialClusterVersion": VERSION,
        "releaseChannel": {"channel": "REGULAR"},
        "locations": [place.zone],
        "network": vpc.name,
        "subnetwork": vpc.subnets[0].name,
        "resourceLabels": place.labels,
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
        "workloadIdentityConfig": {"workloadPool": f"{place.project}.svc.id.goog"},
        "addonsConfig": {
            "gcsFuseCsiDriverConfig": {"enabled": True},
            "lustreCsiDriverConfig": {"enabled": True},
            "gcePersistentDiskCsiDriverConfig": {"enabled": True},
        },
        "monitoringConfig": {
            "componentConfig": {"enableComponents": list(METRICS)},
            "managedPrometheusConfig": {"enabled": True},
        },
        "nodePools": [_system_pool(place)],
    }
    return Request(
        file="20-cluster.json", what=f"GKE cluster {place.name}, private",
        method="container.projects.locations.clusters.create",
        parameters={"projectsId": place.project, "locationsId": place.region}, body={"cluster": cluster},
        resource=place.name,
    )  # fmt: skip


def _system_pool(place: Place) -> Object:
    """A small pool for controllers."""
    return {
        "name": "system",
        "initialNodeCount": 1,
        "autoscaling": {"enabled": True, "totalMinNodeCount": 0, "totalMaxNodeCount": 3, "locationPolicy": "ANY"},
        "config": {
            "machineType": SYSTEM_MACHINE,
            "resourceLabels": place.labels,
            "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"],
            "workloadMetadataConfig": {"mode": "GKE_METADATA"},
        },
    }


def pool_request(place: Place, pool: Object, what: str) -> Request:
    """A node pool of the cluster."""
    name = str(pool["name"])
    return Request(
        file=f"30-pool-{name}.json", what=what, method="container.projects.locations.clusters.nodePools.create",
        parameters={"projectsId": place.project, "locationsId": place.region, "clustersId": place.name},
        body={"nodePool": pool}, resource=name,
    )  # fmt: skip


def network_objects(place: Place, nodes: Nodes, vpcs: tuple[Vpc, ...]) -> Iterator[Object]:
    """The data networks as pods name them: parameters and Network, one pair a NIC."""
    if nodes.fabric is None or nodes.claims:
        return
    data = [(vpc, subnet) for vpc, subnet in subnets_of(vpcs) if vpc.is_fabric]
    mode = "RDMA" if nodes.fabric.network_profile else "NetDevice"
    for name, (vpc, subnet) in zip(network_names(nodes.fabric), data, strict=True):
        meta: Object = {"name": name, "labels": place.labels}
        yield {
            "apiVersion": "networking.gke.io/v1",
            "kind": "GKENetworkParamSet",
            "metadata": meta,
            "spec": {"vpc": vpc.name, "vpcSubnet": subnet.name, "deviceMode": mode},
        }
        reference: Object = {"group": "networking.gke.io", "kind": "GKENetworkParamSet", "name": name}
        yield {
            "apiVersion": "networking.gke.io/v1",
            "kind": "Network",
            "metadata": meta,
            "spec": {"type": "Device", "parametersRef": reference},
        }
