"""Where pods land: the labels of the nodes, what they tolerate, and the resource that holds the accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.blueprint import Blueprint
from gpuyard.document import Doc, Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.invariants.facts import Fabric, read_facts
from gpuyard.provision.launch import machines_per_replica
from gpuyard.provision.platforms.machines import attaches_gpus
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.platforms.slices import slices_of
from gpuyard.provision.settings import Place

__all__ = ["CPU", "GPU", "TPU", "Nodes", "nodes_of", "uses_claims"]

GPU, TPU, AMD, CPU = "nvidia.com/gpu", "google.com/tpu", "amd.com/gpu", "cpu"
CLAIMS_FROM = "roce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of a blueprint, as pods ask for them."""

    selector: Object
    tolerations: tuple[Object, ...]
    resource: str
    fabric: Annotated[Fabric | None, Doc("set where pods work together over a fabric of Google's")] = None
    claims: Annotated[bool, Doc("RDMA NICs come by resource claims")] = False
    is_own: Annotated[bool, Doc("machines of your own")] = False
    with_rdma: Annotated[bool, Doc("own machines whose pods work together over RDMA")] = False
    domain_machines: Annotated[int | None, Doc("machines of one NVLink domain, where pods work together")] = None


def uses_claims(fabric: Fabric, place: Place) -> bool:
    """Whether RDMA NICs come by managed DRANET: as told, otherwise wherever the fabric is RDMA."""
    if fabric.technology != CLAIMS_FROM:
        return False
    return fabric.needs_claims or place.settings.claims is not False


def nodes_of(blueprint: Blueprint, place: Place, *, joined: bool = False) -> Nodes:
    """The nodes: of GKE by its labels, of your own hall by the GPU operator's; `joined`: all work together."""
    machine = blueprint.machine
    together = (
        joined
        or blueprint.shape == "multi-node"
        or (blueprint.shape == "service" and machines_per_replica(blueprint) > 1)
    )
    if machine.provider != "google":
        amd = blueprint.chip is not None and blueprint.chip.vendor == "AMD"
        selector: Object = {} if amd else {"nvidia.com/gpu.present": "true"}
        resource = AMD if amd else GPU
        return Nodes(
            selector=selector,
            tolerations=({"key": resource, "operator": "Exists", "effect": "NoSchedule"},),
            resource=resource,
            is_own=True,
            with_rdma=together,
        )
    if blueprint.is_tpu:
        return _tpu_nodes(blueprint, place)
    if not machine.is_accelerated:
        return Nodes(
            selector={"node.kubernetes.io/instance-type": machine.name, **_offer(blueprint, place)},
            tolerations=_offer_tolerations(blueprint),
            resource=CPU,
        )
    fabric = read_facts().fabric(machine.name) if together else None
    selector = {"cloud.google.com/gke-accelerator": machine.api_name}
    if not attaches_gpus(machine):
        selector["node.kubernetes.io/instance-type"] = machine.name
    tolerations: list[Object] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    known = read_facts().fabric(machine.name)
    if known is not None and known.architecture == "arm64":
        selector["kubernetes.io/arch"] = "arm64"
        tolerations.append({"key": "kubernetes.io/arch", "operator": "Exists", "effect": "NoSchedule"})
    return Nodes(
        selector={**selector, **_offer(blueprint, place)},
        tolerations=(*tolerations, *_offer_tolerations(blueprint)),
        resource=GPU,
        fabric=fabric,
        claims=fabric is not None and uses_claims(fabric, place),
        domain_machines=fabric.domain_node_count if fabric else None,
    )


def _tpu_nodes(blueprint: Blueprint, place: Place) -> Nodes:
    """Nodes of a TPU slice."""
    slices = slices_of(blueprint)
    assert not isinstance(slices, Infeasible), "the platform asks first"
    selector: Object = {
        "cloud.google.com/gke-tpu-accelerator": slices.generation.label,
        "cloud.google.com/gke-tpu-topology": slices.topology,
        **_offer(blueprint, place),
    }
    toleration: Object = {"key": TPU, "operator": "Exists", "effect": "NoSchedule"}
    return Nodes(selector=selector, tolerations=(toleration, *_offer_tolerations(blueprint)), resource=TPU)


def _offer(blueprint: Blueprint, place: Place) -> Object:
    """The label by which GKE tells nodes of an offer."""
    reservation: Plain = place.settings.reservation.split("/")[0]
    labels: dict[str, Object] = {
        "spot": {"cloud.google.com/gke-spot": "true"},
        "flex-start": {"cloud.google.com/gke-flex-start": "true"},
        "reservation": {"cloud.google.com/reservation-name": reservation},
    }
    return labels.get(blueprint.way or "", {})


def _offer_tolerations(blueprint: Blueprint) -> tuple[Object, ...]:
    """What a pod tolerates on such nodes."""
    keys = {"spot": ("cloud.google.com/gke-spot",), "flex-start": ("cloud.google.com/gke-queued",)}
    return tuple(
        {"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys.get(blueprint.way or "", ())
    )
