"""Compute Engine: single machines, managed groups and virtual workstations, with their networks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.launch.server import launch_of
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    not_google,
    pools_unsupported,
    unsuitable,
)
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.compute_engine.groups import (
    balancer_requests,
    job_requests,
    service_requests,
    workstation_requests,
)
from gpuyard.provision.platforms.compute_engine.instance_properties import (
    instance_properties,
    multi_node_fabric,
)
from gpuyard.provision.platforms.compute_engine.startup import FRONT_PORT, startup_script
from gpuyard.provision.platforms.compute_engine.supervision import has_fixed_end, recreates_machines
from gpuyard.provision.platforms.compute_engine.workstation_steps import (
    user_access_steps,
    workstation_notes,
    workstation_obstacle,
    workstation_script,
    workstation_steps,
)
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.service_account import is_gated, project_grant, secret_grant
from gpuyard.provision.platforms.tpu.tpu_platform import CLOUD_TPU
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.provision.platforms.vpc import network_requests, vpcs_of
from gpuyard.provision.restarts import restart_limit
from gpuyard.provision.shell_text import shell


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeEngine:
    """Virtual machines with their networks, templates and groups."""

    name: str = "compute-engine"
    label: str = "Compute Engine"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render networks and one instance or a group; TPUs become a Cloud TPU slice."""
        obstacle = self._obstacle(blueprint)
        if obstacle is not None:
            return obstacle
        if blueprint.is_tpu:
            return replace(CLOUD_TPU.render(blueprint, settings), platform=self.name)
        if blueprint.shape == "workstations":
            return self._workstations(blueprint, settings)
        fabric = multi_node_fabric(blueprint)
        is_service = blueprint.shape == "service"
        launch = launch_of(blueprint, settings, "host")
        vpcs = vpcs_of(settings, fabric)
        script = startup_script(blueprint, settings, launch, fabric)
        properties = instance_properties(
            blueprint, settings, vpcs, script, zoned=blueprint.shape == "single-node"
        )
        requests = (
            *(
                bucket_requests(settings, "model" if is_service else "checkpoint")
                if launch.mounts
                else ()
            ),
            *network_requests(settings, vpcs, port=FRONT_PORT if is_service else None),
            *_machine_requests(blueprint, settings, properties, launch),
            *(balancer_requests(settings, vpcs[0]) if is_service else ()),
        )
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(
                *_access_steps(blueprint, settings),
                *steps_with_uploads(blueprint, settings, requests),
                _status_step(blueprint, settings),
            ),
            unbounded=_without_end(blueprint, settings),
            notes=(*_notes(blueprint, settings), *launch.notes),
        )

    def _workstations(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts:
        vpcs = vpcs_of(settings, None)
        script = workstation_script(blueprint, settings)
        is_single = blueprint.machine_count == 1
        properties = instance_properties(blueprint, settings, vpcs, script, zoned=is_single)
        requests = [*network_requests(settings, vpcs, isolated=True)]
        if is_single:
            requests.append(_instance(blueprint, settings, properties))
        else:
            requests += workstation_requests(blueprint, settings, properties)
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*request_steps(requests), *workstation_steps(blueprint, settings)),
            user_access=tuple(user_access_steps(blueprint, settings)),
            notes=tuple(workstation_notes(blueprint, settings)),
        )

    def _obstacle(self, blueprint: Blueprint) -> Unsuitable | None:
        machine = blueprint.machine
        elsewhere = not_google(self.name, blueprint)
        if elsewhere is not None:
            return elsewhere
        if machine.platforms.compute_engine == "no":
            why = f"Compute Engine does not offer {machine.name}"
            return unsuitable(self.name, why, blueprint)
        if blueprint.shape == "workstations":
            reason = workstation_obstacle(blueprint)
            return unsuitable(self.name, reason, blueprint, ("", "")) if reason else None
        if blueprint.shape != "service":
            return None
        pools = pools_unsupported(self.name, blueprint)
        if pools is not None:
            return pools
        machines = machines_per_replica(blueprint)
        if machines > 1:
            why = f"a replica needs {machines} machines, and a group scales by single machines"
            gke = ("gke", "a LeaderWorkerSet scales by replicas of several machines")
            return unsuitable(self.name, why, blueprint, gke)
        if blueprint.consumption == "flex-start" and not blueprint.is_tpu:
            why = "a flex-start group grows by resize requests, not by an autoscaler"
            gke = ("gke", "its autoscaler scales pools of flex-start machines")
            return unsuitable(self.name, why, blueprint, gke)
        return None


def _machine_requests(
    blueprint: Blueprint, settings: ResolvedSettings, properties: dict[str, Plain], launch: Launch
) -> Iterator[Request]:
    if blueprint.shape == "service":
        yield from service_requests(blueprint, settings, properties, launch)
    elif blueprint.shape == "multi-node":
        yield from job_requests(blueprint, settings, properties, multi_node_fabric(blueprint))
    else:
        yield _instance(blueprint, settings, properties)


def _instance(
    blueprint: Blueprint, settings: ResolvedSettings, properties: dict[str, Plain]
) -> Request:
    return Request(
        file="50-instance.json",
        what=f"Create one {blueprint.machine.name}",
        method="compute.instances.insert",
        parameters={"project": settings.project, "zone": settings.zone},
        resource=settings.name,
        body={"name": settings.name, "description": settings.labels_text, **properties},
    )


def _without_end(blueprint: Blueprint, settings: ResolvedSettings) -> str:
    is_recreated = recreates_machines(blueprint) and not has_fixed_end(blueprint, settings)
    return "the machines that the group recreates" if is_recreated else ""


def _access_steps(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[DeployStep]:
    """Yield the grants: jobs end themselves, services write the metric that they scale on."""
    if blueprint.shape == "service":
        role = "roles/monitoring.metricWriter"
        yield project_grant(settings, "write their GPU utilisation", role)
        if is_gated(blueprint, settings):
            yield secret_grant(settings)
    else:
        role = "roles/compute.instanceAdmin.v1"
        yield project_grant(settings, "delete themselves at the end of the job", role)


def _status_step(blueprint: Blueprint, settings: ResolvedSettings) -> DeployStep:
    where = shell("{s.name} --project={s.project} --zone={s.zone}", s=settings)
    if blueprint.shape in ("multi-node", "service"):
        group = "gcloud compute instance-groups managed"
        return DeployStep(what="List the machines", command=f"{group} list-instances {where}")
    return DeployStep(
        what="Follow the log of the machine",
        command=f"gcloud compute instances tail-serial-port-output {where}",
    )


def _notes(blueprint: Blueprint, settings: ResolvedSettings) -> Iterator[str]:
    yield (
        "The provider deletes the machines at the end of their TTL; "
        "networks, NAT gateway, template and bucket remain until you delete them."
    )
    if blueprint.shape == "service":
        yield (
            f"The service listens on its internal address, port {FRONT_PORT}, inside the VPC only. "
            "The autoscaler follows GPU utilisation, because a group cannot scale on the length of "
            "an engine's queue; GKE can."
        )
    elif blueprint.shape == "multi-node":
        lost = "recreates" if recreates_machines(blueprint) else "does not recreate"
        limit = restart_limit(blueprint, settings)
        yield (
            f"The group {lost} lost machines. Every machine supervises itself: all restart from "
            f"the last checkpoint, at most {limit} times, and delete the group's machines when the "
            "job is done, fails for good, or misses a machine for an hour."
        )
    if has_fixed_end(blueprint, settings):
        yield (
            f"The provider deletes all machines at {settings.expires}, counted from rendering, "
            "also those that the group recreates: render again if you apply later."
        )
    if blueprint.machine.series == "H4D":
        yield ("The Cloud RDMA NIC of H4D is not set up: traffic between machines goes over gVNIC.")
    if blueprint.shape == "single-node":
        yield (
            "The machine restarts a failed program from its last checkpoint and deletes itself at "
            "the end; the provider deletes it at the end of its TTL. Nothing recreates it if the "
            "provider takes it back: apply again, and it resumes."
        )


COMPUTE_ENGINE = ComputeEngine()
