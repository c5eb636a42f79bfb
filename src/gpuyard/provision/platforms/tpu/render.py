"""Cloud TPU: queued resources that become slices of TPU virtual machines."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.errors import Infeasible
from gpuyard.provision.launch import Launch, job_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.host import FOLDER, mount_lines, token_line
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.slices import Slices, slices_of
from gpuyard.provision.platforms.vpc import Vpc, network_requests, vpcs_of
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["CLOUD_TPU"]

WAIT_S = 24 * 3600  # a request that is not met in a day is given up
ENDING = (
    "The server ends the waiting, not the running: each slice deletes the queued resource at the end of its lifetime "
    "or of the program, so its identity needs roles/tpu.admin."
)
GKE = ("gke", "its node pools of TPU slices take flex-start, autoscaling and every generation")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTpu:
    """Slices by the Cloud TPU API."""

    name: str = "tpu"
    label: str = "Cloud TPU"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """One queued resource of all slices, and the network that it stands in."""
        if not blueprint.is_tpu:
            return unsuitable(self.name, f"{blueprint.machine.name} holds no TPU", blueprint)
        slices = slices_of(blueprint)
        if isinstance(slices, Infeasible):
            return unsuitable(self.name, slices.what, blueprint, ("", ""))
        if not slices.generation.type:
            return unsuitable(self.name, f"{blueprint.machine.name} is to be had by GKE only", blueprint, GKE)
        if blueprint.shape == "service":
            why = "a queued resource has a fixed number of slices and no load balancer"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.way == "flex-start":
            why = "flex-start is not in version 2 of the Cloud TPU API; spot and on-demand are (--way)"
            return unsuitable(self.name, why, blueprint, GKE)
        place = place_of(blueprint, settings)
        launch = job_launch(blueprint, place, "host")
        vpcs = vpcs_of(place, None)
        requests = (
            *bucket_requests(place),
            *network_requests(place, vpcs),
            _queued(blueprint, place, vpcs[0], slices, _script(blueprint, place, launch)),
        )
        see = (
            f"gcloud compute tpus queued-resources describe {place.name} --project={place.project} --zone={place.zone}"
        )
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*request_steps(requests), Step(what="see how far the request is", command=see)),
            notes=(
                ENDING,
                *launch.notes,
            ),
        )


def _queued(blueprint: Blueprint, place: Place, vpc: Vpc, slices: Slices, script: str) -> Request:
    """The queued resource."""
    node: dict[str, Plain] = {
        "acceleratorConfig": {"type": slices.generation.type, "topology": slices.topology},
        "runtimeVersion": slices.generation.runtime,
        "description": place.stamp,
        "labels": place.labels,
        "networkConfig": {
            "network": f"projects/{place.project}/global/networks/{vpc.name}",
            "subnetwork": f"projects/{place.project}/regions/{place.region}/subnetworks/{vpc.subnets[0].name}",
            "enableExternalIps": False,
        },
        "metadata": {"startup-script": script},
    }
    if place.settings.service_account:
        node["serviceAccount"] = {
            "email": place.settings.service_account,
            "scope": ["https://www.googleapis.com/auth/cloud-platform"],
        }
    spec: dict[str, Plain] = {"parent": f"projects/{place.project}/locations/{place.zone}", "node": node}
    if slices.slice_count > 1:
        spec["multisliceParams"] = {"nodeCount": slices.slice_count, "nodeIdPrefix": place.short(40)}
    else:
        spec["nodeId"] = place.name
    body: dict[str, Plain] = {
        "tpu": {"nodeSpec": [spec]},
        "queueingPolicy": {"validUntilDuration": f"{WAIT_S}s"},
    }
    if blueprint.way == "spot":
        body["spot"] = {}
    elif blueprint.way == "reservation":
        body["guaranteed"] = {}
        body["reservationName"] = (
            f"projects/{place.project}/locations/{place.zone}/reservations/{place.settings.reservation}"
        )
    return Request(
        file="50-queued-resource.json",
        what=f"{slices.slice_count} slice(s) {slices.generation.label} {slices.topology}",
        method="tpu.projects.locations.queuedResources.create",
        parameters={"projectsId": place.project, "locationsId": place.zone, "queuedResourceId": place.name},
        body=body,
        resource=f"{place.name}?force=true",
    )


def _script(blueprint: Blueprint, place: Place, launch: Launch) -> str:
    """The startup script of every host of a slice."""
    words = [
        "docker run --entrypoint bash --rm --name work --privileged --network host --shm-size 16g",
        *(f"--volume {mount.path}:{mount.path}" for mount in launch.mounts),
        f"--volume {FOLDER}:{FOLDER}:ro --env HF_TOKEN",
        shlex.quote(launch.image),
        f"{FOLDER}/run.sh",
    ]
    end = (
        f"gcloud compute tpus queued-resources delete {place.name} --project={place.project} --zone={place.zone} "
        "--force --quiet --async"
    )
    lines = [
        "#!/bin/bash",
        f"# {blueprint.name} on {blueprint.machine.name}: {place.stamp}",
        "set -euo pipefail",
        "export HOME=/root",
        f"systemd-run --on-active={place.ttl_s} {end}",
        f"mkdir -p {FOLDER}",
        *mount_lines(launch.mounts),
        f"cat >{FOLDER}/run.sh <<'RUN'",
        launch.script(exports=True).rstrip(),
        "RUN",
        token_line(place.settings.secret),
        "done=0",
        f"{' '.join(words)} || done=$?",
        'echo "the program ended with $done"',
        f'if [ "$done" = 0 ]; then {end}; fi',
    ]
    return "\n".join(lines) + "\n"


CLOUD_TPU = CloudTpu()
