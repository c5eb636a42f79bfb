"""Cloud Run: services that scale to zero, and jobs, with one GPU per instance."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.plan.inference.serverless import Instance, instance_for
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.launch.launch import BucketMount, EnvVar, Launch
from gpuyard.provision.launch.replicas import machines_per_replica, service_of
from gpuyard.provision.launch.server import server_launch
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    pools_unsupported,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.cloud_run.instances import container, task_parts
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.service_account import bucket_grant, secret_grant
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.provision.shell_text import shell
from gpuyard.units import DAY_S, HOUR_S
from gpuyard.workload.where import Where

GKE = ("gke", "its pods can use any number of GPUs, and the fabric between them")
NAME_LENGTH = 49
MODELS = "/mnt/models"
MAX_REQUEST_S = HOUR_S
# A task with a GPU runs for an hour, or twelve in preview
# (https://docs.cloud.google.com/run/docs/configuring/task-timeout).
MAX_TASK_S = HOUR_S
MAX_PREVIEW_TASK_S = 12 * HOUR_S
MAX_RETRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRun:
    """Serverless containers."""

    name: str = "cloud-run"
    label: str = "Cloud Run"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render a service, or a job and its execution."""
        obstacle = self._obstacle(blueprint)
        if obstacle is not None:
            return obstacle
        instance = instance_for(blueprint.machine, Where())
        if instance is None:
            name = blueprint.machine.name
            why = f"Cloud Run has one L4 or one RTX PRO 6000 per instance, not {name}"
            nearest = GKE if blueprint.machine.provider == "google" else None
            return unsuitable(self.name, why, blueprint, nearest)
        if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
            count = machines_per_replica(blueprint)
            why = f"a replica needs {count} machines, and instances cannot work together"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.shape == "service":
            return self._service(blueprint, settings, instance)
        attempts = math.ceil(settings.ttl_s / MAX_PREVIEW_TASK_S)
        if attempts > 1 + MAX_RETRIES:
            days = MAX_PREVIEW_TASK_S * (1 + MAX_RETRIES) // DAY_S
            why = f"a job with all its retries runs for at most {days} days"
            return unsuitable(self.name, why, blueprint, GKE)
        return self._job(blueprint, settings, instance, attempts)

    def _obstacle(self, blueprint: Blueprint) -> Unsuitable | None:
        workstations = workstations_unsupported(
            self.name, "instances serve requests and have no display", blueprint
        )
        if workstations is not None or blueprint.shape != "multi-node":
            return workstations or pools_unsupported(self.name, blueprint)
        why = "instances have one GPU each and no network between them"
        if blueprint.is_independent:
            count = blueprint.machine_count
            why = f"the plan has {count} machines, and a job with one task has one GPU"
        nearest = GKE if blueprint.machine.provider == "google" else None
        return unsuitable(self.name, why, blueprint, nearest)

    def _service(
        self, blueprint: Blueprint, settings: ResolvedSettings, instance: Instance
    ) -> Artefacts:
        launch = _with_cache(server_launch(blueprint, settings, "pod"), settings)
        name = settings.short(NAME_LENGTH)
        request = Request(
            file="50-service.json",
            what="Create the service, with internal ingress only",
            method="run.projects.locations.services.create",
            parameters={
                "projectsId": settings.project,
                "locationsId": settings.region,
                "serviceId": name,
            },
            body=_service_body(blueprint, settings, launch, instance),
            resource=name,
        )
        requests = (*bucket_requests(settings, "model"), request)
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=_service_steps(blueprint, settings, requests),
            notes=(
                *_notes(blueprint, settings, instance),
                *_service_notes(settings),
                *launch.notes,
            ),
            without_ttl="the service",
            unbounded="the service",
        )

    def _job(
        self, blueprint: Blueprint, settings: ResolvedSettings, instance: Instance, attempts: int
    ) -> Artefacts:
        launch = job_launch(blueprint, settings, "pod")
        location: dict[str, Plain] = {
            "projectsId": settings.project,
            "locationsId": settings.region,
        }
        job = Request(
            file="50-job.json",
            what="Create the job with one task",
            method="run.projects.locations.jobs.create",
            parameters={**location, "jobId": settings.name},
            body=_job_body(settings, launch, instance, attempts),
            resource=settings.name,
        )
        run = Request(
            file="60-run.json",
            what="Run the job once",
            method="run.projects.locations.jobs.run",
            parameters={**location, "jobsId": settings.name},
            body={},
            resource="",
        )
        requests = (*bucket_requests(settings), job)
        undo = (
            "gcloud run jobs executions list --job={s.name} "
            "--project={s.project} --region={s.region} --format='value(name)' | "
            "xargs -r -n 1 gcloud run jobs executions cancel --quiet --region={s.region}"
        )
        undo = shell(undo, s=settings)
        return Artefacts(
            platform=self.name,
            files=request_files((*requests, run)),
            steps=(
                *steps_with_uploads(blueprint, settings, requests),
                dataclasses.replace(request_steps((run,))[0], undo=undo),
            ),
            notes=(
                *_notes(blueprint, settings, instance),
                *_job_notes(settings, attempts),
                *launch.notes,
            ),
        )


def _with_cache(launch: Launch, settings: ResolvedSettings) -> Launch:
    # The weights go to a bucket, because the disk of an instance is its memory.
    if launch.mounts:
        return launch
    variables = tuple(row for row in launch.variables if row.name != "HF_HOME")
    mount = BucketMount(name="models", bucket=settings.bucket, path=MODELS)
    return dataclasses.replace(
        launch,
        variables=(*variables, EnvVar(name="HF_HOME", value=f"{MODELS}/hf")),
        mounts=(*launch.mounts, mount),
    )


def _service_body(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, instance: Instance
) -> dict[str, Plain]:
    # Bounds from the plan; a serverless plan scales to zero.
    service = service_of(blueprint)
    scaling = service.autoscaling
    least = 0 if service.serverless else scaling.min_replicas
    template: dict[str, Plain] = {
        "labels": settings.labels,
        "containers": [container(launch, settings, instance, is_service=True)],
        **task_parts(launch, settings, instance),
        "scaling": {
            "minInstanceCount": least,
            "maxInstanceCount": max(1, least, scaling.max_replicas),
        },
        "maxInstanceRequestConcurrency": max(1, min(1000, round(scaling.target))),
        "timeout": f"{MAX_REQUEST_S}s",
    }
    return {
        "description": settings.labels_text,
        "labels": settings.labels,
        "ingress": "INGRESS_TRAFFIC_INTERNAL_ONLY",
        "template": template,
    }


def _job_body(
    settings: ResolvedSettings, launch: Launch, instance: Instance, attempts: int
) -> dict[str, Plain]:
    # The attempts add up to the TTL; each resumes from the last checkpoint.
    task: dict[str, Plain] = {
        "containers": [container(launch, settings, instance, is_service=False)],
        **task_parts(launch, settings, instance),
        "maxRetries": max(1, attempts - 1),
        "timeout": f"{min(settings.ttl_s, MAX_PREVIEW_TASK_S)}s",
    }
    body: dict[str, Plain] = {
        "labels": settings.labels,
        "template": {"labels": settings.labels, "taskCount": 1, "template": task},
    }
    if settings.ttl_s > MAX_TASK_S:
        body["launchStage"] = "BETA"
    return body


def _service_steps(
    blueprint: Blueprint, settings: ResolvedSettings, requests: Sequence[Request]
) -> tuple[DeployStep, ...]:
    # Cloud Run checks at the deployment that its identity can read the secret and the bucket.
    *before, deploy = steps_with_uploads(blueprint, settings, requests)
    grants: tuple[DeployStep, ...] = (bucket_grant(settings),)
    if settings.requested.secret:
        grants = (secret_grant(settings), *grants)
    return (*_secret(settings), *before, *grants, deploy)


def _secret(settings: ResolvedSettings) -> Iterator[DeployStep]:
    secret = settings.requested.secret
    if secret:
        name = shell("{secret} --project={s.project}", secret=secret, s=settings)
        command = f"gcloud secrets create {name} --data-file=-"
        undo = f"gcloud secrets delete {name}"
        yield DeployStep(
            what="Store the access token of the model (paste it, then Ctrl-D)",
            command=command,
            undo=undo,
        )


def _notes(blueprint: Blueprint, settings: ResolvedSettings, instance: Instance) -> Iterator[str]:
    if settings.region not in instance.regions:
        yield (
            f"{instance.chip} on Cloud Run is not documented for {settings.region}; "
            f"it is available in {', '.join(instance.regions)}."
        )
    if blueprint.consumption not in (None, "on-demand"):
        yield (
            "Cloud Run has one price, per second of an instance: "
            f"the cost estimate for {blueprint.consumption} does not apply."
        )
    yield "The GPU has no zonal redundancy; its quota is per project and region."


def _service_notes(settings: ResolvedSettings) -> Iterator[str]:
    yield (
        "The first instance downloads the weights into the bucket; later ones read them from it. "
        "Callers need roles/run.invoker."
    )
    yield (
        "An instance that is not ready after eight minutes is terminated: "
        "build large models into your own image."
    )
    yield f"An idle service costs nothing and has no TTL (label expires-at={settings.expires})."


def _job_notes(settings: ResolvedSettings, attempts: int) -> Iterator[str]:
    if settings.ttl_s > MAX_TASK_S:
        yield "GPU tasks longer than an hour are a preview feature (at most twelve hours)."
    if attempts > 1:
        yield f"The TTL spans {attempts} attempts: the program must resume from CHECKPOINT_DIR."


CLOUD_RUN = CloudRun()
