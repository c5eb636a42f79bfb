"""Local engine: tasks as processes of this host, each under its own supervisor."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document.encode import load_json_file
from gpuyard.errors import ExternalError, GpuyardError, InputError
from gpuyard.jobs.engines.local.chips import local_chips
from gpuyard.jobs.files import JobFiles, combined_status, follow_files
from gpuyard.jobs.process import Process, is_alive, send
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, State, Task, TaskStatus, check_task, handle_of

START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """Runs tasks on this host."""

    spec: EngineSpec
    poll_s: float = 0.2

    def handle(self, task: Task) -> Handle:
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Start the task in the background, once."""
        check_task(task)
        _check_chips(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        if (files.folder / "supervisor.json").exists():
            return handle
        files.save_task(task)
        command = [sys.executable, "-m", "gpuyard.jobs.engines.local.supervisor", str(files.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            errors = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            what = f"cannot be started: {errors[0]}"
            raise ExternalError(f"task {task.id}", what, "free processes, memory or disk")
        return handle

    def status(self, handle: Handle) -> TaskStatus:
        """Return what the supervisor recorded; lost if it is gone without a record."""
        files = JobFiles.of(handle)
        # Before the exits are read: a supervisor that ends in between has recorded them.
        supervisor = _supervisor(files)
        is_running = supervisor is not None and is_alive(supervisor) is not False
        exits = files.exits(handle.copies)
        file = files.folder / "started"
        started_s = float(file.read_text()) if file.exists() else None
        if is_running:
            state: State = "running" if started_s else "pending"
            rest = TaskStatus(state=state, started_s=started_s, attempts=files.attempts)
        elif files.cancel_requested:
            rest = TaskStatus(state="cancelled", reason="cancelled")
        else:
            reason, attempts = "its supervisor is gone", files.attempts
            rest = TaskStatus(state="lost", reason=reason, started_s=started_s, attempts=attempts)
        return combined_status([status or rest for status in exits])

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Yield the output of its processes."""
        return follow_files(
            {"": JobFiles.of(handle).log}, lambda: self.status(handle).ended, follow
        )

    def cancel(self, handle: Handle) -> None:
        """Signal the supervisor, which stops its processes."""
        files = JobFiles.of(handle)
        status = self.status(handle)
        # The supervisor of a killed gpuyard may start later; it then finds the request.
        may_start = status.state == "lost" and status.started_s is None
        if files.folder.is_dir() and (not status.ended or may_start):
            files.request_cancel()
            supervisor = _supervisor(files)
            if supervisor:
                send(supervisor, signal.SIGTERM)


def _supervisor(files: JobFiles) -> Process | None:
    file = files.folder / "supervisor.json"
    try:
        return load_json_file(file, Process)
    except GpuyardError:
        return None


def _check_chips(task: Task) -> None:
    needed, available = task.processes * task.chips_per_process, len(local_chips())
    if needed > available:
        what = f"needs {needed} chips; this host has {available}"
        raise InputError.one(f"task {task.id}", what, "use fewer chips, or another engine")
