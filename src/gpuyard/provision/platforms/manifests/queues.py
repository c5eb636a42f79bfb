"""Kueue: topology, flavor, queues, and the check that asks for machines by flex-start."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.platforms.manifests.nodes import CPU, Nodes
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.settings import Place

__all__ = ["queue_objects"]

API = "kueue.x-k8s.io/v1beta2"
LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)


def queue_objects(blueprint: Blueprint, place: Place, nodes: Nodes, *, topology: bool) -> Iterator[Object]:
    """A queue with the quota of the blueprint; `topology` lets it place pods near each other."""
    waits = blueprint.way == "flex-start" and not nodes.is_own
    levels: list[Plain] = [{"nodeLabel": label} for label in LEVELS]
    if topology:
        yield _object("Topology", place, {"levels": levels})
    flavor: Object = {"nodeLabels": nodes.selector, "tolerations": list(nodes.tolerations)}
    if topology:
        flavor["topologyName"] = place.name
    yield _object("ResourceFlavor", place, flavor)
    if waits:
        yield from _check(place, nodes)
    each = blueprint.machine.chip_count if nodes.resource != CPU else blueprint.machine.vcpu_count or 0
    quota = str(int(blueprint.machine_count * each))
    spec: Object = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": [nodes.resource],
                "flavors": [{"name": place.name, "resources": [{"name": nodes.resource, "nominalQuota": quota}]}],
            }
        ],
    }
    if waits:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": place.name}]}
    yield _object("ClusterQueue", place, spec)
    local = _object("LocalQueue", place, {"clusterQueue": place.name})
    local["metadata"] = {"name": place.name, "namespace": place.settings.namespace, "labels": place.labels}
    yield local


def _check(place: Place, nodes: Nodes) -> Iterator[Object]:
    """Flex-start by queued provisioning: the job starts when all its machines are there."""
    config: Object = {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": [nodes.resource],
        "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60},
    }
    yield _object("ProvisioningRequestConfig", place, config)
    reference: Object = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": place.name}
    yield _object(
        "AdmissionCheck", place, {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference}
    )


def _object(kind: str, place: Place, spec: Object) -> Object:
    """An object of Kueue, of the whole cluster."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": place.name, "labels": place.labels}, "spec": spec}
