"""Kubernetes manifests: a Job for one node or many copies, a JobSet for several nodes."""

from __future__ import annotations

import math
from pathlib import Path

from gpuyard.document.frozen_json import Plain
from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task

CONTAINER, WORKERS = "task", "workers"
PORT = 29500  # torch's default; every pod has its own address
KEEP_S = 86_400  # an ended object can be asked about for a day
MANAGED = {"app.kubernetes.io/managed-by": "gpuyard"}
# The attempt of a pod, as the controllers mark it: Jobs count failures of an index, JobSets count
# restarts.
FAILURES = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"
RESTARTS = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"

# Ranks from the pod's index; several processes start and fail together. Any POSIX shell runs it.
SHIM = (Path(__file__).parent / "data" / "shim.sh").read_text(encoding="utf-8")


def manifest(task: Task, spec: EngineSpec) -> dict[str, Plain]:
    """Return the object to create."""
    labels: dict[str, Plain] = {**MANAGED}
    if spec.queue:
        labels["kueue.x-k8s.io/queue-name"] = spec.queue
    metadata: dict[str, Plain] = {"name": task.id, "labels": labels}
    if task.nodes > 1:
        body: dict[str, Plain] = {
            "network": {"enableDNSHostnames": True},
            "failurePolicy": {"maxRestarts": task.retries, **_final_set(task)},
            "successPolicy": {"operator": "All"},
            "ttlSecondsAfterFinished": KEEP_S,
            "replicatedJobs": [
                {"name": WORKERS, "replicas": 1, "template": {"spec": _job(task, spec)}}
            ],
        }
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": body,
        }
    body = {**_job(task, spec), "ttlSecondsAfterFinished": KEEP_S}
    if spec.queue:
        body["suspend"] = True  # until Kueue admits it
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def _job(task: Task, spec: EngineSpec) -> dict[str, Plain]:
    """The Job of a task: an indexed pod for each node or copy."""
    count = task.nodes * task.copies
    job: dict[str, Plain] = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "template": {"metadata": {"labels": {**MANAGED}}, "spec": _pod(task, spec)},
    }
    if task.nodes > 1:
        job["backoffLimit"] = 0  # one pod that fails restarts them all, which is the JobSet's to do
    else:
        job["backoffLimitPerIndex"] = task.retries
    if task.final_codes:
        values: list[Plain] = [*sorted(set(task.final_codes))]
        codes: dict[str, Plain] = {"containerName": CONTAINER, "operator": "In", "values": values}
        action = "FailJob" if task.nodes > 1 else "FailIndex"
        job["podFailurePolicy"] = {"rules": [{"action": action, "onExitCodes": codes}]}
    if task.time_limit_s is not None:
        job["activeDeadlineSeconds"] = max(1, math.ceil(task.time_limit_s))
    return job


def _final_set(task: Task) -> dict[str, Plain]:
    rule: dict[str, Plain] = {
        "name": "final",
        "action": "FailJobSet",
        "onJobFailureReasons": ["PodFailurePolicy"],
    }
    return {"rules": [rule]} if task.final_codes else {}


def _pod(task: Task, spec: EngineSpec) -> dict[str, Plain]:
    count = task.processes_per_node
    requests: dict[str, Plain] = {"cpu": str(task.cores_per_process * count)}
    if task.memory_per_process_bytes is not None:
        requests["memory"] = str(task.memory_per_process_bytes * count)
    limits: dict[str, Plain] = {}
    if task.chips_per_process:
        limits[spec.chip_resource or "nvidia.com/gpu"] = str(task.chips_per_process * count)
    container: dict[str, Plain] = {
        "name": CONTAINER,
        "image": spec.image,
        "command": ["/bin/sh", "-c", SHIM, "process", *task.argv],
        "env": _environment(task, spec),
        "resources": {"requests": requests, "limits": limits} if limits else {"requests": requests},
    }
    pod: dict[str, Plain] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": math.ceil(task.grace_s),
        "containers": [container],
    }
    if spec.volume_claim:
        container["workingDir"] = task.folder
        container["volumeMounts"] = [{"name": "work", "mountPath": spec.volume_path}]
        pod["volumes"] = [
            {"name": "work", "persistentVolumeClaim": {"claimName": spec.volume_claim}}
        ]
    return pod


def _environment(task: Task, spec: EngineSpec) -> list[Plain]:
    """What the container sees; the ranks come from the shell in front of the command."""
    address = f"{task.id}-{WORKERS}-0-0.{task.id}" if task.nodes > 1 else "127.0.0.1"
    fixed = (
        *shared_environment(task, spec.interface),
        ("MASTER_ADDR", address),
        ("MASTER_PORT", str(PORT)),
    )
    given: list[Plain] = [{"name": name, "value": value} for name, value in fixed]
    path = RESTARTS if task.nodes > 1 else FAILURES
    return [*given, {"name": "GPUYARD_ATTEMPT", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
