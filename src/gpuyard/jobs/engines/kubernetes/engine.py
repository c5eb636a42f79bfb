"""Tasks as Jobs and JobSets, through the API server itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import quote

from gpuyard.document import Plain
from gpuyard.errors import RefusedError
from gpuyard.jobs.engines.kubernetes.access import Access, open_access
from gpuyard.jobs.engines.kubernetes.logs import pod_logs
from gpuyard.jobs.engines.kubernetes.manifest import manifest
from gpuyard.jobs.engines.kubernetes.reasons import Pod, pod_of
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.http import HttpError
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, State, Status, Task, check_task, handle_of

__all__ = ["KubernetesEngine"]

JOBS, JOB_SETS = "/apis/batch/v1", "/apis/jobset.x-k8s.io/v1alpha2"
ENDS: dict[str, State] = {"Complete": "done", "Completed": "done", "Failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesEngine:
    """A Kubernetes cluster with the JobSet controller, which tasks of one node do without."""

    spec: EngineSpec
    poll_s: float = 2.0

    def handle(self, task: Task) -> Handle:
        """Where the task will be."""
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Creates the object, unless it is there already."""
        check_task(task)
        handle = self.handle(task)
        JobFiles.of(handle).keep_task(task)
        access = open_access(self.spec)
        try:
            access.api.call("POST", _collection(handle, access), manifest(task, self.spec))
        except HttpError as error:
            if error.code == 404 and task.nodes > 1:
                raise RefusedError("Kubernetes", "it has no JobSet", "install the JobSet controller") from error
            if error.code != 409:  # it was created before gpuyard was killed
                raise _refused(handle, error) from error
        return handle

    def status(self, handle: Handle) -> Status:
        """What the API server says; an end is kept, for the object is gone one day."""
        files = JobFiles.of(handle)
        kept = files.exit(0)
        if kept:
            return kept
        access = open_access(self.spec)
        try:
            found = access.api.call("GET", f"{_collection(handle, access)}/{handle.id}")
        except HttpError as error:
            if error.code != 404:
                raise _refused(handle, error) from error
            gone = Status(state="lost", reason="Kubernetes does not know the job")
            return (
                self._kept(files, replace(gone, state="cancelled", reason="cancelled", ended_s=time.time()))
                if (files.cancel_asked)
                else gone
            )
        assert isinstance(found, dict)
        status = _status(found, _pods(handle, access))
        return self._kept(files, status) if status.ended else status

    def _kept(self, files: JobFiles, status: Status) -> Status:
        """The end, written down."""
        if files.folder.is_dir():
            files.keep_exit(0, status)
        return status

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """The lines of its pods, attempt after attempt."""
        access = open_access(self.spec)
        return pod_logs(
            access,
            lambda: _pods(handle, access),
            (lambda: self.status(handle).ended) if follow else (lambda: True),
            label=handle.copies > 1 or handle.nodes > 1,
            wait_s=self.poll_s / 4,
        )

    def cancel(self, handle: Handle) -> None:
        """Deletes the object with its pods, which get SIGTERM and their grace."""
        files = JobFiles.of(handle)
        if self.status(handle).ended:
            return
        if files.folder.is_dir():
            files.ask_cancel()
        access = open_access(self.spec)
        body: Plain = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}
        try:
            access.api.call("DELETE", f"{_collection(handle, access)}/{handle.id}", body)
        except HttpError as error:
            if error.code != 404:
                raise _refused(handle, error) from error


def _refused(handle: Handle, error: HttpError) -> RefusedError:
    """A no of the API server."""
    fixes = {401: "renew the kubeconfig's credential", 403: "ask for the rights: create, get, list, delete, logs"}
    return RefusedError(f"Kubernetes: {handle.id}", error.said, fixes.get(error.code, "see `kubectl describe`"))


def _collection(handle: Handle, access: Access) -> str:
    """Where objects of its kind are."""
    group, plural = (JOB_SETS, "jobsets") if handle.nodes > 1 else (JOBS, "jobs")
    return f"{group}/namespaces/{access.namespace}/{plural}"


def _pods(handle: Handle, access: Access) -> list[Pod]:
    """Its pods, the oldest attempt first."""
    label = "jobset.sigs.k8s.io/jobset-name" if handle.nodes > 1 else "batch.kubernetes.io/job-name"
    selector = quote(f"{label}={handle.id}")
    found = access.api.call("GET", f"/api/v1/namespaces/{access.namespace}/pods?labelSelector={selector}")
    rows = found.get("items") if isinstance(found, dict) else None
    pods = [pod_of(row) for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]
    return sorted(pods, key=lambda pod: (pod.attempt, pod.index, pod.name))


def _status(found: dict[str, Plain], pods: list[Pod]) -> Status:
    """The status of an object and its pods."""
    tree = found.get("status")
    status = tree if isinstance(tree, dict) else {}
    rows = status.get("conditions")
    conditions = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    attempts = max((pod.attempt + 1 for pod in pods), default=0)
    begun = next((pod for pod in pods if pod.phase != "Pending"), None)
    started_s = _time_s(status.get("startTime")) or _time_s(_metadata(found).get("creationTimestamp"))
    for row in conditions:
        state = ENDS.get(str(row.get("type")))
        if state and row.get("status") == "True":
            return _ended(state, row, pods, started_s, attempts)
    if begun:
        return Status(state="running", started_s=started_s, attempts=attempts)
    admitted = not _spec(found).get("suspend")
    waits = next((pod.reason for pod in pods if pod.reason), "" if admitted else "waits for the queue to admit it")
    return Status(state="pending", reason=waits)


def _metadata(found: dict[str, Plain]) -> dict[str, Plain]:
    """An object's metadata."""
    tree = found.get("metadata")
    return tree if isinstance(tree, dict) else {}


def _spec(found: dict[str, Plain]) -> dict[str, Plain]:
    """An object's specification."""
    tree = found.get("spec")
    return tree if isinstance(tree, dict) else {}


def _ended(state: State, row: dict[str, Plain], pods: list[Pod], started_s: float | None, attempts: int) -> Status:
    """The end of an object: the first failed pod of the last attempt says why."""
    late = "DeadlineExceeded" in (row.get("reason"), *str(row.get("message", "")).split())
    last = [pod for pod in pods if pod.phase == "Failed" and pod.attempt + 1 == attempts]
    culprit = min(last, key=lambda pod: (pod.exit_code in (None, 137, 143), pod.index), default=None)
    reason = ""
    if state == "failed":
        said = str(row.get("message") or row.get("reason") or "")
        reason = "time limit" if late else culprit.reason if culprit else said
    code = culprit.exit_code if culprit and not late else None
    return Status(
        state=state,
        exit_code=0 if state == "done" else code,
        reason=reason,
        started_s=started_s,
        ended_s=_time_s(row.get("lastTransitionTime")) or time.time(),
        attempts=attempts,
    )


def _time_s(value: Plain) -> float | None:
    """Unix time of an API time."""
    try:
        return datetime.fromisoformat(str(value).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
