"""Vertex AI endpoints: model, endpoint, and the deployment with its replicas."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import service_of
from gpuyard.provision.launch.tpu_slices import Slices
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.vertex_ai.machine_spec import machine_spec

DEPLOY = "aiplatform.projects.locations.endpoints.deployModel"
PREDICT_ROUTE = "/v1/completions"  # the engines serve the OpenAI API
# Requests per minute and replica.
METRIC = "aiplatform.googleapis.com/prediction/online/request_count"
SHARED_MEMORY_MB = "16384"
START_TIMEOUT_S = 3600


def deployed_id(settings: ResolvedSettings) -> str:
    """Return the id of the deployed model, which takes digits only."""
    return str(int(settings.hash[:7], 16))


def endpoint_requests(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, slices: Slices | None
) -> Iterator[Request]:
    """Yield the requests that upload the model, create the endpoint and deploy the model."""
    location: dict[str, Plain] = {"projectsId": settings.project, "locationsId": settings.region}
    model: dict[str, Plain] = {
        "displayName": settings.name,
        "description": settings.labels_text,
        "labels": settings.labels,
        "containerSpec": _container(launch),
    }
    yield Request(
        file="40-model.json",
        what=f"Upload the model with {launch.framework} as its server",
        method="aiplatform.projects.locations.models.upload",
        parameters=location,
        body={"modelId": settings.name, "model": model},
        resource=settings.name,
    )
    yield Request(
        file="50-endpoint.json",
        what="Create the dedicated endpoint; callers need roles/aiplatform.user",
        method="aiplatform.projects.locations.endpoints.create",
        parameters={**location, "endpointId": settings.name},
        body={
            "displayName": settings.name,
            "description": settings.labels_text,
            "labels": settings.labels,
            "dedicatedEndpointEnabled": True,
        },
        resource=settings.name,
    )
    yield _deployment(blueprint, settings, launch, slices, location)


def _container(launch: Launch) -> dict[str, Plain]:
    port = launch.port or 8080
    probe: dict[str, Plain] = {
        "httpGet": {"path": launch.health, "port": port},
        "periodSeconds": 10,
    }
    return {
        "imageUri": launch.image,
        "command": ["bash", "-c"],
        "args": [launch.script()],
        "env": [{"name": row.name, "value": row.value} for row in launch.variables],
        "ports": [{"containerPort": port}],
        "healthRoute": launch.health,
        "predictRoute": PREDICT_ROUTE,
        "sharedMemorySizeMb": SHARED_MEMORY_MB,
        "startupProbe": {**probe, "failureThreshold": START_TIMEOUT_S // 10},
        "deploymentTimeout": f"{START_TIMEOUT_S}s",
    }


def _deployment(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    slices: Slices | None,
    location: dict[str, Plain],
) -> Request:
    # Bounds from the plan; the autoscaling target is the planned load of one replica.
    scaling = service_of(blueprint).autoscaling
    least = max(1, scaling.min_replicas)
    most = max(least, scaling.max_replicas)
    resources: dict[str, Plain] = {
        "machineSpec": machine_spec(blueprint, settings, slices, int(launch.chips_per_machine)),
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "autoscalingMetricSpecs": [
            {"metricName": METRIC, "target": max(1, round(60 * scaling.requests_per_s))}
        ],
    }
    if blueprint.consumption == "spot":
        resources["spot"] = True
    deployed: dict[str, Plain] = {
        "id": deployed_id(settings),
        "model": f"projects/{settings.project}/locations/{settings.region}/models/{settings.name}",
        "displayName": settings.name,
        "dedicatedResources": resources,
    }
    if settings.requested.service_account:
        deployed["serviceAccount"] = settings.requested.service_account
    return Request(
        file="60-deploy.json",
        what=f"Deploy {least} to {most} replicas of the model to the endpoint",
        method=DEPLOY,
        parameters={**location, "endpointsId": settings.name},
        body={"deployedModel": deployed, "trafficSplit": {"0": 100}},
        resource="",
    )
