"""Tasks as Slurm jobs: sbatch, an array for copies, the state from scontrol and from what the script wrote down."""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.home import write_whole
from gpuyard.jobs.backoff import jittered_s
from gpuyard.jobs.engines.slurm.queue import elements
from gpuyard.jobs.engines.slurm.script import batch_options, batch_script
from gpuyard.jobs.files import JobFiles, follow_files, together
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, Status, Task, check_task, handle_of

__all__ = ["SlurmEngine"]

COMMAND_S = 60.0
TRIES = 5
AWAY = re.compile(r"unable to contact|timed out|connection refused|zero bytes|temporarily unable", re.IGNORECASE)
LABEL = re.compile(r" *(\d+): (.*)", re.DOTALL)  # of `srun --label`


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmEngine:
    """A Slurm cluster whose commands are on this machine."""

    spec: EngineSpec
    poll_s: float = 2.0

    def handle(self, task: Task) -> Handle:
        """Where the task will be."""
        return handle_of(self.spec, task)

    def submit(self, task: Task) -> Handle:
        """Submits the task, unless Slurm has it already."""
        check_task(task)
        handle = self.handle(task)
        files = JobFiles.of(handle)
        if self._number(handle):
            return handle
        files.keep_task(task)
        script = files.folder / "job.sh"
        write_whole(script, batch_script(task, handle.folder, self.spec))
        said = self._run(["sbatch", "--parsable", *batch_options(task, handle.folder, self.spec), str(script)], handle)
        write_whole(files.folder / "number", said.strip().partition(";")[0])
        return handle

    def status(self, handle: Handle) -> Status:
        """What the script wrote down; until then, what Slurm says."""
        files = JobFiles.of(handle)
        parts = files.exits(handle.copies)
        if None not in parts:
            return together([part for part in parts if part])
        known: dict[int, Status] = {}
        number = self._number(handle)
        if number:
            said = self._run(["scontrol", "--oneliner", "show", "job", number], handle, unknown="Invalid job id")
            for element in elements(said):
                known |= dict.fromkeys(element.indices, element.status)
        parts = files.exits(handle.copies)  # again: a job that Slurm has forgotten meanwhile has written its end
        gone = (
            Status(state="cancelled", reason="cancelled")
            if files.cancel_asked
            else Status(state="lost", reason="Slurm does not know the job and it wrote down no end")
        )
        return together([part or self._waiting(files, known.get(index, gone)) for index, part in enumerate(parts)])

    def _waiting(self, files: JobFiles, status: Status) -> Status:
        """A status without an exit file; a job that was told to end is cancelled however Slurm puts it."""
        if files.cancel_asked and status.ended:
            return Status(
                state="cancelled", reason="cancelled", started_s=status.started_s, ended_s=status.ended_s,
                attempts=status.attempts,
            )  # fmt: skip
        return status

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """The lines of its output files."""
        files = JobFiles.of(handle)
        paths = {f"[{index}] ": Path(f"{files.log}-{index}") for index in range(handle.copies)}
        named = paths if handle.copies > 1 else {"": files.log}
        for line in follow_files(named, lambda: self.status(handle).ended, follow, self.poll_s):
            match = LABEL.fullmatch(line) if handle.processes > 1 else None
            yield f"[{match.group(1)}] {match.group(2)}" if match else line

    def cancel(self, handle: Handle) -> None:
        """Ends the job: SIGTERM to its processes, Slurm's KillWait, SIGKILL."""
        files = JobFiles.of(handle)
        number = self._number(handle)
        if number and not self.status(handle).ended:
            files.ask_cancel()
            self._run(["scancel", number], handle, unknown="Invalid job id")

    def _number(self, handle: Handle) -> str:
        """Slurm's number of the job; found by its name if gpuyard was killed before it could write it down."""
        kept = Path(handle.folder) / "number"
        if kept.exists():
            return kept.read_text(encoding="ascii").strip()
        if not Path(handle.folder).is_dir():
            return ""
        said = self._run(["squeue", "--noheader", "--states=all", f"--name={handle.id}", "--format=%F"], handle).split()
        if said:
            write_whole(kept, said[0])
        return said[0] if said else ""

    def _run(self, command: list[str], handle: Handle, unknown: str = "") -> str:
        """The output of a Slurm command, asked again while the controller is away; empty where the job is unknown."""
        program = shutil.which(command[0])
        if program is None:
            raise RefusedError(command[0], "not installed", "run gpuyard where Slurm's commands are")
        environment = {**os.environ, "LC_ALL": "C"} | ({"SLURM_CONF": self.spec.config} if self.spec.config else {})
        rng = random.Random(handle.id)
        said = ""
        for tries in range(1, TRIES + 1):
            try:
                done = subprocess.run(
                    [program, *command[1:]], env=environment, capture_output=True, text=True, timeout=COMMAND_S,
                    check=False,
                )  # fmt: skip
            except subprocess.TimeoutExpired as error:
                raise RefusedError(
                    f"{command[0]}: job {handle.id}", "no answer", "see whether slurmctld runs"
                ) from error
            if done.returncode == 0:
                return done.stdout
            said = done.stderr.strip() or f"exit code {done.returncode}"
            if unknown and unknown in said:
                return ""
            # A submission that timed out may have been taken, so it is not sent again here.
            if not AWAY.search(said) or (command[0] == "sbatch" and "timed out" in said.lower()):
                break
            time.sleep(jittered_s(1.0, tries, rng))
        raise RefusedError(f"{command[0]}: job {handle.id}", said.splitlines()[-1], "see `sinfo` and the options given")
