"""Kubernetes engine: tasks as Jobs and JobSets through the API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError
from gpuyard.http import HttpError
from gpuyard.jobs.engines.kubernetes.access import KubernetesAccess, open_access
from gpuyard.jobs.engines.kubernetes.logs import pod_logs
from gpuyard.jobs.engines.kubernetes.manifest import manifest
from gpuyard.jobs.engines.kubernetes.pod_status import PodStatus, pod_of
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, State, Task, TaskStatus, check_task, handle_of

JOBS, JOB_SETS = "/apis/batch/v1", "/apis/jobset.x-k8s.io/v1alpha2"
ENDS: dict[str, State] = {"Complete": "done", "Completed": "done", "Failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesEngine:
    """A Kubernetes cluster; tasks on several nodes need the JobSet controller."""

    spec: EngineSpec
    poll_s: float = 2.0

    def handle(self, task: Task) -> Handle:
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Create the object, unless it exists."""
        check_task(task)
        handle = self.handle(task)
        JobFiles.of(handle).save_task(task)
        access = open_access(self.spec)
        try:
            path = _collection(handle, access)
            access.api.json("POST", path, manifest(task, self.spec), is_idempotent=True)
        except HttpError as error:
            if error.response.status == 404 and task.nodes > 1:
                raise ExternalError(
                    "Kubernetes", "JobSet is not installed", "install the JobSet controller"
                ) from error
            if error.response.status != 409:  # created before gpuyard was killed
                raise _external_error(handle, error) from error
        return handle

    def status(self, handle: Handle) -> TaskStatus:
        """Return the object's status; the final one is saved, because the object expires."""
        files = JobFiles.of(handle)
        saved = files.exit(0)
        if saved:
            return saved
        access = open_access(self.spec)
        try:
            job = access.api.json("GET", f"{_collection(handle, access)}/{handle.id}")
        except HttpError as error:
            if error.response.status != 404:
                raise _external_error(handle, error) from error
            if not files.cancel_requested:
                return TaskStatus(state="lost", reason="Kubernetes does not know the job")
            cancelled = TaskStatus(state="cancelled", reason="cancelled", ended_s=time.time())
            return self._saved(files, cancelled)
        assert isinstance(job, dict)
        status = _status(job, _pods(handle, access))
        return self._saved(files, status) if status.ended else status

    def _saved(self, files: JobFiles, status: TaskStatus) -> TaskStatus:
        if files.folder.is_dir():
            files.save_exit(0, status)
        return status

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Yield the output of its pods, attempt by attempt."""
        access = open_access(self.spec)
        return pod_logs(
            access,
            lambda: _pods(handle, access),
            (lambda: self.status(handle).ended) if follow else (lambda: True),
            label=handle.copies > 1 or handle.nodes > 1,
            wait_s=self.poll_s / 4,
        )

    def cancel(self, handle: Handle) -> None:
        """Delete the object and its pods, which get SIGTERM and their grace period."""
        files = JobFiles.of(handle)
        if self.status(handle).ended:
            return
        if files.folder.is_dir():
            files.request_cancel()
        access = open_access(self.spec)
        body: Plain = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
        }
        try:
            access.api.json("DELETE", f"{_collection(handle, access)}/{handle.id}", body)
        except HttpError as error:
            if error.response.status != 404:
                raise _external_error(handle, error) from error


def _external_error(handle: Handle, error: HttpError) -> ExternalError:
    fixes = {
        401: "renew the kubeconfig's credential",
        403: "ask for the rights: create, get, list, delete, logs",
    }
    return ExternalError(
        f"Kubernetes: {handle.id}",
        error.response.message,
        fixes.get(error.response.status, "see `kubectl describe`"),
    )


def _collection(handle: Handle, access: KubernetesAccess) -> str:
    group, plural = (JOB_SETS, "jobsets") if handle.nodes > 1 else (JOBS, "jobs")
    return f"{group}/namespaces/{access.namespace}/{plural}"


def _pods(handle: Handle, access: KubernetesAccess) -> list[PodStatus]:
    label = "jobset.sigs.k8s.io/jobset-name" if handle.nodes > 1 else "batch.kubernetes.io/job-name"
    selector = quote(f"{label}={handle.id}")
    response = access.api.json(
        "GET", f"/api/v1/namespaces/{access.namespace}/pods?labelSelector={selector}"
    )
    rows = response.get("items") if isinstance(response, dict) else None
    pods = [
        pod_of(row) for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)
    ]
    return sorted(pods, key=lambda pod: (pod.attempt, pod.index, pod.name))


def _status(job: dict[str, Plain], pods: list[PodStatus]) -> TaskStatus:
    tree = job.get("status")
    status = tree if isinstance(tree, dict) else {}
    rows = status.get("conditions")
    conditions = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    attempts = max((pod.attempt + 1 for pod in pods), default=0)
    begun = next((pod for pod in pods if pod.phase != "Pending"), None)
    started_s = _time_s(status.get("startTime")) or _time_s(_metadata(job).get("creationTimestamp"))
    for row in conditions:
        state = ENDS.get(str(row.get("type")))
        if state and row.get("status") == "True":
            return _ended(state, row, pods, started_s, attempts)
    if begun:
        return TaskStatus(state="running", started_s=started_s, attempts=attempts)
    admitted = not _spec(job).get("suspend")
    waits = next(
        (pod.reason for pod in pods if pod.reason),
        "" if admitted else "waits for the queue to admit it",
    )
    return TaskStatus(state="pending", reason=waits)


def _metadata(job: dict[str, Plain]) -> dict[str, Plain]:
    tree = job.get("metadata")
    return tree if isinstance(tree, dict) else {}


def _spec(job: dict[str, Plain]) -> dict[str, Plain]:
    tree = job.get("spec")
    return tree if isinstance(tree, dict) else {}


def _ended(
    state: State,
    row: dict[str, Plain],
    pods: list[PodStatus],
    started_s: float | None,
    attempts: int,
) -> TaskStatus:
    late = "DeadlineExceeded" in (row.get("reason"), *str(row.get("message", "")).split())
    last = [pod for pod in pods if pod.phase == "Failed" and pod.attempt + 1 == attempts]
    culprit = min(
        last, key=lambda pod: (pod.exit_code in (None, 137, 143), pod.index), default=None
    )
    reason = ""
    if state == "failed":
        message = str(row.get("message") or row.get("reason") or "")
        reason = "time limit" if late else culprit.reason if culprit else message
    code = culprit.exit_code if culprit and not late else None
    return TaskStatus(
        state=state,
        exit_code=0 if state == "done" else code,
        reason=reason,
        started_s=started_s,
        ended_s=_time_s(row.get("lastTransitionTime")) or time.time(),
        attempts=attempts,
    )


def _time_s(value: Plain) -> float | None:
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
