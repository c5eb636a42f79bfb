"""Tasks as processes of this machine, each job under a supervisor of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.document import load_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.jobs.engines.local.chips import local_chips
from gpuyard.jobs.files import JobFiles, follow_files, together
from gpuyard.jobs.process import Process, alive, send
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, Status, Task, check_task, handle_of

__all__ = ["LocalEngine"]

START_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngine:
    """This machine."""

    spec: EngineSpec
    poll_s: float = 0.2

    def handle(self, task: Task) -> Handle:
        """Where the task will be."""
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Starts the task in the background, once."""
        check_task(task)
        _check_chips(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        if (files.folder / "supervisor.json").exists():
            return handle
        files.keep_task(task)
        command = [sys.executable, "-m", "gpuyard.jobs.engines.local.supervisor", str(files.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
            raise RefusedError(f"task {task.id}", f"cannot be started: {said[0]}", "free processes, memory or disk")
        return handle

    def status(self, handle: Handle) -> Status:
        """What the supervisor wrote down, or that it is gone."""
        files = JobFiles.of(handle)
        running = _running(files)  # asked first: a supervisor that ends meanwhile has written its end
        parts = files.exits(handle.copies)
        begun = files.folder / "started"
        started_s = float(begun.read_text()) if begun.exists() else None
        tried = files.folder / "attempts"
        attempts = int(tried.read_text() or 0) if tried.exists() else 0
        rest = (
            Status(state="running" if started_s else "pending", started_s=started_s, attempts=attempts)
            if running
            else Status(state="cancelled", reason="cancelled")
            if files.cancel_asked
            else Status(state="lost", reason="its supervisor is gone", started_s=started_s, attempts=attempts)
        )
        return together([part or rest for part in parts])

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """The lines that its processes wrote."""
        return follow_files({"": JobFiles.of(handle).log}, lambda: self.status(handle).ended, follow)

    def cancel(self, handle: Handle) -> None:
        """Asks the supervisor to end everything."""
        files = JobFiles.of(handle)
        left = self.status(handle)
        starting = left.state == "lost" and left.started_s is None  # by a gpuyard that was killed on the way
        if files.folder.is_dir() and (not left.ended or starting):
            files.ask_cancel()
            supervisor = _supervisor(files)
            if supervisor:
                send(supervisor, signal.SIGTERM)


def _supervisor(files: JobFiles) -> Process | None:
    """The supervisor's process; None where none was started."""
    file = files.folder / "supervisor.json"
    try:
        return load_json(file.read_text(encoding="utf-8"), Process, str(file))
    except (OSError, InputError):
        return None


def _running(files: JobFiles) -> bool:
    """Whether the supervisor is there; one of another machine is trusted to be."""
    supervisor = _supervisor(files)
    return supervisor is not None and alive(supervisor) is not False


def _check_chips(task: Task) -> None:
    """Raises InputError if the task asks for more GPUs than there are."""
    wanted, there = task.processes * task.chips_per_process, len(local_chips())
    if wanted > there:
        raise InputError.one(
            f"task {task.id}", f"asks for {wanted} chips; this machine has {there}", "ask for fewer, or another engine"
        )
