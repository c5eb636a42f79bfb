"""KubeRay: a RayJob for work that ends, a RayService for replicas that answer."""

from __future__ import annotations

import shlex

import yaml

from gpuyard.blueprint import Blueprint
from gpuyard.document import Plain
from gpuyard.provision.launch import Launch, machines_per_replica, serving_of
from gpuyard.provision.platforms.manifests import Nodes, Object, replica_bounds
from gpuyard.provision.platforms.manifests.plumbing import claim_objects
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.settings import Place

__all__ = ["RAY_IMAGE", "RAY_LLM_IMAGE", "ray_job_objects", "ray_service_objects"]

RAY_VERSION = "2.52.0"
RAY_IMAGE, RAY_LLM_IMAGE = f"rayproject/ray:{RAY_VERSION}-gpu", f"rayproject/ray-llm:{RAY_VERSION}-py311-cu128"
MOST_NAME = 40
KEPT_S = 3600


def ray_job_objects(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes, queue: str) -> tuple[Object, ...]:
    """A Ray cluster that lives as long as the job."""
    meta = metadata(place, place.short(MOST_NAME))
    if queue:
        meta = {**meta, "labels": {**place.labels, "kueue.x-k8s.io/queue-name": queue}}
    program = place.settings.program or "train.py"
    job: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": meta,
        "spec": {
            "entrypoint": f"python {program}",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": KEPT_S,
            "activeDeadlineSeconds": place.ttl_s,
            **({"suspend": True} if queue else {}),
            "rayClusterSpec": _cluster(
                blueprint, place, launch, nodes, blueprint.machine_count, blueprint.machine_count
            ),
        },
    }
    below = storage_objects(blueprint, place, launch, nodes)
    return (*below, *claim_objects(nodes, place, place.labels, blueprint.machine_count), job)


def ray_service_objects(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes) -> tuple[Object, ...]:
    """Ray Serve with vLLM: replicas by the requests that each has in hand."""
    service, (least, most) = serving_of(blueprint), replica_bounds(blueprint)
    words = shlex.split(service.engine.command[0])
    model = words[words.index("serve") + 1]
    llm: Object = {
        "model_loading_config": {"model_id": model.rpartition("/")[2], "model_source": model},
        "engine_kwargs": {"tensor_parallel_size": service.tp, "pipeline_parallel_size": service.pp},
        "deployment_config": {
            "autoscaling_config": {
                "min_replicas": least,
                "max_replicas": most,
                "target_ongoing_requests": service.autoscaling.target,
            }
        },
    }
    application: Object = {
        "name": "llm",
        "route_prefix": "/",
        "import_path": "ray.serve.llm:build_openai_app",
        "args": {"llm_configs": [llm]},
    }
    config = yaml.safe_dump({"applications": [application]}, sort_keys=False)
    per = machines_per_replica(blueprint)
    made: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata(place, place.short(MOST_NAME)),
        "spec": {
            "serveConfigV2": config,
            "rayClusterConfig": {
                **_cluster(blueprint, place, launch, nodes, least * per, most * per),
                "enableInTreeAutoscaling": True,
            },
        },
    }
    claims = claim_objects(nodes, place, place.labels, most * per)
    return (*storage_objects(blueprint, place, launch, nodes), *claims, made)


def _cluster(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes, least: int, most: int) -> Object:
    """A head without accelerators, and workers with all of a machine's."""
    worker = pod_template(blueprint, place, launch, nodes)
    spec = worker["spec"]
    assert isinstance(spec, dict)
    boxes = spec["containers"]
    assert isinstance(boxes, list)
    box = boxes[0]
    assert isinstance(box, dict)
    del box["command"]  # the operator starts Ray itself, after what stands in args
    if launch.sourced:
        box["args"] = [f"source {path}" for path in launch.sourced]
    head_box: Object = {
        "name": "head",
        "image": launch.image,
        "resources": {"limits": {"cpu": "8", "memory": "32Gi"}, "requests": {"cpu": "8", "memory": "32Gi"}},
        "env": [row for row in _rows(box.get("env")) if isinstance(row, dict) and row.get("name") == "HF_TOKEN"],
        "ports": [
            {"name": "gcs", "containerPort": 6379},
            {"name": "dashboard", "containerPort": 8265},
            {"name": "client", "containerPort": 10001},
            {"name": "serve", "containerPort": 8000},
        ],
    }
    head: Object = {
        "metadata": {"labels": place.labels},
        "spec": {"serviceAccountName": place.name, "containers": [head_box]},
    }
    group: Object = {
        "groupName": "workers",
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": most,
        "rayStartParams": {},
        "template": worker,
    }
    return {
        "rayVersion": RAY_VERSION,
        "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": head},
        "workerGroupSpecs": [group],
    }


def _rows(value: Plain) -> list[Plain]:
    """The rows of a list."""
    return value if isinstance(value, list) else []
