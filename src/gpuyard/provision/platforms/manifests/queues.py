"""Kueue objects: topology, flavor, queues, and the flex-start admission check."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.platforms.manifests.nodes import CPU, PodNodes
from gpuyard.provision.platforms.manifests.pods import metadata
from gpuyard.provision.platforms.manifests.text import Object

API = "kueue.x-k8s.io/v1beta2"
LEVELS = (
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "kubernetes.io/hostname",
)


def queue_objects(
    blueprint: Blueprint, settings: ResolvedSettings, nodes: PodNodes, *, topology: bool
) -> Iterator[Object]:
    """Yield a queue with the blueprint's quota; `topology` makes its placement topology-aware."""
    is_queued = blueprint.consumption == "flex-start" and not nodes.is_onprem
    levels: list[Plain] = [{"nodeLabel": label} for label in LEVELS]
    if topology:
        yield _object("Topology", settings, {"levels": levels})
    flavor: Object = {"nodeLabels": nodes.selector, "tolerations": list(nodes.tolerations)}
    if topology:
        flavor["topologyName"] = settings.name
    yield _object("ResourceFlavor", settings, flavor)
    if is_queued:
        yield from _admission_check(settings, nodes)
    quotas = _quotas(blueprint, nodes)
    spec: Object = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": [*quotas],
                "flavors": [
                    {
                        "name": settings.name,
                        "resources": [
                            {"name": name, "nominalQuota": quota} for name, quota in quotas.items()
                        ],
                    }
                ],
            }
        ],
    }
    if is_queued:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": settings.name}]}
    yield _object("ClusterQueue", settings, spec)
    local_queue = _object("LocalQueue", settings, {"clusterQueue": settings.name})
    local_queue["metadata"] = metadata(settings)
    yield local_queue


def _quotas(blueprint: Blueprint, nodes: PodNodes) -> dict[str, str]:
    # Kueue admits a job only if its queue covers every resource that the pods request.
    machine, count = blueprint.machine, blueprint.machine_count
    quotas = {nodes.resource: str(int(count * machine.chip_count))}
    if machine.vcpu_count:
        quotas[CPU] = str(int(count * machine.vcpu_count))
    if machine.memory_bytes:
        quotas["memory"] = f"{int(count * machine.memory_bytes / 2**30)}Gi"
    return quotas


def _admission_check(settings: ResolvedSettings, nodes: PodNodes) -> Iterator[Object]:
    # Flex-start with queued provisioning: the job starts when all its machines are available.
    config: Object = {
        "provisioningClassName": "queued-provisioning.gke.io",
        "managedResources": [nodes.resource],
        "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60},
    }
    yield _object("ProvisioningRequestConfig", settings, config)
    reference: Object = {
        "apiGroup": "kueue.x-k8s.io",
        "kind": "ProvisioningRequestConfig",
        "name": settings.name,
    }
    yield _object(
        "AdmissionCheck",
        settings,
        {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference},
    )


def _object(kind: str, settings: ResolvedSettings, spec: Object) -> Object:
    # Cluster-scoped: no namespace.
    return {
        "apiVersion": API,
        "kind": kind,
        "metadata": {"name": settings.name, "labels": settings.labels},
        "spec": spec,
    }
