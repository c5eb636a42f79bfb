"""Cloud Run: services that scale to zero, and jobs, each instance with one GPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.plan.inference.serverless import Instance, instance_for
from gpuyard.provision.launch import (
    Launch,
    Mount,
    Variable,
    job_launch,
    machines_per_replica,
    server_launch,
    serving_of,
)
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cloud_run.instances import container, task_parts
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.settings import Place, Settings, place_of
from gpuyard.workload import Where

__all__ = ["CLOUD_RUN"]

GKE = ("gke", "its pods take any number of GPUs and the fabric between them")
NAME_LENGTH = 49
MODELS = "/mnt/models"
REQUEST_S = 3600  # the longest request
# A task with a GPU: an hour, or twelve in preview (https://docs.cloud.google.com/run/docs/configuring/task-timeout)
TASK_S, LONG_TASK_S, MOST_RETRIES = 3600, 12 * 3600, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRun:
    """Containers on request."""

    name: str = "cloud-run"
    label: str = "Cloud Run"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """A service, or a job and its run."""
        desks = desks_cannot(self.name, "instances answer requests; they have no display to sit at", blueprint)
        if desks is not None:
            return desks
        instance = instance_for(blueprint.machine, Where())
        nearest = GKE if blueprint.machine.provider == "google" else None
        if blueprint.shape == "multi-node":
            why = "instances have one GPU each and no network between them"
            if blueprint.is_independent:
                why = f"the plan has {blueprint.machine_count} machines, and a job of one task has one GPU"
            return unsuitable(self.name, why, blueprint, nearest)
        if instance is None:
            why = f"{blueprint.machine.name} is not one L4 or one RTX PRO 6000, and Cloud Run has no other GPU"
            return unsuitable(self.name, why, blueprint, nearest)
        place = place_of(blueprint, settings)
        if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
            why = f"a replica takes {machines_per_replica(blueprint)} machines, and an instance stands alone"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.shape == "service":
            return self._service(blueprint, place, instance)
        attempts = math.ceil(place.ttl_s / LONG_TASK_S)
        if attempts > 1 + MOST_RETRIES:
            longest = LONG_TASK_S * (1 + MOST_RETRIES) // 86_400
            return unsuitable(self.name, f"a job with all its attempts ends after {longest} days", blueprint, GKE)
        return self._job(blueprint, place, instance, attempts)

    def _service(self, blueprint: Blueprint, place: Place, instance: Instance) -> Artefacts:
        """A service inside the VPC that scales with its requests."""
        launch = _with_cache(server_launch(blueprint, place, "pod"), place)
        name = place.short(NAME_LENGTH)
        request = Request(
            file="50-service.json", what="service, reached from inside the project only",
            method="run.projects.locations.services.create",
            parameters={"projectsId": place.project, "locationsId": place.region, "serviceId": name},
            body=_service_body(blueprint, place, launch, instance), resource=name,
        )  # fmt: skip
        requests = (*bucket_requests(place), request)
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*_secret(place), *request_steps(requests)),
            notes=(*_notes(blueprint, place, instance), *_service_notes(place), *launch.notes),
            unended="the service",
        )

    def _job(self, blueprint: Blueprint, place: Place, instance: Instance, attempts: int) -> Artefacts:
        """A job of one task, and the request that runs it."""
        launch = job_launch(blueprint, place, "pod")
        here: dict[str, Plain] = {"projectsId": place.project, "locationsId": place.region}
        job = Request(
            file="50-job.json", what="job of one task",
            method="run.projects.locations.jobs.create", parameters={**here, "jobId": place.name},
            body=_job_body(place, launch, instance, attempts), resource=place.name,
        )  # fmt: skip
        run = Request(
            file="60-run.json", what="run it once", method="run.projects.locations.jobs.run",
            parameters={**here, "jobsId": place.name}, body={}, resource="",
        )  # fmt: skip
        requests = (*bucket_requests(place), job)
        started = request_steps((run,))[0]
        undo = (
            f"gcloud run jobs executions list --job={place.name} --project={place.project} --region={place.region} "
            f"--format='value(name)' | xargs -r -n 1 gcloud run jobs executions cancel --quiet --region={place.region}"
        )
        return Artefacts(
            platform=self.name,
            files=request_files((*requests, run)),
            steps=(*request_steps(requests), Step(what=started.what, command=started.command, undo=undo)),
            notes=(*_notes(blueprint, place, instance), *_job_notes(place, attempts), *launch.notes),
        )


def _with_cache(launch: Launch, place: Place) -> Launch:
    """The server with its weights in a bucket: an instance's own disk is its memory."""
    kept = tuple(row for row in launch.variables if row.name != "HF_HOME")
    mount = Mount(name="models", bucket=place.bucket, path=MODELS)
    return dataclasses.replace(
        launch, variables=(*kept, Variable(name="HF_HOME", value=f"{MODELS}/hf")), mounts=(*launch.mounts, mount)
    )


def _service_body(blueprint: Blueprint, place: Place, launch: Launch, instance: Instance) -> dict[str, Plain]:
    """The service: bounds from the plan, none at rest where the plan counts on that."""
    service = serving_of(blueprint)
    scaling = service.autoscaling
    least = 0 if service.serverless else scaling.least_replicas
    template: dict[str, Plain] = {
        "labels": place.labels,
        "containers": [container(launch, place, instance, is_service=True)],
        **task_parts(launch, place, instance),
        "scaling": {"minInstanceCount": least, "maxInstanceCount": max(1, least, scaling.most_replicas)},
        "maxInstanceRequestConcurrency": max(1, min(1000, round(scaling.target))),
        "timeout": f"{REQUEST_S}s",
    }
    return {
        "description": place.stamp,
        "labels": place.labels,
        "ingress": "INGRESS_TRAFFIC_INTERNAL_ONLY",
        "template": template,
    }


def _job_body(place: Place, launch: Launch, instance: Instance, attempts: int) -> dict[str, Plain]:
    """The job: attempts that add up to its lifetime, each from the last checkpoint."""
    task: dict[str, Plain] = {
        "containers": [container(launch, place, instance, is_service=False)],
        **task_parts(launch, place, instance),
        "maxRetries": max(1, attempts - 1),
        "timeout": f"{min(place.ttl_s, LONG_TASK_S)}s",
    }
    body: dict[str, Plain] = {
        "labels": place.labels,
        "template": {"labels": place.labels, "taskCount": 1, "template": task},
    }
    if place.ttl_s > TASK_S:
        body["launchStage"] = "BETA"
    return body


def _secret(place: Place) -> Iterator[Step]:
    """The token of gated models, from the keyboard to Secret Manager."""
    secret = place.settings.secret
    if secret:
        command = f"gcloud secrets create {secret} --project={place.project} --data-file=-"
        undo = f"gcloud secrets delete {secret} --project={place.project}"
        yield Step(what="keep the access token of the model (paste it, then Ctrl-D)", command=command, undo=undo)


def _notes(blueprint: Blueprint, place: Place, instance: Instance) -> Iterator[str]:
    """What has to be known of every deployment."""
    if place.region not in instance.regions:
        yield f"No source lists {instance.chip} on Cloud Run in {place.region}; it is in {', '.join(instance.regions)}."
    if blueprint.way not in (None, "on-demand"):
        yield f"Cloud Run is paid by the second of an instance, in one way: the bill of {blueprint.way} does not hold."
    yield "The GPU is without zonal redundancy; its quota is for each project and region."


def _service_notes(place: Place) -> Iterator[str]:
    """What has to be known of a service."""
    yield "The first instance puts the weights into the bucket, later ones read them there. Callers: roles/run.invoker."
    yield "An instance that has not answered after eight minutes is given up: put large models into an own image."
    yield f"A service at rest costs nothing and has no end of its own (label expires-at={place.expires})."


def _job_notes(place: Place, attempts: int) -> Iterator[str]:
    """What has to be known of a job."""
    if place.ttl_s > TASK_S:
        yield "Tasks with a GPU that run longer than an hour are a preview (twelve hours at most)."
    if attempts > 1:
        yield f"The lifetime takes {attempts} attempts: the program has to resume from CHECKPOINT_DIR."


CLOUD_RUN = CloudRun()
