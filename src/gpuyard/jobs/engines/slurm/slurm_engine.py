"""Slurm engine: tasks as sbatch jobs, with job arrays for copies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.errors import ExternalError
from gpuyard.home import write_atomic
from gpuyard.jobs.engines.slurm.queue import elements
from gpuyard.jobs.engines.slurm.script import batch_options, batch_script
from gpuyard.jobs.files import JobFiles, combined_status, follow_files
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, Task, TaskStatus, check_task, handle_of
from gpuyard.retry import RetryPolicy

COMMAND_S = 60.0
RETRY = RetryPolicy(attempts=5, first_s=1.0)
UNAVAILABLE = re.compile(
    r"unable to contact|timed out|connection refused|zero bytes|temporarily unable", re.IGNORECASE
)
LABEL = re.compile(r" *(\d+): (.*)", re.DOTALL)  # of `srun --label`


class _UnavailableError(ExternalError):
    """slurmctld did not respond, and the command can be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmEngine:
    """A Slurm cluster whose commands are installed on this host."""

    spec: EngineSpec
    poll_s: float = 2.0

    def handle(self, task: Task) -> Handle:
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Submit the task, unless Slurm already has it."""
        check_task(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        if self._number(handle):
            return handle
        files.save_task(task)
        script = files.folder / "job.sh"
        write_atomic(script, batch_script(task, handle.folder, self.spec))
        output = self._run(
            ["sbatch", "--parsable", *batch_options(task, handle.folder, self.spec), str(script)],
            handle,
        )
        write_atomic(files.folder / "number", output.strip().partition(";")[0])
        return handle

    def status(self, handle: Handle) -> TaskStatus:
        """Return what the script recorded; until then, what Slurm reports."""
        files = JobFiles.of(handle)
        exits = files.exits(handle.copies)
        if None not in exits:
            return combined_status([status for status in exits if status])
        queued: dict[int, TaskStatus] = {}
        number = self._number(handle)
        if number:
            command = ["scontrol", "--oneliner", "show", "job", number]
            for element in elements(self._run(command, handle, unknown="Invalid job id")):
                queued |= dict.fromkeys(element.indices, element.status)
        # Read again: a job that Slurm has forgotten meanwhile has recorded its exit.
        exits = files.exits(handle.copies)
        missing = TaskStatus(
            state="lost", reason="Slurm does not know the job, and it has no exit record"
        )
        rest = [queued.get(index, missing) for index in range(handle.copies)]
        if files.cancel_requested:
            rest = [
                replace(status, state="cancelled", reason="cancelled", exit_code=None)
                if status.ended
                else status
                for status in rest
            ]
        return combined_status([own or other for own, other in zip(exits, rest, strict=True)])

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Yield the lines of its output files."""
        files = JobFiles.of(handle)
        paths = {f"[{index}] ": Path(f"{files.log}-{index}") for index in range(handle.copies)}
        named = paths if handle.copies > 1 else {"": files.log}
        for line in follow_files(named, lambda: self.status(handle).ended, follow, self.poll_s):
            match = LABEL.fullmatch(line) if handle.processes > 1 else None
            yield f"[{match.group(1)}] {match.group(2)}" if match else line

    def cancel(self, handle: Handle) -> None:
        """Stop the job: SIGTERM to its processes, Slurm's KillWait, SIGKILL."""
        files = JobFiles.of(handle)
        number = self._number(handle)
        if number and not self.status(handle).ended:
            files.request_cancel()
            self._run(["scancel", number], handle, unknown="Invalid job id")

    def _number(self, handle: Handle) -> str:
        file = Path(handle.folder) / "number"
        if file.exists():
            return file.read_text(encoding="ascii").strip()
        if not Path(handle.folder).is_dir():
            return ""
        numbers = self._run(
            ["squeue", "--noheader", "--states=all", f"--name={handle.id}", "--format=%F"], handle
        ).split()
        if numbers:
            write_atomic(file, numbers[0])
        return numbers[0] if numbers else ""

    def _run(self, command: list[str], handle: Handle, unknown: str = "") -> str:
        """Return the output of a command; empty if it fails with the message `unknown`."""
        program = shutil.which(command[0])
        if program is None:
            fix = "run gpuyard on a host with Slurm's commands"
            raise ExternalError(command[0], "not installed", fix)
        environment = {**os.environ, "LC_ALL": "C"}
        if self.spec.config:
            environment["SLURM_CONF"] = self.spec.config
        where = f"{command[0]}: job {handle.id}"

        def attempt() -> str:
            try:
                done = subprocess.run(
                    [program, *command[1:]],
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=COMMAND_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                what = f"no response within {COMMAND_S:g} s"
                raise ExternalError(where, what, "check that slurmctld runs") from None
            if done.returncode == 0:
                return done.stdout
            message = done.stderr.strip() or f"exit code {done.returncode}"
            if unknown and unknown in message:
                return ""
            # A submission that timed out may have been accepted, so it is not repeated.
            may_be_accepted = command[0] == "sbatch" and "timed out" in message.lower()
            is_unavailable = UNAVAILABLE.search(message) and not may_be_accepted
            kind = _UnavailableError if is_unavailable else ExternalError
            raise kind(where, message.splitlines()[-1], "check `sinfo` and the sbatch options")

        return RETRY.run(attempt, lambda error: isinstance(error, _UnavailableError))
