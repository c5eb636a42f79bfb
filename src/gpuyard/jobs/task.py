"""What an engine runs, how it is found again, and what every engine can do."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gpuyard.errors import InputError, Problem
from gpuyard.jobs.spec import EngineSpec

__all__ = ["ENDED", "Engine", "Handle", "State", "Status", "Task", "check_task", "cost_usd", "handle_of", "new_id"]

State = Literal["pending", "running", "done", "failed", "cancelled", "lost"]
ENDED: frozenset[State] = frozenset({"done", "failed", "cancelled", "lost"})
NAME = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")  # a DNS label with room for what Kubernetes appends
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One command on one or many processes, which start and fail together; `copies` of it run independently.

    Every process sees RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT, and
    GPUYARD_JOB, GPUYARD_ATTEMPT (from 0), GPUYARD_INDEX (which copy) and GPUYARD_COPIES.
    """

    id: str  # `new_id(name)`: submitting the same id twice starts it once
    argv: tuple[str, ...]
    folder: str  # working folder, seen by every process; the engine's own files go to folder/jobs/ID
    env: tuple[tuple[str, str], ...] = ()
    nodes: int = 1
    processes_per_node: int = 1
    chips_per_process: int = 0
    cores_per_process: int = 1
    memory_per_process_bytes: int | None = None
    time_limit_s: float | None = None  # of the whole task, with its retries
    retries: int = 0  # further attempts after a process failed, was killed or lost its node
    final_codes: tuple[int, ...] = (2, 3)  # wrong input, infeasible: another attempt would end the same
    backoff_s: float = 1.0  # before the first retry; doubles, up to five minutes
    grace_s: float = 10.0  # between SIGTERM and SIGKILL, for a last checkpoint
    copies: int = 1  # independent runs of one process each: folds, trials

    @property
    def processes(self) -> int:
        """The processes of one copy: the world size."""
        return self.nodes * self.processes_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Where a task is, before, while and after it runs; as JSON it outlives the process that submitted it."""

    engine: EngineSpec
    id: str
    folder: str  # the engine's own files: folder/jobs/ID of the task
    processes: int = 1
    nodes: int = 1
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What an engine knows of a task."""

    state: State
    exit_code: int | None = None
    reason: str = ""
    started_s: float | None = None  # Unix time
    ended_s: float | None = None
    attempts: int = 0

    @property
    def ended(self) -> bool:
        """True once nothing of it runs any more."""
        return self.state in ENDED


def handle_of(spec: EngineSpec, task: Task) -> Handle:
    """Where a task will be on an engine, known before anything is submitted."""
    return Handle(
        engine=spec, id=task.id, folder=str(Path(task.folder).resolve() / "jobs" / task.id), processes=task.processes,
        nodes=task.nodes, copies=task.copies,
    )  # fmt: skip


class Engine(Protocol):
    """A place that runs tasks."""

    @property
    def poll_s(self) -> float: ...  # how often it may be asked for a status
    def handle(self, task: Task) -> Handle: ...  # known before anything is submitted, so that it can be kept first
    def submit(self, task: Task) -> Handle: ...
    def status(self, handle: Handle) -> Status: ...
    def logs(self, handle: Handle, follow: bool) -> Iterator[str]: ...
    def cancel(self, handle: Handle) -> None: ...


def new_id(name: str) -> str:
    """An id that no other task has, in letters that every engine takes."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].strip("-")
    return f"{stem if stem[:1].isalpha() else 'task'}-{secrets.token_hex(4)}"


def check_task(task: Task) -> None:
    """Raises InputError with everything that no engine could run."""
    where = f"task {task.id}"
    found: list[Problem] = []

    def note(wrong: bool, what: str, fix: str) -> None:
        """One problem, where there is one."""
        if wrong:
            found.append(Problem(where=where, what=what, fix=fix))

    note(not NAME.fullmatch(task.id), f'"{task.id}" is not an id', "use new_id: lower-case letters, digits and dashes")
    note(not task.argv, "there is no command", "write the program and its arguments")
    for name in ("nodes", "processes_per_node", "cores_per_process", "copies"):
        note(getattr(task, name) < 1, f"{name} is {getattr(task, name)}", "use 1 or more")
    for name in ("chips_per_process", "retries", "backoff_s", "grace_s"):
        note(not 0 <= getattr(task, name) < math.inf, f"{name} is {getattr(task, name)}", "use 0 or more")
    limit_s = task.time_limit_s
    note(limit_s is not None and not 0 < limit_s < math.inf, f"the time limit is {limit_s} s", "use more than 0")
    note(
        task.copies > 1 and task.processes > 1,
        f"{task.copies} copies of {task.processes} processes",
        "give each its own task, or one process a copy",
    )
    wrong = [code for code in task.final_codes if not 1 <= code <= 255]
    note(bool(wrong), f"{wrong} are not exit codes of a failure", "use numbers from 1 to 255")
    for name, value in task.env:
        bad = not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value
        note(bad, f'"{name}" is not an environment variable', "use letters, digits and underscores")
    note(any("\0" in word for word in task.argv), "the command holds a NUL byte", "remove it")
    if found:
        raise InputError(found)


def cost_usd(task: Task, spec: EngineSpec, status: Status) -> float:
    """What the machines cost from start to end: their price by the hour, where the engine's section gives it."""
    if status.started_s is None or status.ended_s is None:
        return 0.0
    hours = max(0.0, status.ended_s - status.started_s) / SECONDS_PER_HOUR
    return spec.price_usd_per_hour * task.nodes * task.copies * hours
