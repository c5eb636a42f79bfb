"""Tasks as Ray jobs, through the job submission API of the cluster's dashboard: no Ray is needed on this side."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.document import Plain, dump_json, load_json, plain
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import write_whole
from gpuyard.jobs.engines import guard
from gpuyard.jobs.engines.ray.cluster import Cluster, local_cluster
from gpuyard.jobs.files import JobFiles, follow_files, together
from gpuyard.jobs.http import Api, HttpError
from gpuyard.jobs.rendezvous import shared_environment
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, State, Status, Task, check_task, handle_of

__all__ = ["RayEngine"]

STATES: dict[str, State] = {
    "PENDING": "pending", "RUNNING": "running", "SUCCEEDED": "done", "FAILED": "failed", "STOPPED": "cancelled",
}  # fmt: skip
ENTRYPOINT = 'exec "$(command -v python || command -v python3)" -c "$GPUYARD_DRIVER"'
STOP_SLACK_S = 5.0
LOCAL_TRIES = 3
# What a failed job says when the cluster failed, not the task.
CLUSTER_FAULTS = ("supervisor actor", "node", "unexpectedly", "did not start within")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayEngine:
    """A Ray cluster, or one that is started on this machine and ends when it has nothing to do."""

    spec: EngineSpec
    poll_s: float = 1.0

    def handle(self, task: Task) -> Handle:
        """Where the task will be."""
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Submits the task, unless the cluster has it already."""
        check_task(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        files.keep_task(task)
        body = _request(task, handle, self.spec)
        for tries in range(LOCAL_TRIES):
            cluster = self._cluster(handle) or self._opened(handle)
            try:
                if not _there(cluster, handle):
                    _api(cluster).call("POST", "/api/jobs/", body)
                return handle
            except HttpError as error:
                if "already exists" in error.said:  # an answer was lost, not the request
                    return handle
                raise RefusedError(f"Ray: job {task.id}", error.said, "see the cluster's dashboard") from error
            except RefusedError:  # a local cluster may end just as it is asked
                if self.spec.address or tries + 1 == LOCAL_TRIES:
                    raise
                (Path(handle.folder) / "cluster.json").unlink(missing_ok=True)
        raise AssertionError("not reached")

    def _opened(self, handle: Handle) -> Cluster:
        """The cluster that is named, or one on this machine; where it is, is kept with the job."""
        named = Cluster(address=self.spec.address.rstrip("/"), token_file=self.spec.token_file)
        cluster = named if self.spec.address else local_cluster()
        write_whole(Path(handle.folder) / "cluster.json", dump_json(cluster))
        return cluster

    def _cluster(self, handle: Handle) -> Cluster | None:
        """The cluster that the job was submitted to; None if it was not."""
        file = Path(handle.folder) / "cluster.json"
        try:
            return load_json(file.read_text(encoding="utf-8"), Cluster, str(file))
        except (OSError, InputError):
            return None

    def status(self, handle: Handle) -> Status:
        """What the driver wrote down; until then, and where no folder is shared, what Ray says."""
        files = JobFiles.of(handle)
        said = together([part for part in files.exits(handle.copies) if part]) if _all(files, handle) else None
        if said is None:
            asked = self._asked(handle)
            said = together([part for part in files.exits(handle.copies) if part]) if _all(files, handle) else asked
        return _cancelled(said) if files.cancel_asked and said.state in ("failed", "lost") else said

    def _asked(self, handle: Handle) -> Status:
        """What Ray says of the job."""
        cluster = self._cluster(handle)
        if cluster is None:
            return Status(state="lost", reason="it was not submitted")
        api = _api(cluster) if self.spec.address else replace(_api(cluster), tries=LOCAL_TRIES)
        try:
            found = api.call("GET", f"/api/jobs/{handle.id}")
        except HttpError as error:
            if error.code == 404:
                return Status(state="lost", reason="Ray does not know the job")
            raise RefusedError(f"Ray: job {handle.id}", error.said, "check the address and the token") from error
        except RefusedError:
            if self.spec.address:
                raise
            return Status(state="lost", reason="the Ray of this machine is gone")
        tried = Path(handle.folder) / "attempts"
        attempts = int(tried.read_text() or 0) if tried.exists() else 0
        return replace(_status(found), attempts=attempts)

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """The lines that its processes wrote: from the shared folder, or from Ray where there is none."""
        files = JobFiles.of(handle)
        ended = False
        while follow and not files.log.exists() and not ended:
            ended = self.status(handle).ended
            time.sleep(0 if ended else self.poll_s / 4)
        if files.log.exists():
            yield from follow_files({"": files.log}, lambda: self.status(handle).ended, follow, self.poll_s)
            return
        cluster = self._cluster(handle)
        if cluster:
            found = _api(cluster).call("GET", f"/api/jobs/{handle.id}/logs")
            yield from str(found["logs"]).splitlines() if isinstance(found, dict) else ()

    def cancel(self, handle: Handle) -> None:
        """Ends the job: SIGTERM to its driver, which ends its ranks with their grace."""
        cluster = self._cluster(handle)
        if cluster and not self.status(handle).ended:
            JobFiles.of(handle).ask_cancel()
            try:
                _api(cluster).call("POST", f"/api/jobs/{handle.id}/stop")
            except HttpError as error:
                if error.code != 404:
                    raise RefusedError(f"Ray: job {handle.id}", error.said, "stop it in the dashboard") from error


def _all(files: JobFiles, handle: Handle) -> bool:
    """Whether every copy has written its end."""
    return None not in files.exits(handle.copies)


def _there(cluster: Cluster, handle: Handle) -> bool:
    """Whether the cluster has the job already."""
    try:
        _api(cluster).call("GET", f"/api/jobs/{handle.id}")
    except HttpError as error:
        if error.code != 404:
            raise
        return False
    return True


def _cancelled(status: Status) -> Status:
    """A job that was told to end is cancelled, however it ended."""
    return replace(status, state="cancelled", reason="cancelled", exit_code=None)


def _api(cluster: Cluster) -> Api:
    """The dashboard's API with the cluster's token, if it has one."""
    token = ""
    if cluster.token_file:
        try:
            token = Path(cluster.token_file).expanduser().read_text(encoding="utf-8").strip()
        except OSError as error:
            raise RefusedError(cluster.token_file, error.strerror or "not readable", "name the token's file") from error
    elif os.environ.get("RAY_AUTH_TOKEN"):
        token = os.environ["RAY_AUTH_TOKEN"]
    else:
        named = Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()
        token = named.read_text(encoding="utf-8").strip() if named.is_file() else ""
    return Api(base=cluster.address, headers=(("Authorization", f"Bearer {token}"),) if token else ())


def _request(task: Task, handle: Handle, spec: EngineSpec) -> Plain:
    """The job as the API takes it."""
    job: dict[str, Plain] = {
        "task": plain(task),
        "folder": handle.folder,
        "environment": plain(shared_environment(task, spec.interface)),
        "chip_resource": spec.chip_resource,
        "guard": Path(guard.__file__).read_text(encoding="utf-8"),
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


def _status(found: Plain) -> Status:
    """The status of a job that Ray describes."""
    assert isinstance(found, dict)
    state = STATES.get(str(found.get("status")), "lost")
    said = str(found.get("message") or "")
    code = found.get("driver_exit_code")
    if state == "failed" and code is None and any(fault in said for fault in CLUSTER_FAULTS):
        state = "lost"
    start, end = found.get("start_time"), found.get("end_time")
    return Status(
        state=state,
        exit_code=code if isinstance(code, int) and state in ("done", "failed") else None,
        reason="" if state in ("pending", "running", "done") else said.splitlines()[0] if said else "",
        started_s=start / 1e3 if isinstance(start, int) and state != "pending" else None,
        ended_s=end / 1e3 if isinstance(end, int) else None,
    )
