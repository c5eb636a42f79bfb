"""Batch jobs: a JobSet for several machines, a Job for one."""

from __future__ import annotations

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.errors import Infeasible
from gpuyard.provision.deployment_settings import ResolvedSettings
from gpuyard.provision.launch.launch import Launch
from gpuyard.provision.launch.tpu_slices import slices_of
from gpuyard.provision.platforms.manifests.fabric_setup import claim_objects
from gpuyard.provision.platforms.manifests.nodes import PodNodes
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.restarts import restart_limit
from gpuyard.units import HOUR_S

RETAIN_S = HOUR_S  # a finished job stays for its logs
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB = "w"
BLOCK = "cloud.google.com/gce-topology-block"
SUBBLOCK = "cloud.google.com/gce-topology-subblock"


def job_objects(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    *,
    queue: str,
    topology: bool = False,
) -> tuple[Object, ...]:
    """Return the job with its prerequisites.

    `queue` admits it; `topology` requests nodes close to each other.
    """
    storage = storage_objects(blueprint, settings, launch, nodes)
    claims = claim_objects(nodes, settings, settings.labels, blueprint.machine_count)
    if blueprint.shape == "single-node" and not blueprint.is_tpu:
        return (*storage, _job(blueprint, settings, launch, nodes, queue))
    return (*storage, *claims, _jobset(blueprint, settings, launch, nodes, queue, topology))


def _job(
    blueprint: Blueprint, settings: ResolvedSettings, launch: Launch, nodes: PodNodes, queue: str
) -> Object:
    template = pod_template(blueprint, settings, launch, nodes, restart="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _queued(metadata(settings), queue) if queue else metadata(settings),
        "spec": {
            "backoffLimit": restart_limit(blueprint, settings),
            "activeDeadlineSeconds": settings.ttl_s,
            "ttlSecondsAfterFinished": RETAIN_S,
            **({"suspend": True} if queue else {}),
            "template": template,
        },
    }


def _queued(meta: Object, queue: str) -> Object:
    labels = meta["labels"]
    assert isinstance(labels, dict)
    return {**meta, "labels": {**labels, "kueue.x-k8s.io/queue-name": queue}}


def _jobset(
    blueprint: Blueprint,
    settings: ResolvedSettings,
    launch: Launch,
    nodes: PodNodes,
    queue: str,
    topology: bool,
) -> Object:
    # All machines start and restart together; each gets its rank and the address of the first.
    slices = slices_of(blueprint) if blueprint.is_tpu else None
    assert not isinstance(slices, Infeasible), "kubernetes_obstacle comes first"
    count = slices.machines_per_slice if slices else blueprint.machine_count
    name = settings.short(30)
    environment: tuple[Object, ...] = (
        {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
        {"name": "NODE_COUNT", "value": str(count)},
        {"name": "MASTER_ADDR", "value": f"{name}-{JOB}-0-0.{name}"},
    )
    template = pod_template(
        blueprint,
        settings,
        launch,
        nodes,
        environment=environment,
        restart="Never",
        annotations=_topology_request(blueprint, nodes) if topology else None,
    )
    meta = metadata(settings, name)
    meta = _queued(meta, queue) if queue else meta
    annotations: Object = {}
    if slices:
        annotations["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "cloud.google.com/gke-nodepool"
    if queue and blueprint.consumption == "flex-start" and not nodes.is_onprem:
        annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] = str(settings.ttl_s)
    if annotations:
        meta = {**meta, "annotations": annotations}
    spec: Object = {
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "activeDeadlineSeconds": settings.ttl_s,
        "template": template,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {
            **({"suspend": True} if queue else {}),
            "ttlSecondsAfterFinished": RETAIN_S,
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {
                "maxRestarts": restart_limit(blueprint, settings),
                "restartStrategy": "BlockingRecreate",
            },
            "replicatedJobs": [
                {
                    "name": JOB,
                    "replicas": slices.slice_count if slices else 1,
                    "template": {"spec": spec},
                }
            ],
        },
    }


def _topology_request(blueprint: Blueprint, nodes: PodNodes) -> Object:
    # Require one NVLink domain if the job fits in it; otherwise prefer one block.
    if nodes.domain_machines and blueprint.machine_count <= nodes.domain_machines:
        return {"kueue.x-k8s.io/podset-required-topology": SUBBLOCK}
    return {"kueue.x-k8s.io/podset-preferred-topology": BLOCK}
