"""Cloud TPU: queued resources that become slices of TPU VMs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.tpu_slices import Slices, slices_of
from gpuyard.provision.platform import Artefacts, DeployStep, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.host import FOLDER, mount_lines, token_line
from gpuyard.provision.platforms.requests import Request, request_files
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.provision.platforms.vpc import Vpc, network_requests, vpcs_of
from gpuyard.provision.shell_text import shell
from gpuyard.units import DAY_S

MAX_WAIT_S = DAY_S  # a queued resource fails if it gets no capacity within this time
TTL_NOTE = (
    "The provider limits the waiting time, not the run time: each slice deletes the queued "
    "resource at the end of its TTL or of the program, so its service account needs "
    "roles/tpu.admin."
)
GKE = ("gke", "its TPU node pools support flex-start, autoscaling and every generation")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTpu:
    """TPU slices through the Cloud TPU API."""

    name: str = "tpu"
    label: str = "Cloud TPU"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render the network and one queued resource with all slices."""
        machine = blueprint.machine
        if not blueprint.is_tpu:
            return unsuitable(self.name, f"{machine.name} has no TPU", blueprint)
        slices = slices_of(blueprint)
        if isinstance(slices, Infeasible):
            return unsuitable(self.name, slices.what, blueprint, ("", ""))
        if not slices.generation.type:
            why = f"{machine.name} is available through GKE only"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.shape == "service":
            why = "a queued resource has a fixed number of slices and no load balancer"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.consumption == "flex-start":
            why = (
                "version 2 of the Cloud TPU API has no flex-start; "
                "it has spot and on-demand (--consumption)"
            )
            return unsuitable(self.name, why, blueprint, GKE)
        launch = job_launch(blueprint, settings, "host")
        vpcs = vpcs_of(settings, None)
        script = _script(blueprint, settings, launch)
        requests = (
            *bucket_requests(settings),
            *network_requests(settings, vpcs),
            _queued_resource(blueprint, settings, vpcs[0], slices, script),
        )
        status = DeployStep(
            what="Show the state of the queued resource",
            command=shell(
                "gcloud compute tpus queued-resources describe {s.name} "
                "--project={s.project} --zone={s.zone}",
                s=settings,
            ),
        )
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*steps_with_uploads(blueprint, settings, requests), status),
            notes=(TTL_NOTE, *launch.notes),
        )


def _queued_resource(
    blueprint: Blueprint, settings: ResolvedSettings, vpc: Vpc, slices: Slices, script: str
) -> Request:
    node: dict[str, Plain] = {
        "acceleratorConfig": {"type": slices.generation.type, "topology": slices.topology},
        "runtimeVersion": slices.generation.runtime,
        "description": settings.labels_text,
        "labels": settings.labels,
        "networkConfig": {
            "network": f"projects/{settings.project}/global/networks/{vpc.name}",
            "subnetwork": f"projects/{settings.project}/regions/{settings.region}/subnetworks/"
            f"{vpc.subnets[0].name}",
            "enableExternalIps": False,
        },
        "metadata": {"startup-script": script},
    }
    if settings.requested.service_account:
        node["serviceAccount"] = {
            "email": settings.requested.service_account,
            "scope": ["https://www.googleapis.com/auth/cloud-platform"],
        }
    spec: dict[str, Plain] = {
        "parent": f"projects/{settings.project}/locations/{settings.zone}",
        "node": node,
    }
    if slices.slice_count > 1:
        spec["multisliceParams"] = {
            "nodeCount": slices.slice_count,
            "nodeIdPrefix": settings.short(40),
        }
    else:
        spec["nodeId"] = settings.name
    body: dict[str, Plain] = {
        "tpu": {"nodeSpec": [spec]},
        "queueingPolicy": {"validUntilDuration": f"{MAX_WAIT_S}s"},
    }
    if blueprint.consumption == "spot":
        body["spot"] = {}
    elif blueprint.consumption == "reservation":
        body["guaranteed"] = {}
        reservation = settings.requested.reservation
        body["reservationName"] = (
            f"projects/{settings.project}/locations/{settings.zone}/reservations/{reservation}"
        )
    return Request(
        file="50-queued-resource.json",
        what=f"Request {slices.slice_count} slice(s) {slices.generation.label} {slices.topology}",
        method="tpu.projects.locations.queuedResources.create",
        parameters={
            "projectsId": settings.project,
            "locationsId": settings.zone,
            "queuedResourceId": settings.name,
        },
        body=body,
        resource=f"{settings.name}?force=true",
    )


def _script(blueprint: Blueprint, settings: ResolvedSettings, launch: Launch) -> str:
    # Startup script of every host of a slice.
    docker_run = [
        "docker run --entrypoint bash --rm --name work --privileged --network host --shm-size 16g",
        *(f"--volume {mount.path}:{mount.path}" for mount in launch.mounts),
        f"--volume {FOLDER}:{FOLDER}:ro --env HF_TOKEN",
        shlex.quote(launch.image),
        f"{FOLDER}/run.sh",
    ]
    delete = shell(
        "gcloud compute tpus queued-resources delete {s.name} "
        "--project={s.project} --zone={s.zone} --force --quiet --async",
        s=settings,
    )
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {settings.labels_text}",
        "set -euo pipefail",
        "export HOME=/root",
        f"systemd-run --on-active={settings.ttl_s} {delete}",
        f"mkdir -p {FOLDER}",
        *mount_lines(launch.mounts),
        f"cat >{FOLDER}/run.sh <<'RUN'",
        launch.script(exports=True).rstrip(),
        "RUN",
        token_line(settings.requested.secret),
        "done=0",
        f"{' '.join(docker_run)} || done=$?",
        'echo "the program exited with code $done"',
        f'if [ "$done" = 0 ]; then {delete}; fi',
    ]
    return "\n".join(lines) + "\n"


CLOUD_TPU = CloudTpu()
