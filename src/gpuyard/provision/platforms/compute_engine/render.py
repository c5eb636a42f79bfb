"""Compute Engine: machines of your own, alone or in a group, with their networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import job_launch, machines_per_replica, server_launch
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.compute_engine.desks import (
    against_desks,
    desk_notes,
    desk_script,
    desk_steps,
    seating_steps,
)
from gpuyard.provision.platforms.compute_engine.groups import (
    balancer_requests,
    desk_requests,
    job_requests,
    service_requests,
)
from gpuyard.provision.platforms.compute_engine.machines import instance_properties, multi_node_fabric
from gpuyard.provision.platforms.compute_engine.startup import FRONT_PORT, startup_script
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.tpu import CLOUD_TPU
from gpuyard.provision.platforms.vpc import network_requests, vpcs_of
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["COMPUTE_ENGINE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEngine:
    """Virtual machines, with everything around them."""

    name: str = "compute-engine"
    label: str = "Compute Engine"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """Networks, policy, template and group; one instance for work on one machine; a slice where it is a TPU."""
        why = self._against(blueprint)
        if why is not None:
            return unsuitable(self.name, *why[:1], blueprint, why[1])
        if blueprint.is_tpu:
            return replace(CLOUD_TPU.render(blueprint, settings), platform=self.name)
        if blueprint.shape == "desks":
            return self._desks(blueprint, place_of(blueprint, settings))
        place, fabric = place_of(blueprint, settings), multi_node_fabric(blueprint)
        is_service = blueprint.shape == "service"
        launch = (server_launch if is_service else job_launch)(blueprint, place, "host")
        vpcs = vpcs_of(place, fabric)
        script = startup_script(blueprint, place, launch, fabric)
        properties = instance_properties(blueprint, place, vpcs, script, zoned=blueprint.shape == "single-node")
        requests = (
            *(() if is_service else bucket_requests(place)),
            *network_requests(place, vpcs, port=FRONT_PORT if is_service else None),
            *_machines(blueprint, place, properties, launch),
            *(balancer_requests(place, vpcs[0]) if is_service else ()),
        )
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*request_steps(requests), *_watch(blueprint, place)),
            notes=(*_notes(blueprint), *launch.notes),
        )

    def _desks(self, blueprint: Blueprint, place: Place) -> Artefacts:
        """Machines with a desktop for each seat: no bucket, no ranks, no container, no end but that of the lifetime."""
        vpcs = vpcs_of(place, None)
        alone = blueprint.machine_count == 1
        properties = instance_properties(blueprint, place, vpcs, desk_script(blueprint, place), zoned=alone)
        made = (_instance(blueprint, place, properties),) if alone else desk_requests(blueprint, place, properties)
        requests = (*network_requests(place, vpcs, apart=True), *made)
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*request_steps(requests), *desk_steps(blueprint, place)),
            seating=tuple(seating_steps(blueprint, place)),
            notes=tuple(desk_notes(blueprint, place)),
        )

    def _against(self, blueprint: Blueprint) -> tuple[str, tuple[str, str] | None] | None:
        """What speaks against Compute Engine, and a better place where it is not the plan's own."""
        machine = blueprint.machine
        if machine.provider != "google":
            return f"{machine.name} stands in your own hall", None
        if machine.platforms.compute_engine == "no":
            return f"Compute Engine does not offer {machine.name}", None
        desks = against_desks(blueprint) if blueprint.shape == "desks" else None
        if desks is not None:
            return desks, ("", "")
        if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
            why = (
                f"a replica takes {machines_per_replica(blueprint)} machines, and a group counts machines, not replicas"
            )
            return why, ("gke", "a LeaderWorkerSet scales by replicas of several machines")
        if blueprint.shape == "service" and blueprint.way == "flex-start" and not blueprint.is_tpu:
            why = "a group of flex-start machines is filled by requests, not by an autoscaler"
            return why, ("gke", "its autoscaler fills pools of flex-start machines")
        return None


def _machines(blueprint: Blueprint, place: Place, properties: dict[str, Plain], launch: Launch) -> Iterator[Request]:
    """The machines, by the shape of the work."""
    if blueprint.shape == "service":
        yield from service_requests(blueprint, place, properties, launch)
    elif blueprint.shape == "multi-node":
        yield from job_requests(blueprint, place, properties, multi_node_fabric(blueprint))
    else:
        yield _instance(blueprint, place, properties)


def _instance(blueprint: Blueprint, place: Place, properties: dict[str, Plain]) -> Request:
    """One machine by itself."""
    return Request(
        file="50-instance.json", what=f"one {blueprint.machine.name}", method="compute.instances.insert",
        parameters={"project": place.project, "zone": place.zone}, resource=place.name,
        body={"name": place.name, "description": place.stamp, **properties},
    )  # fmt: skip


def _watch(blueprint: Blueprint, place: Place) -> Iterator[Step]:
    """How to look at it."""
    where = f"--project={place.project} --zone={place.zone}"
    if blueprint.shape == "multi-node" or blueprint.shape == "service":
        yield Step(
            what="see the machines",
            command=f"gcloud compute instance-groups managed list-instances {place.name} {where}",
        )
    else:
        yield Step(
            what="see what it does", command=f"gcloud compute instances tail-serial-port-output {place.name} {where}"
        )


def _notes(blueprint: Blueprint) -> Iterator[str]:
    """What has to be known before it is applied."""
    yield "The machines end by themselves; networks, NAT gateway, template and bucket stay until they are taken back."
    if blueprint.shape == "service":
        yield (
            f"The service answers at its internal address, port {FRONT_PORT}, inside the VPC only. The autoscaler "
            "follows GPU use, because a group cannot follow an engine's queue: GKE can."
        )
        yield "GPU use is a metric of the Ops Agent: install it by an agent policy for the label plan-hash."
    elif blueprint.shape == "multi-node":
        yield "The machines' identity needs roles/compute.instanceAdmin.v1: it finds its peers and ends the group."
    if blueprint.machine.series == "H4D":
        yield "The Cloud RDMA NIC of H4D is not set up here: traffic between machines runs over gVNIC."
    if blueprint.shape == "single-node":
        yield "The machine deletes itself when the program ends, and the server does at the end of its lifetime."


COMPUTE_ENGINE = ComputeEngine()
