"""Jobs that end: a JobSet for machines that work together, a Job for one."""

from __future__ import annotations

from gpuyard.blueprint import Blueprint
from gpuyard.errors import Infeasible
from gpuyard.provision.launch import Launch
from gpuyard.provision.platforms.manifests.nodes import Nodes
from gpuyard.provision.platforms.manifests.plumbing import claim_objects
from gpuyard.provision.platforms.manifests.pods import metadata, pod_template, storage_objects
from gpuyard.provision.platforms.manifests.text import Object
from gpuyard.provision.platforms.slices import slices_of
from gpuyard.provision.settings import Place

__all__ = ["job_objects"]

KEPT_S = 3600  # a finished job stays that long, for its logs
RESTARTS = 10
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
JOB = "w"
BLOCK, SUBBLOCK = "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock"


def job_objects(
    blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes, *, queue: str, topology: bool = False
) -> tuple[Object, ...]:
    """The job with what it stands on; `queue` admits it, `topology` asks the queue for near nodes."""
    below = storage_objects(blueprint, place, launch, nodes)
    claims = claim_objects(nodes, place, place.labels, blueprint.machine_count)
    if blueprint.shape == "single-node" and not blueprint.is_tpu:
        return (*below, _job(blueprint, place, launch, nodes, queue))
    return (*below, *claims, _jobset(blueprint, place, launch, nodes, queue, topology))


def _job(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes, queue: str) -> Object:
    """One pod on one machine."""
    template = pod_template(blueprint, place, launch, nodes, restart="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _queued(metadata(place), queue) if queue else metadata(place),
        "spec": {
            "backoffLimit": 3,
            "activeDeadlineSeconds": place.ttl_s,
            "ttlSecondsAfterFinished": KEPT_S,
            **({"suspend": True} if queue else {}),
            "template": template,
        },
    }


def _queued(meta: Object, queue: str) -> Object:
    """The metadata of an object that a queue admits."""
    labels = meta["labels"]
    assert isinstance(labels, dict)
    return {**meta, "labels": {**labels, "kueue.x-k8s.io/queue-name": queue}}


def _jobset(blueprint: Blueprint, place: Place, launch: Launch, nodes: Nodes, queue: str, topology: bool) -> Object:
    """All machines at once, with a rank and the address of the first; restarted together."""
    slices = slices_of(blueprint) if blueprint.is_tpu else None
    assert not isinstance(slices, Infeasible), "the platform asks first"
    count = slices.machines_per_slice if slices else blueprint.machine_count
    name = place.short(30)
    environment: tuple[Object, ...] = (
        {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
        {"name": "NODE_COUNT", "value": str(count)},
        {"name": "MASTER_ADDR", "value": f"{name}-{JOB}-0-0.{name}"},
    )
    template = pod_template(
        blueprint, place, launch, nodes, environment=environment, restart="Never",
        annotations=_near(blueprint, nodes) if topology else None,
    )  # fmt: skip
    meta = metadata(place, name)
    meta = _queued(meta, queue) if queue else meta
    notes: Object = {}
    if slices:
        notes["alpha.jobset.sigs.k8s.io/exclusive-topology"] = "cloud.google.com/gke-nodepool"
    if queue and blueprint.way == "flex-start" and not nodes.is_own:
        notes["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] = str(place.ttl_s)
    if notes:
        meta = {**meta, "annotations": notes}
    spec: Object = {
        "parallelism": count,
        "completions": count,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "activeDeadlineSeconds": place.ttl_s,
        "template": template,
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {
            **({"suspend": True} if queue else {}),
            "ttlSecondsAfterFinished": KEPT_S,
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "failurePolicy": {"maxRestarts": RESTARTS, "restartStrategy": "BlockingRecreate"},
            "replicatedJobs": [
                {"name": JOB, "replicas": slices.slice_count if slices else 1, "template": {"spec": spec}}
            ],
        },
    }


def _near(blueprint: Blueprint, nodes: Nodes) -> Object:
    """How near the pods have to be: one NVLink domain where they fit in it, otherwise one block if it can be."""
    if nodes.domain_machines and blueprint.machine_count <= nodes.domain_machines:
        return {"kueue.x-k8s.io/podset-required-topology": SUBBLOCK}
    return {"kueue.x-k8s.io/podset-preferred-topology": BLOCK}
