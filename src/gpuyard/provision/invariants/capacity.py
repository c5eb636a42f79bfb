"""Requests for machines: machine type, consumption option, zone, placement and run duration."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.provision.artefact_document import ArtefactDocument, ValueView, duration_s
from gpuyard.provision.validate.blueprint import (
    BlueprintModule,
    blueprint_modules,
    resolved_setting,
)

CapacityKind = Literal[
    "instance", "node-pool", "worker-pool", "endpoint", "director", "tpu", "gke-module", "vm-module"
]
RESERVED = ("SPECIFIC_RESERVATION", "ANY_RESERVATION", "ANY_RESERVATION_THEN_FAIL")
NODESET = re.compile(r"schedmd-slurm-gcp-v\d+-nodeset(-tpu)?$")
DIRECTOR_CONSUMPTION = {
    "newReservedInstances": "reservation",
    "newFlexStartInstances": "flex-start",
    "newSpotInstances": "spot",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """A request for machines; an empty `consumption` means on demand."""

    kind: CapacityKind
    view: ValueView
    machine: str
    consumption: tuple[str, ...]  # of reservation, flex-start, spot, queued
    affinity: str = ""  # as written, e.g. NO_RESERVATION
    reservations: tuple[str, ...] = ()
    reservation_key: str | None = None
    zones: tuple[str, ...] = ()
    is_compact: bool = False
    max_run_s: float | None = None
    has_ttl: bool = False  # the provider terminates it

    @property
    def document(self) -> ArtefactDocument:
        return self.view.document


def inner_views(document: ArtefactDocument) -> Iterator[tuple[str, ValueView]]:
    """Yield the objects of a Google request body with their kinds, also nested ones.

    A `NodePool`, for example, occurs alone, in a cluster, and in a request.
    """
    kind = document.kind_name
    root = document.root
    if document.kind != "google":
        return
    if kind == "CreateNodePoolRequest":
        yield "NodePool", root["nodePool"]
    elif kind in ("CreateClusterRequest", "Cluster") and document.type.startswith("container"):
        cluster = root["cluster"] if kind == "CreateClusterRequest" else root
        yield "Cluster", cluster
        yield from (("NodePool", pool) for pool in cluster["nodePools"].items)
    elif kind == "InstanceTemplate":
        yield "InstanceProperties", root["properties"]
    elif kind == "BulkInsertInstanceResource":
        yield "InstanceProperties", root["instanceProperties"]
    elif kind == "Instance" and document.type.startswith("compute"):
        yield "InstanceProperties", root
    elif kind == "Cluster" and document.type.startswith("hypercompute"):
        yield "DirectorCluster", root
    elif kind == "UploadModelRequest":
        yield "Model", root["model"]
    else:
        yield kind, root


def instance_zone(properties: ValueView) -> str:
    """Return the zone of an instance: of the request, or of the body."""
    return properties.document.request_parameters["zone"].text or properties["zone"].last_segment


def find_capacities(document: ArtefactDocument) -> Iterator[Capacity]:
    """Yield every request for machines in a document."""
    for kind, view in inner_views(document):
        if kind == "InstanceProperties":
            yield _instance(view)
        elif kind == "NodePool":
            yield _node_pool(view)
        elif kind == "CustomJob":
            yield from _custom_job(view)
        elif kind == "DeployModelRequest":
            yield _endpoint(view.at("deployedModel", "dedicatedResources"))
        elif kind == "DirectorCluster":
            yield from _director(view)
        elif kind in ("Node", "QueuedResource") and document.type.startswith("tpu"):
            yield _tpu(view)
    if document.kind == "blueprint":
        for module in blueprint_modules(document):
            is_nodeset = NODESET.search(module.source)
            if is_nodeset or module.source.endswith(("gke-node-pool", "vm-instance")):
                yield _module(module)


def _consumption(**options: bool) -> tuple[str, ...]:
    return tuple(name.replace("_", "-") for name, is_named in options.items() if is_named)


def _instance(view: ValueView) -> Capacity:
    scheduling = view["scheduling"]
    affinity = view["reservationAffinity"]
    model = scheduling["provisioningModel"].text
    affinity_type = affinity["consumeReservationType"].text
    zone = instance_zone(view)
    max_run_s = duration_s(scheduling["maxRunDuration"])
    has_end_time = max_run_s is not None or scheduling["terminationTime"].is_set
    return Capacity(
        kind="instance",
        view=view,
        machine=view["machineType"].last_segment,
        consumption=_consumption(
            reservation=model == "RESERVATION_BOUND" or affinity_type == "SPECIFIC_RESERVATION",
            flex_start=model == "FLEX_START",
            spot=model == "SPOT" or scheduling["preemptible"].is_true,
        ),
        affinity=affinity_type,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        zones=(zone,) if zone else (),
        max_run_s=max_run_s,
        has_ttl=has_end_time and scheduling["instanceTerminationAction"].text == "DELETE",
    )


def _node_pool(view: ValueView) -> Capacity:
    config = view["config"]
    affinity = config["reservationAffinity"]
    affinity_type = affinity["consumeReservationType"].text
    is_flex_start = config["flexStart"].is_true
    is_queued = view.at("queuedProvisioning", "enabled").is_true
    max_run_s = duration_s(config["maxRunDuration"])
    return Capacity(
        kind="node-pool",
        view=view,
        machine=config["machineType"].last_segment,
        consumption=_consumption(
            reservation=affinity_type == "SPECIFIC_RESERVATION",
            flex_start=is_flex_start,
            spot=config["spot"].is_true or config["preemptible"].is_true,
            queued=is_queued and not is_flex_start,
        ),
        affinity=affinity_type,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        zones=view["locations"].texts,
        is_compact=view.at("placementPolicy", "type").text == "COMPACT",
        max_run_s=max_run_s,
        has_ttl=max_run_s is not None or _scales_to_zero(view["autoscaling"]),
    )


def _scales_to_zero(autoscaling: ValueView) -> bool:
    minimum = autoscaling["minNodeCount"].number or autoscaling["totalMinNodeCount"].number or 0
    return autoscaling["enabled"].is_true and minimum == 0


def _custom_job(view: ValueView) -> Iterator[Capacity]:
    scheduling = view.at("jobSpec", "scheduling")
    strategy = scheduling["strategy"].text
    for pool in view.at("jobSpec", "workerPoolSpecs").items:
        affinity = pool.at("machineSpec", "reservationAffinity")
        affinity_type = affinity["reservationAffinityType"].text
        yield Capacity(
            kind="worker-pool",
            view=pool,
            machine=pool.at("machineSpec", "machineType").last_segment,
            consumption=_consumption(
                spot=strategy == "SPOT",
                flex_start=strategy == "FLEX_START",
                reservation=affinity_type in RESERVED,
            ),
            affinity=affinity_type,
            reservations=affinity["values"].texts,
            reservation_key=affinity["key"].text,
            max_run_s=duration_s(scheduling["timeout"]),
            has_ttl=scheduling["timeout"].is_set,
        )


def _endpoint(view: ValueView) -> Capacity:
    affinity = view.at("machineSpec", "reservationAffinity")
    affinity_type = affinity["reservationAffinityType"].text
    return Capacity(
        kind="endpoint",
        view=view,
        machine=view.at("machineSpec", "machineType").last_segment,
        consumption=_consumption(spot=view["spot"].is_true, reservation=affinity_type in RESERVED),
        affinity=affinity_type,
        reservations=affinity["values"].texts,
        reservation_key=affinity["key"].text,
        has_ttl=view["maxReplicaCount"].is_set,
    )


def _director(view: ValueView) -> Iterator[Capacity]:
    for _, resource in view["computeResources"].pairs:
        config = resource["config"]
        keys = [key for key, _ in config.pairs]
        instances = config[keys[0]] if keys else config
        reservation = instances["reservation"].last_segment
        zone = instances["zone"].text
        yield Capacity(
            kind="director",
            view=config,
            machine=instances["machineType"].last_segment,
            consumption=tuple(DIRECTOR_CONSUMPTION.get(key, "on-demand") for key in keys),
            reservations=(reservation,) if reservation else (),
            zones=(zone,) if zone else (),
            max_run_s=duration_s(instances["maxDuration"]),
            has_ttl=True,  # dynamic nodes stop with their job
        )


def _tpu(view: ValueView) -> Capacity:
    scheduling = view["schedulingConfig"]
    policy = view["queueingPolicy"]
    limits = ("validUntilDuration", "validUntilTime", "validInterval")
    return Capacity(
        kind="tpu",
        view=view,
        machine="",
        consumption=_consumption(
            reservation=scheduling["reserved"].is_true or bool(view["reservationName"].text),
            spot=scheduling["spot"].is_true
            or scheduling["preemptible"].is_true
            or view["spot"].is_set,
        ),
        has_ttl=any(policy[key].is_set for key in limits) or not view["tpu"].is_set,
    )


def _module(module: BlueprintModule) -> Capacity:
    def setting(name: str, key: str) -> object:
        value = resolved_setting(module, name)
        return value.get(key) if isinstance(value, dict) else None

    def is_true(*names: str) -> bool:
        return any(resolved_setting(module, name) is True for name in names)

    affinity_type = setting("reservation_affinity", "consume_reservation_type")
    is_flex_start = setting("dws_flex", "enabled") is True or is_true("enable_flex_start")
    machine = resolved_setting(module, "machine_type")
    zones = resolved_setting(module, "zones")
    return Capacity(
        kind="gke-module" if module.source.endswith("gke-node-pool") else "vm-module",
        view=module.view["settings"],
        machine=machine if isinstance(machine, str) else "",
        consumption=_consumption(
            reservation=bool(resolved_setting(module, "reservation_name"))
            or affinity_type == "SPECIFIC_RESERVATION",
            flex_start=is_flex_start,
            spot=is_true("enable_spot_vm", "spot"),
            queued=is_true("enable_queued_provisioning") and not is_flex_start,
        ),
        affinity=affinity_type if isinstance(affinity_type, str) else "",
        zones=tuple(str(zone) for zone in zones) if isinstance(zones, list) else (),
        is_compact=setting("placement_policy", "type") == "COMPACT",
        has_ttl=True,  # a blueprint is destroyed as a whole
    )
