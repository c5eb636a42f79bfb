"""Ray engine: tasks as Ray jobs through the dashboard's job submission API, without a local Ray."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.document.encode import dump_json, load_json_file, plain
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import ExternalError, GpuyardError
from gpuyard.home import write_atomic
from gpuyard.http import HttpClient, HttpError, HttpRetryPolicy
from gpuyard.jobs.engines import process_reaper
from gpuyard.jobs.engines.ray.cluster import RayClusterAddress, local_cluster
from gpuyard.jobs.files import JobFiles, combined_status, follow_files
from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, State, Task, TaskStatus, check_task, handle_of

STATES: dict[str, State] = {
    "PENDING": "pending",
    "RUNNING": "running",
    "SUCCEEDED": "done",
    "FAILED": "failed",
    "STOPPED": "cancelled",
}
ENTRYPOINT = 'exec "$(command -v python || command -v python3)" -c "$GPUYARD_DRIVER"'
STOP_SLACK_S = 5.0
LOCAL_ATTEMPTS = 3
# In the message of a failed job: the cluster failed, not the task.
CLUSTER_FAULTS = ("supervisor actor", "node", "unexpectedly", "did not start within")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayEngine:
    """A Ray cluster, or a local one that is started on demand."""

    spec: EngineSpec
    poll_s: float = 1.0

    def handle(self, task: Task) -> Handle:
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Submit the task, unless the cluster already has it."""
        check_task(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        files.save_task(task)
        body = _request(task, handle, self.spec)
        for attempt in range(1, LOCAL_ATTEMPTS + 1):
            cluster = self._cluster(handle) or self._open_cluster(handle)
            try:
                if not _has_job(cluster, handle):
                    _client(cluster).json("POST", "/api/jobs/", body, is_idempotent=True)
                return handle
            except HttpError as error:
                if "already exists" in error.response.message:  # only the response was lost
                    return handle
                raise _external_error(handle, error, "see the cluster's dashboard") from error
            except ExternalError:  # an idle local cluster may stop at this moment
                if self.spec.address or attempt == LOCAL_ATTEMPTS:
                    raise
                (Path(handle.folder) / "cluster.json").unlink(missing_ok=True)
        raise AssertionError("not reached")

    def _open_cluster(self, handle: Handle) -> RayClusterAddress:
        named = RayClusterAddress(
            address=self.spec.address.rstrip("/"), token_file=self.spec.token_file
        )
        cluster = named if self.spec.address else local_cluster()
        write_atomic(Path(handle.folder) / "cluster.json", dump_json(cluster))
        return cluster

    def _cluster(self, handle: Handle) -> RayClusterAddress | None:
        file = Path(handle.folder) / "cluster.json"
        try:
            return load_json_file(file, RayClusterAddress)
        except GpuyardError:
            return None

    def status(self, handle: Handle) -> TaskStatus:
        """Return what the driver recorded; before that, or without a shared folder, Ray's view."""
        files = JobFiles.of(handle)
        status = _recorded(files, handle)
        if status is None:
            queried = self._query(handle)
            status = _recorded(files, handle) or queried
        if files.cancel_requested and status.state in ("failed", "lost"):
            return replace(status, state="cancelled", reason="cancelled", exit_code=None)
        return status

    def _query(self, handle: Handle) -> TaskStatus:
        cluster = self._cluster(handle)
        if cluster is None:
            return TaskStatus(state="lost", reason="it was not submitted")
        client = _client(cluster)
        if not self.spec.address:
            client = replace(client, retry=HttpRetryPolicy(attempts=LOCAL_ATTEMPTS))
        try:
            job = client.json("GET", f"/api/jobs/{handle.id}")
        except HttpError as error:
            if error.response.status == 404:
                return TaskStatus(state="lost", reason="Ray does not know the job")
            raise _external_error(handle, error, "check the address and the token") from error
        except ExternalError:
            if self.spec.address:
                raise
            return TaskStatus(state="lost", reason="the local Ray has stopped")
        return replace(_status(job), attempts=JobFiles.of(handle).attempts)

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Yield the output of its processes, from the shared folder or else from Ray."""
        files = JobFiles.of(handle)
        ended = False
        while follow and not files.log.exists() and not ended:
            ended = self.status(handle).ended
            time.sleep(0 if ended else self.poll_s / 4)
        if files.log.exists():
            yield from follow_files(
                {"": files.log}, lambda: self.status(handle).ended, follow, self.poll_s
            )
            return
        cluster = self._cluster(handle)
        if cluster:
            response = _client(cluster).json("GET", f"/api/jobs/{handle.id}/logs")
            yield from str(response["logs"]).splitlines() if isinstance(response, dict) else ()

    def cancel(self, handle: Handle) -> None:
        """Send SIGTERM to the job's driver, which stops its ranks within their grace period."""
        cluster = self._cluster(handle)
        if cluster and not self.status(handle).ended:
            JobFiles.of(handle).request_cancel()
            try:
                _client(cluster).json("POST", f"/api/jobs/{handle.id}/stop", is_idempotent=True)
            except HttpError as error:
                if error.response.status != 404:
                    raise _external_error(handle, error, "stop it in the dashboard") from error


def _recorded(files: JobFiles, handle: Handle) -> TaskStatus | None:
    exits = files.exits(handle.copies)
    return None if None in exits else combined_status([status for status in exits if status])


def _has_job(cluster: RayClusterAddress, handle: Handle) -> bool:
    try:
        _client(cluster).json("GET", f"/api/jobs/{handle.id}")
    except HttpError as error:
        if error.response.status != 404:
            raise
        return False
    return True


def _external_error(handle: Handle, error: HttpError, fix: str) -> ExternalError:
    return ExternalError(f"Ray: job {handle.id}", error.response.message, fix)


def _client(cluster: RayClusterAddress) -> HttpClient:
    """The dashboard's API with the cluster's token, if it has one."""
    token = ""
    if cluster.token_file:
        try:
            token = Path(cluster.token_file).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ExternalError(
                cluster.token_file, error.strerror or "not readable", "name the token's file"
            ) from error
    elif os.environ.get("RAY_AUTH_TOKEN"):
        token = os.environ["RAY_AUTH_TOKEN"]
    else:
        named = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()
        token = named.read_text(encoding="utf-8").strip() if named.is_file() else ""
    return HttpClient(base=cluster.address, authorization=f"Bearer {token}" if token else "")


def _request(task: Task, handle: Handle, spec: EngineSpec) -> Plain:
    job: dict[str, Plain] = {
        "task": plain(task),
        "folder": handle.folder,
        "environment": plain(shared_environment(task, spec.interface)),
        "chip_resource": spec.chip_resource,
        "guard": Path(process_reaper.__file__).read_text(encoding="utf-8"),
    }
    driver = Path(__file__).with_name("driver.py").read_text(encoding="utf-8")
    variables: dict[str, Plain] = {
        "GPUYARD_DRIVER": driver,
        "GPUYARD_TASK": json.dumps(job),
        "RAY_JOB_STOP_WAIT_TIME_S": str(int(task.grace_s + STOP_SLACK_S)),
    }
    return {
        "entrypoint": ENTRYPOINT,
        "submission_id": task.id,
        "runtime_env": {"env_vars": variables},
        "metadata": {"managed-by": "gpuyard"},
    }


def _status(job: Plain) -> TaskStatus:
    assert isinstance(job, dict)
    state = STATES.get(str(job.get("status")), "lost")
    message = str(job.get("message") or "")
    code = job.get("driver_exit_code")
    if state == "failed" and code is None and any(fault in message for fault in CLUSTER_FAULTS):
        state = "lost"
    start, end = job.get("start_time"), job.get("end_time")
    is_fault = state not in ("pending", "running", "done")
    return TaskStatus(
        state=state,
        exit_code=code if isinstance(code, int) and state in ("done", "failed") else None,
        reason=message.partition("\n")[0] if is_fault else "",
        started_s=start / 1e3 if isinstance(start, int) and state != "pending" else None,
        ended_s=end / 1e3 if isinstance(end, int) else None,
    )
