"""How an artefact asks for machines: which machine, under which offer, where, how close together, for how long."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.provision.part import Part, View, duration_s
from gpuyard.provision.validate.blueprint import BlueprintModule, blueprint_modules, resolved_setting

__all__ = ["Capacity", "CapacityKind", "find_capacities", "inner_views"]

CapacityKind = Literal["instance", "node-pool", "worker-pool", "endpoint", "director", "tpu", "gke-module", "vm-module"]
RESERVED = ("SPECIFIC_RESERVATION", "ANY_RESERVATION", "ANY_RESERVATION_THEN_FAIL")
NODESET = re.compile(r"schedmd-slurm-gcp-v\d+-nodeset(-tpu)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A request for machines. `offers` are the ways of paying that it names; none is on demand."""

    kind: CapacityKind
    view: View
    machine: str
    offers: tuple[str, ...]  # of reservation, flex-start, spot, queued
    affinity: str = ""  # as written, e.g. NO_RESERVATION
    reservations: tuple[str, ...] = ()
    reservation_key: str | None = None
    zones: tuple[str, ...] = ()
    is_compact: bool = False
    max_run_s: float | None = None
    has_end: bool = False  # the server itself ends it

    @property
    def part(self) -> Part:
        """The part that it stands in."""
        return self.view.part


def inner_views(part: Part) -> Iterator[tuple[str, View]]:
    """The objects of a body that rules know by name: `NodePool` also inside a cluster or a request."""
    kind, root = part.type.split(" ")[-1], part.root
    if part.kind != "google":
        return
    if kind == "CreateNodePoolRequest":
        yield "NodePool", root["nodePool"]
    elif kind in ("CreateClusterRequest", "Cluster") and part.type.startswith("container"):
        cluster = root["cluster"] if kind == "CreateClusterRequest" else root
        yield "Cluster", cluster
        yield from (("NodePool", pool) for pool in cluster["nodePools"].items)
    elif kind == "InstanceTemplate":
        yield "InstanceProperties", root["properties"]
    elif kind == "BulkInsertInstanceResource":
        yield "InstanceProperties", root["instanceProperties"]
    elif kind == "Instance" and part.type.startswith("compute"):
        yield "InstanceProperties", root
    elif kind == "Cluster" and part.type.startswith("hypercompute"):
        yield "DirectorCluster", root
    elif kind == "UploadModelRequest":
        yield "Model", root["model"]
    else:
        yield kind, root


def find_capacities(part: Part) -> Iterator[Capacity]:
    """Every request for machines in a part."""
    for kind, view in inner_views(part):
        if kind == "InstanceProperties":
            yield _instance(view)
        elif kind == "NodePool":
            yield _node_pool(view)
        elif kind == "CustomJob":
            yield from _custom_job(view)
        elif kind == "DeployModelRequest":
            yield _deployed(view.at("deployedModel", "dedicatedResources"))
        elif kind == "DirectorCluster":
            yield from _director(view)
        elif kind in ("Node", "QueuedResource") and part.type.startswith("tpu"):
            yield _tpu(view)
    if part.kind == "blueprint":
        for module in blueprint_modules(part):
            if NODESET.search(module.source) or module.source.endswith(("gke-node-pool", "vm-instance")):
                yield _module(module)


def _type(view: View) -> str:
    """A machine type without the path of its zone."""
    return view.text.rsplit("/", 1)[-1]


def _instance(view: View) -> Capacity:
    """A Compute Engine instance or template."""
    scheduling, affinity = view["scheduling"], view["reservationAffinity"]
    model = scheduling["provisioningModel"].text
    offers = []
    if model == "RESERVATION_BOUND" or affinity["consumeReservationType"].text == "SPECIFIC_RESERVATION":
        offers.append("reservation")
    if model == "FLEX_START":
        offers.append("flex-start")
    if model == "SPOT" or scheduling["preemptible"].is_true:
        offers.append("spot")
    parameters = View(part=view.part, value=view.part.parameters)
    zone = parameters["zone"].text or view["zone"].text.rsplit("/", 1)[-1]
    seconds = duration_s(scheduling["maxRunDuration"])
    ends = (seconds is not None or scheduling["terminationTime"].is_set) and (
        scheduling["instanceTerminationAction"].text == "DELETE"
    )
    return Capacity(
        kind="instance",
        view=view,
        machine=_type(view["machineType"]),
        offers=tuple(offers),
        affinity=affinity["consumeReservationType"].text,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        zones=(zone,) if zone else (),
        max_run_s=seconds,
        has_end=ends,
    )


def _node_pool(view: View) -> Capacity:
    """A GKE node pool."""
    config = view["config"]
    affinity = config["reservationAffinity"]
    offers = []
    if affinity["consumeReservationType"].text == "SPECIFIC_RESERVATION":
        offers.append("reservation")
    if config["flexStart"].is_true:
        offers.append("flex-start")
    if config["spot"].is_true or config["preemptible"].is_true:
        offers.append("spot")
    if view.at("queuedProvisioning", "enabled").is_true and "flex-start" not in offers:
        offers.append("queued")
    seconds = duration_s(config["maxRunDuration"])
    return Capacity(
        kind="node-pool",
        view=view,
        machine=_type(config["machineType"]),
        offers=tuple(offers),
        affinity=affinity["consumeReservationType"].text,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        zones=view["locations"].texts,
        is_compact=view.at("placementPolicy", "type").text == "COMPACT",
        max_run_s=seconds,
        has_end=seconds is not None or _scales_to_zero(view["autoscaling"]),
    )


def _scales_to_zero(autoscaling: View) -> bool:
    """A pool that gives back nodes that nobody uses."""
    least = autoscaling["minNodeCount"].number or autoscaling["totalMinNodeCount"].number or 0
    return autoscaling["enabled"].is_true and least == 0


def _custom_job(view: View) -> Iterator[Capacity]:
    """The worker pools of a Vertex AI job."""
    scheduling = view.at("jobSpec", "scheduling")
    strategy = scheduling["strategy"].text
    for pool in view.at("jobSpec", "workerPoolSpecs").items:
        affinity = pool.at("machineSpec", "reservationAffinity")
        kind = affinity["reservationAffinityType"].text
        offers = {"SPOT": ["spot"], "FLEX_START": ["flex-start"]}.get(strategy, [])
        yield Capacity(
            kind="worker-pool",
            view=pool,
            machine=_type(pool.at("machineSpec", "machineType")),
            offers=(*offers, *(("reservation",) if kind in RESERVED else ())),
            affinity=kind,
            reservations=affinity["values"].texts,
            reservation_key=affinity["key"].text,
            max_run_s=duration_s(scheduling["timeout"]),
            has_end=scheduling["timeout"].is_set,
        )


def _deployed(view: View) -> Capacity:
    """The machines of a Vertex AI endpoint."""
    affinity = view.at("machineSpec", "reservationAffinity")
    reserved = affinity["reservationAffinityType"].text in RESERVED
    return Capacity(
        kind="endpoint",
        view=view,
        machine=_type(view.at("machineSpec", "machineType")),
        offers=(*(("spot",) if view["spot"].is_true else ()), *(("reservation",) if reserved else ())),
        affinity=affinity["reservationAffinityType"].text,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        has_end=view["maxReplicaCount"].is_set,
    )


def _director(view: View) -> Iterator[Capacity]:
    """The compute resources of a Cluster Director cluster."""
    names = {"newReservedInstances": "reservation", "newFlexStartInstances": "flex-start", "newSpotInstances": "spot"}
    for _, resource in view["computeResources"].pairs:
        config = resource["config"]
        kinds = [key for key, _ in config.pairs]
        inner = config[kinds[0]] if kinds else config
        yield Capacity(
            kind="director",
            view=config,
            machine=_type(inner["machineType"]),
            offers=tuple(names.get(key, "on-demand") for key in kinds),
            reservations=tuple(filter(None, (inner["reservation"].text.rsplit("/", 1)[-1],))),
            zones=tuple(filter(None, (inner["zone"].text,))),
            max_run_s=duration_s(inner["maxDuration"]),
            has_end=True,  # dynamic nodes end with the job; static ones are named by another rule
        )


def _tpu(view: View) -> Capacity:
    """A TPU node or a queued resource."""
    scheduling = view["schedulingConfig"]
    offers = []
    if scheduling["reserved"].is_true or view["reservationName"].text:
        offers.append("reservation")
    if scheduling["spot"].is_true or scheduling["preemptible"].is_true or view["spot"].is_set:
        offers.append("spot")
    policy = view["queueingPolicy"]
    ends = any(policy[key].is_set for key in ("validUntilDuration", "validUntilTime", "validInterval"))
    return Capacity(kind="tpu", view=view, machine="", offers=tuple(offers), has_end=ends or not view["tpu"].is_set)


def _module(module: BlueprintModule) -> Capacity:
    """A nodeset, node pool or group of instances of a Toolkit blueprint."""
    flex, affinity = resolved_setting(module, "dws_flex"), resolved_setting(module, "reservation_affinity")
    offers = []
    kind = affinity.get("consume_reservation_type") if isinstance(affinity, dict) else None
    if resolved_setting(module, "reservation_name") or kind == "SPECIFIC_RESERVATION":
        offers.append("reservation")
    enabled = isinstance(flex, dict) and flex.get("enabled") is True
    if enabled or resolved_setting(module, "enable_flex_start") is True:
        offers.append("flex-start")
    if any(resolved_setting(module, name) is True for name in ("enable_spot_vm", "spot")):
        offers.append("spot")
    if resolved_setting(module, "enable_queued_provisioning") is True and "flex-start" not in offers:
        offers.append("queued")
    machine, policy = resolved_setting(module, "machine_type"), resolved_setting(module, "placement_policy")
    zones = resolved_setting(module, "zones")
    return Capacity(
        kind="gke-module" if module.source.endswith("gke-node-pool") else "vm-module",
        view=module.view["settings"],
        machine=machine if isinstance(machine, str) else "",
        offers=tuple(offers),
        affinity=kind if isinstance(kind, str) else "",
        zones=tuple(str(zone) for zone in zones) if isinstance(zones, list) else (),
        is_compact=isinstance(policy, dict) and policy.get("type") == "COMPACT",
        has_end=True,  # a blueprint is destroyed as a whole
    )
