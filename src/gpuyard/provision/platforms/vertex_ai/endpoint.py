"""Vertex AI endpoints: the model with its server, the endpoint, and the replicas behind it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import Launch, serving_of
from gpuyard.provision.platforms.requests import Request
from gpuyard.provision.platforms.slices import Slices
from gpuyard.provision.platforms.vertex_ai.machines import machine_spec
from gpuyard.provision.settings import Place

__all__ = ["DEPLOY", "deployed_id", "endpoint_requests"]

DEPLOY = "aiplatform.projects.locations.endpoints.deployModel"
PREDICT = "/v1/completions"  # of the engines' OpenAI interface
METRIC = "aiplatform.googleapis.com/prediction/online/request_count"  # requests a minute and replica
SHARED_MB = "16384"
START_S = 3600


def deployed_id(place: Place) -> str:
    """The id of the deployed model: digits only."""
    return str(int(place.hash[:7], 16))


def endpoint_requests(blueprint: Blueprint, place: Place, launch: Launch, slices: Slices | None) -> Iterator[Request]:
    """Model, endpoint, deployment."""
    here: dict[str, Plain] = {"projectsId": place.project, "locationsId": place.region}
    model: dict[str, Plain] = {
        "displayName": place.name,
        "description": place.stamp,
        "labels": place.labels,
        "containerSpec": _container(launch),
    }
    yield Request(
        file="40-model.json", what=f"model: {launch.framework} as its server",
        method="aiplatform.projects.locations.models.upload", parameters=here,
        body={"modelId": place.name, "model": model}, resource=place.name,
    )  # fmt: skip
    yield Request(
        file="50-endpoint.json", what="dedicated endpoint; callers need roles/aiplatform.user",
        method="aiplatform.projects.locations.endpoints.create", parameters={**here, "endpointId": place.name},
        body={
            "displayName": place.name, "description": place.stamp, "labels": place.labels,
            "dedicatedEndpointEnabled": True,
        },
        resource=place.name,
    )  # fmt: skip
    yield _deployment(blueprint, place, launch, slices, here)


def _container(launch: Launch) -> dict[str, Plain]:
    """The server's container with its port, routes and probes."""
    port = launch.port or 8080
    probe: dict[str, Plain] = {"httpGet": {"path": launch.health, "port": port}, "periodSeconds": 10}
    return {
        "imageUri": launch.image,
        "command": ["bash", "-c"],
        "args": [launch.script()],
        "env": [{"name": row.name, "value": row.value} for row in launch.variables],
        "ports": [{"containerPort": port}],
        "healthRoute": launch.health,
        "predictRoute": PREDICT,
        "sharedMemorySizeMb": SHARED_MB,
        "startupProbe": {**probe, "failureThreshold": START_S // 10},
        "deploymentTimeout": f"{START_S}s",
    }


def _deployment(
    blueprint: Blueprint, place: Place, launch: Launch, slices: Slices | None, here: dict[str, Plain]
) -> Request:
    """The replicas: bounds from the plan, and the load of one replica as the target."""
    scaling = serving_of(blueprint).autoscaling
    least = max(1, scaling.least_replicas)
    most = max(least, scaling.most_replicas)
    resources: dict[str, Plain] = {
        "machineSpec": machine_spec(blueprint, place, slices, int(launch.chips_per_machine)),
        "minReplicaCount": least,
        "maxReplicaCount": most,
        "autoscalingMetricSpecs": [{"metricName": METRIC, "target": max(1, round(60 * scaling.requests_per_s))}],
    }
    if blueprint.way == "spot":
        resources["spot"] = True
    deployed: dict[str, Plain] = {
        "id": deployed_id(place),
        "model": f"projects/{place.project}/locations/{place.region}/models/{place.name}",
        "displayName": place.name,
        "dedicatedResources": resources,
    }
    if place.settings.service_account:
        deployed["serviceAccount"] = place.settings.service_account
    return Request(
        file="60-deploy.json", what=f"{least} to {most} replicas of the model behind the endpoint", method=DEPLOY,
        parameters={**here, "endpointsId": place.name},
        body={"deployedModel": deployed, "trafficSplit": {"0": 100}}, resource="",
    )  # fmt: skip
