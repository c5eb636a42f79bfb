"""Requests whose resources are not found by path: named by the server, or actions."""

from __future__ import annotations

import json
from typing import Any

from gpuyard.provision.artefact import Artefact, request_artefact

LABELS = {
    "managed-by": "gpuyard",
    "owner": "ada",
    "plan-hash": "0123456789abcdef",
    "expires-at": "2026-11-20t1400z",
}
REGION = {"projectsId": "yard-1", "locationsId": "us-central1"}


def job_files() -> tuple[Artefact, ...]:
    """Return a custom job, and a Cloud Run job with its execution."""
    pool = {
        "machineSpec": {"machineType": "g2-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": "x"},
    }
    job: Any = {
        "displayName": "work-012345",
        "labels": LABELS,
        "jobSpec": {"workerPoolSpecs": [pool], "scheduling": {"timeout": "3600s"}},
    }
    run: Any = {
        "labels": LABELS,
        "template": {"template": {"containers": [{"image": "x"}], "timeout": "3600s"}},
    }
    return (
        request_artefact(
            "10-job.json", "aiplatform.projects.locations.customJobs.create", {**REGION}, job
        ),
        request_artefact(
            "20-run.json",
            "run.projects.locations.jobs.create",
            {**REGION, "jobId": "work-012345"},
            run,
        ),
        request_artefact(
            "30-go.json", "run.projects.locations.jobs.run", {**REGION, "jobsId": "work-012345"}, {}
        ),
    )


def endpoint_files() -> tuple[Artefact, ...]:
    """Return a model, an endpoint, and the deployment of the model."""
    model = "projects/yard-1/locations/us-central1/models/work-012345"
    upload: Any = {
        "modelId": "work-012345",
        "model": {"displayName": "work-012345", "labels": LABELS},
    }
    place: Any = {"displayName": "work-012345", "labels": LABELS}
    deploy: Any = {
        "deployedModel": {
            "model": model,
            "displayName": "work-012345",
            "dedicatedResources": {
                "machineSpec": {"machineType": "g2-standard-4"},
                "minReplicaCount": 1,
            },
        }
    }
    at = {**REGION, "endpointsId": "work-012345"}
    return (
        request_artefact(
            "10-model.json", "aiplatform.projects.locations.models.upload", {**REGION}, upload
        ),
        request_artefact(
            "20-endpoint.json",
            "aiplatform.projects.locations.endpoints.create",
            {**REGION, "endpointId": "work-012345"},
            place,
        ),
        request_artefact(
            "30-deploy.json", "aiplatform.projects.locations.endpoints.deployModel", at, deploy
        ),
    )


def without_labels(artefact: Artefact) -> Artefact:
    """Return the request without labels."""
    tree = json.loads(artefact.text)
    tree["body"].pop("labels", None)
    return Artefact(name=artefact.name, text=json.dumps(tree))
