"""KubeRay objects: a RayJob for a batch job, a RayService for a service."""

from __future__ import annotations

import shlex

import yaml

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.document.frozen_json import Plain
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.replicas import machines_per_replica, service_of
from gpuyard.provision.platforms.manifests.expiry import expiry_objects
from gpuyard.provision.platforms.manifests.fabric_setup import claim_objects
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.services import replica_bounds
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.restarts import restart_limit
from gpuyard.units import HOUR_S

RAY_VERSION = "2.52.0"
RAY_IMAGE = f"rayproject/ray:{RAY_VERSION}-gpu"
RAY_LLM_IMAGE = f"rayproject/ray-llm:{RAY_VERSION}-py311-cu128"
MAX_NAME = 40
RETAIN_S = HOUR_S  # a finished job stays for its logs


def ray_job_objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes, queue: str
) -> tuple[Object, ...]:
    """Return a RayJob, whose Ray cluster exists as long as the job."""
    meta = metadata(settings, settings.short(MAX_NAME))
    if queue:
        meta = {**meta, "labels": {**settings.labels, "kueue.x-k8s.io/queue-name": queue}}
    program = settings.requested.program or "train.py"
    job: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": meta,
        "spec": {
            "entrypoint": f"python {program}",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": RETAIN_S,
            "activeDeadlineSeconds": settings.ttl_s,
            "backoffLimit": restart_limit(blueprint, settings),
            **({"suspend": True} if queue else {}),
            "rayClusterSpec": _cluster(
                blueprint, settings, launch, nodes, blueprint.machine_count, blueprint.machine_count
            ),
        },
    }
    storage = storage_objects(blueprint, settings, launch, nodes)
    return (
        *storage,
        *claim_objects(nodes, settings, settings.labels, blueprint.machine_count),
        job,
    )


def ray_service_objects(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes
) -> tuple[Object, ...]:
    """Return a RayService with vLLM, which scales by the ongoing requests per replica."""
    service = service_of(blueprint)
    least, most = replica_bounds(blueprint)
    arguments = shlex.split(service.engine.command[0])
    model = arguments[arguments.index("serve") + 1]
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
    machines = machines_per_replica(blueprint)
    ray_service: Object = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata(settings, settings.short(MAX_NAME)),
        "spec": {
            "serveConfigV2": config,
            "rayClusterConfig": {
                **_cluster(blueprint, settings, launch, nodes, least * machines, most * machines),
                "enableInTreeAutoscaling": True,
            },
        },
    }
    claims = claim_objects(nodes, settings, settings.labels, most * machines)
    end = () if nodes.is_onprem else expiry_objects(settings, (ray_service,))
    return (*storage_objects(blueprint, settings, launch, nodes), *claims, ray_service, *end)


def _cluster(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    least: int,
    most: int,
) -> Object:
    # A head without accelerators, and one worker per machine with all of its accelerators.
    worker = pod_template(blueprint, settings, launch, nodes)
    spec = worker["spec"]
    assert isinstance(spec, dict)
    containers = spec["containers"]
    assert isinstance(containers, list)
    container = containers[0]
    assert isinstance(container, dict)
    del container["command"]  # the operator starts Ray itself, after the args
    if launch.fabric_lines():
        container["args"] = list(launch.fabric_lines())
    head_container: Object = {
        "name": "head",
        "image": launch.image,
        "resources": {
            "limits": {"cpu": "8", "memory": "32Gi"},
            "requests": {"cpu": "8", "memory": "32Gi"},
        },
        "env": [
            row
            for row in _rows(container.get("env"))
            if isinstance(row, dict) and row.get("name") == "HF_TOKEN"
        ],
        "ports": [
            {"name": "gcs", "containerPort": 6379},
            {"name": "dashboard", "containerPort": 8265},
            {"name": "client", "containerPort": 10001},
            {"name": "serve", "containerPort": 8000},
        ],
    }
    head: Object = {
        "metadata": {"labels": settings.labels},
        "spec": {"serviceAccountName": settings.name, "containers": [head_container]},
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
    return value if isinstance(value, list) else []
