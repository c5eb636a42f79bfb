"""Vertex AI: custom jobs for batch jobs, endpoints for services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.errors import Infeasible
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.job import job_launch
from gpuyard.provision.launch.replicas import machines_per_replica
from gpuyard.provision.launch.server import server_launch
from gpuyard.provision.launch.tpu_slices import Slices, slices_of
from gpuyard.provision.platform import (
    Artefacts,
    DeployStep,
    Unsuitable,
    not_google,
    pools_unsupported,
    unsuitable,
    workstations_unsupported,
)
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.uploads import steps_with_uploads
from gpuyard.provision.platforms.vertex_ai.endpoint import DEPLOY, deployed_id, endpoint_requests
from gpuyard.provision.platforms.vertex_ai.job import job_request
from gpuyard.provision.platforms.vertex_ai.machine_spec import FLEX_CHIPS
from gpuyard.provision.shell_text import shell

GKE = ("gke", "its node pools support every machine type and consumption option")
REPLICA = ("gke", "a LeaderWorkerSet has replicas of several machines")
INDEPENDENT = ("compute-engine", "each machine exits after its own share")


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAi:
    """Managed jobs and endpoints."""

    name: str = "vertex-ai"
    label: str = "Vertex AI"

    def render(self, blueprint: Blueprint, settings: ResolvedSettings) -> Artefacts | Unsuitable:
        """Render a custom job, or a model behind an endpoint."""
        obstacle = self._obstacle(blueprint) or self._flex_start_obstacle(blueprint)
        if obstacle is not None:
            return obstacle
        slices = slices_of(blueprint) if blueprint.is_tpu else None
        if isinstance(slices, Infeasible):
            return unsuitable(self.name, slices.what, blueprint, GKE)
        if blueprint.shape == "service":
            return self._endpoint(blueprint, settings, slices)
        if slices is not None and slices.slice_count > 1:
            return unsuitable(self.name, "a custom job has one TPU slice", blueprint, GKE)
        return self._job(blueprint, settings, slices)

    def _job(
        self, blueprint: Blueprint, settings: ResolvedSettings, slices: Slices | None
    ) -> Artefacts:
        launch = job_launch(blueprint, settings, "pod")
        if slices is not None:
            launch = replace(launch, machine_count=1)  # JAX discovers the hosts of its slice
        buckets = bucket_requests(settings)
        job = job_request(blueprint, settings, launch, slices)
        return Artefacts(
            platform=self.name,
            files=request_files((*buckets, job)),
            steps=(*steps_with_uploads(blueprint, settings, buckets), *_job_steps(settings, job)),
            notes=(*_job_notes(blueprint), *launch.notes),
        )

    def _endpoint(
        self, blueprint: Blueprint, settings: ResolvedSettings, slices: Slices | None
    ) -> Artefacts | Unsuitable:
        launch = server_launch(blueprint, settings, "pod")
        if launch.mounts:
            why = "an endpoint's container mounts no bucket with the exported model"
            return unsuitable(self.name, why, blueprint, GKE)
        if not launch.health:
            why = f"{launch.framework} does not serve HTTP, which endpoints need"
            return unsuitable(self.name, why, blueprint, GKE)
        requests = tuple(endpoint_requests(blueprint, settings, launch, slices))
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=tuple(_endpoint_steps(settings, requests)),
            notes=(*_endpoint_notes(settings), *launch.notes),
            without_ttl="the deployed model",
            unbounded="the deployed model",
        )

    def _obstacle(self, blueprint: Blueprint) -> Unsuitable | None:
        machine = blueprint.machine
        workstations = workstations_unsupported(
            self.name, "jobs and endpoints have no display", blueprint
        )
        pools = pools_unsupported(self.name, blueprint)
        if workstations is not None or pools is not None:
            return workstations or pools
        elsewhere = not_google(self.name, blueprint)
        if elsewhere is not None:
            return elsewhere
        if machine.platforms.vertex_ai is None:
            why = f"Vertex AI has no accelerator type for {machine.name}"
            return unsuitable(self.name, why, blueprint, GKE)
        if machine.chip_count < 1:
            why = f"{machine.name} has a fraction of a GPU, and Vertex AI allocates whole GPUs"
            return unsuitable(self.name, why, blueprint, GKE)
        if blueprint.is_independent and blueprint.machine_count > 1:
            # The primary replica "reports status for the job as a whole"
            # (https://docs.cloud.google.com/vertex-ai/docs/training/distributed-training, 2026-11).
            why = "a custom job stops when its first machine finishes, before the others are done"
            return unsuitable(self.name, why, blueprint, INDEPENDENT)
        if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
            count = machines_per_replica(blueprint)
            why = f"a replica needs {count} machines, and version 1 of the API supports one"
            return unsuitable(self.name, why, blueprint, REPLICA)
        return None

    def _flex_start_obstacle(self, blueprint: Blueprint) -> Unsuitable | None:
        if blueprint.consumption != "flex-start":
            return None
        if blueprint.shape == "service":
            why = "version 1 of the API deploys models on-demand, spot or reserved, not flex-start"
            return unsuitable(self.name, why, blueprint, GKE)
        chip = blueprint.machine.chip
        if chip not in FLEX_CHIPS:
            why = f"flex-start jobs support L4, A100, H100, H200 and B200, not {chip}"
            return unsuitable(self.name, why, blueprint, GKE)
        return None


def _job_steps(settings: ResolvedSettings, job: Request) -> Iterator[DeployStep]:
    # The server chooses the id of the job, so it is found by its label.
    list_jobs = shell(
        "gcloud ai custom-jobs list --project={s.project} --region={s.region} "
        "--filter=labels.plan-hash={digits}",
        s=settings,
        digits=settings.hash[:16],
    )
    undo = f"{list_jobs} --format='value(name)' | xargs -r -n 1 gcloud ai custom-jobs cancel"
    yield replace(request_steps((job,))[0], undo=undo)
    yield DeployStep(what="Show the state of the job", command=list_jobs)


def _endpoint_steps(
    settings: ResolvedSettings, requests: tuple[Request, ...]
) -> Iterator[DeployStep]:
    for request, step in zip(requests, request_steps(requests), strict=True):
        if request.method == DEPLOY:
            undo = shell(
                "gcloud ai endpoints undeploy-model {s.name} --deployed-model-id={model} "
                "--project={s.project} --region={s.region}",
                s=settings,
                model=deployed_id(settings),
            )
            yield replace(step, undo=undo)
        else:
            yield step


def _job_notes(blueprint: Blueprint) -> Iterator[str]:
    yield (
        "Buckets are mounted under /gcs; the job's service account needs roles/storage.objectUser "
        "on them."
    )
    if blueprint.shape == "multi-node" and not blueprint.is_tpu:
        yield (
            "How Vertex AI exposes the GPU fabric to containers is not documented: the script uses "
            "the NCCL plugin if it is present. Benchmark an all-reduce before you rely on the "
            "planned time."
        )
    if blueprint.consumption == "flex-start":
        yield "The job waits up to a day for capacity; waiting is not billed."


def _endpoint_notes(settings: ResolvedSettings) -> Iterator[str]:
    yield (
        "Endpoints have no TTL, and version 1 of the API always runs at least one replica: it is "
        f"billed until you undeploy the model (label expires-at={settings.expires})."
    )
    yield "Replicas scale by requests per minute, at the planned rate of one replica."
    yield "predictRoute is /v1/completions; for chat models set it to /v1/chat/completions."
    yield (
        "A gated model needs an access token, which must not be part of a request: build the "
        "weights into your own image."
    )


VERTEX_AI = VertexAi()
