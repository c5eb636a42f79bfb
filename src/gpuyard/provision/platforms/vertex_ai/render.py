"""Vertex AI: custom jobs for work that ends, endpoints for services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.blueprint import Blueprint
from gpuyard.errors import Infeasible
from gpuyard.provision.launch import job_launch, machines_per_replica, server_launch
from gpuyard.provision.platform import Artefacts, Step, Unsuitable, desks_cannot, unsuitable
from gpuyard.provision.platforms.bucket import bucket_requests
from gpuyard.provision.platforms.requests import Request, request_files, request_steps
from gpuyard.provision.platforms.slices import Slices, slices_of
from gpuyard.provision.platforms.vertex_ai.endpoint import DEPLOY, deployed_id, endpoint_requests
from gpuyard.provision.platforms.vertex_ai.job import job_request
from gpuyard.provision.platforms.vertex_ai.machines import FLEX_CHIPS
from gpuyard.provision.settings import Place, Settings, place_of

__all__ = ["VERTEX_AI"]

GKE = ("gke", "its node pools take every machine type by every way of paying")
REPLICA = ("gke", "a LeaderWorkerSet has replicas of several machines")
ALONE = ("compute-engine", "each of its machines ends with its own share")


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexAi:
    """Jobs and endpoints that Google runs."""

    name: str = "vertex-ai"
    label: str = "Vertex AI"

    def render(self, blueprint: Blueprint, settings: Settings) -> Artefacts | Unsuitable:
        """A custom job, or a model behind an endpoint."""
        desks = desks_cannot(self.name, "jobs and endpoints have no display to sit at", blueprint)
        if desks is not None:
            return desks
        why = self._against(blueprint) or _against_offer(blueprint)
        if why is not None:
            return unsuitable(self.name, why[0], blueprint, why[1])
        slices = slices_of(blueprint) if blueprint.is_tpu else None
        if isinstance(slices, Infeasible):
            return unsuitable(self.name, slices.what, blueprint, GKE)
        if slices is not None and slices.slice_count > 1 and blueprint.shape != "service":
            return unsuitable(self.name, "a custom job has one TPU slice", blueprint, GKE)
        place = place_of(blueprint, settings)
        if blueprint.shape == "service":
            return self._endpoint(blueprint, place, slices)
        return self._job(blueprint, place, slices)

    def _job(self, blueprint: Blueprint, place: Place, slices: Slices | None) -> Artefacts:
        """A custom job with its bucket."""
        launch = job_launch(blueprint, place, "pod")
        if slices is not None:
            launch = replace(launch, machine_count=1)  # JAX finds the hosts of its slice
        buckets, job = bucket_requests(place), job_request(blueprint, place, launch, slices)
        requests = (*buckets, job)
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=(*request_steps(buckets), *_job_steps(place, job)),
            notes=(*_job_notes(blueprint), *launch.notes),
        )

    def _endpoint(self, blueprint: Blueprint, place: Place, slices: Slices | None) -> Artefacts | Unsuitable:
        """A model, an endpoint and the deployment."""
        launch = server_launch(blueprint, place, "pod")
        if not launch.health:
            return unsuitable(
                self.name, f"{launch.framework} answers no HTTP, and endpoints speak nothing else", blueprint, GKE
            )
        requests = tuple(endpoint_requests(blueprint, place, launch, slices))
        return Artefacts(
            platform=self.name,
            files=request_files(requests),
            steps=tuple(_endpoint_steps(place, requests)),
            notes=(*_endpoint_notes(place), *launch.notes),
            unended="the deployed model",
        )

    def _against(self, blueprint: Blueprint) -> tuple[str, tuple[str, str] | None] | None:
        """What speaks against Vertex AI, and a better place where it is not the plan's own."""
        machine = blueprint.machine
        if machine.provider != "google":
            return f"{machine.name} stands in your own hall", None
        if machine.platforms.vertex_ai is None:
            return f"Vertex AI names no accelerator type for {machine.name}", GKE
        if machine.chip_count < 1:
            return f"{machine.name} holds a share of a GPU, and Vertex AI counts whole ones", GKE
        if blueprint.is_independent and blueprint.machine_count > 1:
            # The primary replica "reports status for the job as a whole"
            # (https://docs.cloud.google.com/vertex-ai/docs/training/distributed-training, 2026-11).
            return "a custom job ends with its first machine, and the shares of the others with it", ALONE
        if blueprint.shape == "service" and machines_per_replica(blueprint) > 1:
            return f"a replica takes {machines_per_replica(blueprint)} machines, and in version 1 it has one", REPLICA
        return None


def _against_offer(blueprint: Blueprint) -> tuple[str, tuple[str, str] | None] | None:
    """What speaks against the way of paying."""
    if blueprint.way != "flex-start":
        return None
    if blueprint.shape == "service":
        return "version 1 of the API deploys models on demand, on spot or in a reservation, not by flex-start", GKE
    if blueprint.machine.chip not in FLEX_CHIPS:
        return f"flex-start jobs take L4, A100, H100, H200 and B200, not {blueprint.machine.chip}", GKE
    return None


def _job_steps(place: Place, job: Request) -> Iterator[Step]:
    """How the job is sent, seen and ended: the server gives it its number."""
    found = (
        f"gcloud ai custom-jobs list --project={place.project} --region={place.region} "
        f"--filter=labels.plan-hash={place.hash[:16]}"
    )
    sent = next(iter(request_steps((job,))))
    undo = f"{found} --format='value(name)' | xargs -r -n 1 gcloud ai custom-jobs cancel"
    yield Step(what=sent.what, command=sent.command, undo=undo)
    yield Step(what="see how it stands", command=found)


def _endpoint_steps(place: Place, requests: tuple[Request, ...]) -> Iterator[Step]:
    """How the model is deployed, and how it is taken back."""
    for request, step in zip(requests, request_steps(requests), strict=True):
        if request.method == DEPLOY:
            undo = (
                f"gcloud ai endpoints undeploy-model {place.name} --deployed-model-id={deployed_id(place)} "
                f"--project={place.project} --region={place.region}"
            )
            yield Step(what=step.what, command=step.command, undo=undo)
        else:
            yield step


def _job_notes(blueprint: Blueprint) -> Iterator[str]:
    """What has to be known of a job."""
    yield "Buckets are folders under /gcs; the job's identity (serviceAccount) needs roles/storage.objectUser on them."
    if blueprint.shape == "multi-node" and not blueprint.is_tpu:
        yield (
            "No document tells how Vertex AI gives a container the GPU fabric: the script uses the NCCL plugin where "
            "it finds one. Measure an all-reduce before you trust the planned time."
        )
    if blueprint.way == "flex-start":
        yield "The job waits up to a day for capacity; waiting is free."


def _endpoint_notes(place: Place) -> Iterator[str]:
    """What has to be known of an endpoint."""
    yield (
        "Endpoints have no end of their own, and version 1 keeps a replica at rest: it is billed until the model is "
        f"undeployed (label expires-at={place.expires})."
    )
    yield "Replicas follow requests a minute, at the rate that the plan gives one replica."
    yield "predictRoute is /v1/completions; for chat models set it to /v1/chat/completions."
    yield "A gated model needs a token, which has no place in a request: put the weights into an image of your own."


VERTEX_AI = VertexAi()
