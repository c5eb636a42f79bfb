"""Node selection of pods: labels, tolerations, and the accelerator resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.invariants.facts import MachineFabric, read_facts
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.launch.tpu_slices import slices_of
from gpuyard.provision.platforms.google_machine_types import attaches_gpus
from gpuyard.provision.platforms.manifests.text import Object

GPU = "nvidia.com/gpu"
TPU = "google.com/tpu"
AMD = "amd.com/gpu"
CPU = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNodes:
    """The nodes that the pods of a blueprint select."""

    selector: Object
    tolerations: tuple[Object, ...]
    resource: str
    fabric: Annotated[
        MachineFabric | None, Doc("Google's GPU fabric, if pods communicate over it")
    ] = None
    claims: Annotated[bool, Doc("RDMA NICs come from resource claims (DRA)")] = False
    is_onprem: Annotated[bool, Doc("on-premises machines")] = False
    with_rdma: Annotated[bool, Doc("on-premises, and pods communicate over RDMA")] = False
    domain_machines: Annotated[
        int | None, Doc("machines per NVLink domain, if pods communicate")
    ] = None
    priority: Annotated[str, Doc("PriorityClass of the pods; empty: the default")] = ""


def uses_claims(fabric: MachineFabric, settings: ResolvedSettings) -> bool:
    """Return whether RDMA NICs come from managed DRANET: by default on every RDMA fabric."""
    if fabric.technology != "roce":
        return False
    return fabric.needs_claims or settings.requested.claims is not False


def nodes_of(blueprint: Blueprint, settings: ResolvedSettings, *, joined: bool = False) -> PodNodes:
    """Return the nodes, by GKE's labels or by those of the GPU operator.

    `joined`: all pods communicate, whatever the shape of the workload.
    """
    machine = blueprint.machine
    is_multi_node = joined or blueprint.shape == "multi-node"
    if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
        is_multi_node = True
    if machine.provider != "google":
        amd = blueprint.chip is not None and blueprint.chip.vendor == "AMD"
        selector: Object = {} if amd else {"nvidia.com/gpu.present": "true"}
        resource = AMD if amd else GPU
        return PodNodes(
            selector=selector,
            tolerations=({"key": resource, "operator": "Exists", "effect": "NoSchedule"},),
            resource=resource,
            is_onprem=True,
            with_rdma=is_multi_node,
        )
    if blueprint.is_tpu:
        return _tpu_nodes(blueprint, settings)
    if not machine.is_accelerated:
        return PodNodes(
            selector={
                "node.kubernetes.io/instance-type": machine.name,
                **_consumption_labels(blueprint, settings),
            },
            tolerations=_consumption_tolerations(blueprint),
            resource=CPU,
        )
    machine_fabric = read_facts().fabric(machine.name)
    fabric = machine_fabric if is_multi_node else None
    selector = {"cloud.google.com/gke-accelerator": machine.api_name}
    if not attaches_gpus(machine):
        selector["node.kubernetes.io/instance-type"] = machine.name
    tolerations: list[Object] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    if machine_fabric is not None and machine_fabric.architecture == "arm64":
        selector["kubernetes.io/arch"] = "arm64"
        tolerations.append(
            {"key": "kubernetes.io/arch", "operator": "Exists", "effect": "NoSchedule"}
        )
    return PodNodes(
        selector={**selector, **_consumption_labels(blueprint, settings)},
        tolerations=(*tolerations, *_consumption_tolerations(blueprint)),
        resource=GPU,
        fabric=fabric,
        claims=fabric is not None and uses_claims(fabric, settings),
        domain_machines=fabric.domain_node_count if fabric else None,
    )


def _tpu_nodes(blueprint: Blueprint, settings: ResolvedSettings) -> PodNodes:
    slices = slices_of(blueprint)
    assert not isinstance(slices, Infeasible), "kubernetes_obstacle comes first"
    selector: Object = {
        "cloud.google.com/gke-tpu-accelerator": slices.generation.label,
        "cloud.google.com/gke-tpu-topology": slices.topology,
        **_consumption_labels(blueprint, settings),
    }
    toleration: Object = {"key": TPU, "operator": "Exists", "effect": "NoSchedule"}
    return PodNodes(
        selector=selector,
        tolerations=(toleration, *_consumption_tolerations(blueprint)),
        resource=TPU,
    )


def _consumption_labels(blueprint: Blueprint, settings: ResolvedSettings) -> Object:
    reservation: Plain = settings.requested.reservation.split("/")[0]
    labels: dict[str, Object] = {
        "spot": {"cloud.google.com/gke-spot": "true"},
        "flex-start": {"cloud.google.com/gke-flex-start": "true"},
        "reservation": {"cloud.google.com/reservation-name": reservation},
    }
    return labels.get(blueprint.consumption or "", {})


def _consumption_tolerations(blueprint: Blueprint) -> tuple[Object, ...]:
    keys = {"spot": ("cloud.google.com/gke-spot",), "flex-start": ("cloud.google.com/gke-queued",)}
    return tuple(
        {"key": key, "operator": "Exists", "effect": "NoSchedule"}
        for key in keys.get(blueprint.consumption or "", ())
    )
