"""Tasks, handles, statuses, and the Engine interface."""

from __future__ import annotations

import math
import re
import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from gpuyard.errors import InputError, Problem
from gpuyard.jobs.spec import EngineSpec
from gpuyard.retry import RetryPolicy
from gpuyard.units import HOUR_S

State = Literal["pending", "running", "done", "failed", "cancelled", "lost"]
ENDED: frozenset[State] = frozenset({"done", "failed", "cancelled", "lost"})
NAME = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")  # a DNS label; Kubernetes appends to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One command on one or more processes that start and fail together, in `copies` copies.

    Every process sees RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR,
    MASTER_PORT, GPUYARD_JOB, GPUYARD_ATTEMPT (from 0), GPUYARD_INDEX (which copy) and
    GPUYARD_COPIES.
    """

    id: str  # `new_id(name)`: submitting the same id twice starts it once
    argv: tuple[str, ...]
    folder: str  # working folder, shared by every process; the engine writes to folder/jobs/ID
    env: tuple[tuple[str, str], ...] = ()
    nodes: int = 1
    processes_per_node: int = 1
    chips_per_process: int = 0
    cores_per_process: int = 1
    memory_per_process_bytes: int | None = None
    time_limit_s: float | None = None  # of the whole task, with its retries
    retries: int = 0  # further attempts after a process failed, was killed or lost its node
    final_codes: tuple[int, ...] = (2, 3)  # not retried: wrong input, infeasible
    backoff_s: float = 1.0  # before the first retry; doubles, up to five minutes
    grace_s: float = 10.0  # between SIGTERM and SIGKILL, for a last checkpoint
    copies: int = 1  # independent runs of one process each: folds, trials

    @property
    def processes(self) -> int:
        """Processes per copy: the world size."""
        return self.nodes * self.processes_per_node

    @property
    def retry(self) -> RetryPolicy:
        """The retries and their backoff; without jitter, because a task competes with no other."""
        return RetryPolicy(attempts=self.retries + 1, first_s=self.backoff_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Where a task runs; saved as JSON, it outlives the process that submitted it."""

    engine: EngineSpec
    id: str
    folder: str  # the engine's own files: folder/jobs/ID of the task
    processes: int = 1
    nodes: int = 1
    copies: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The state of a task as its engine reports it."""

    state: State
    exit_code: int | None = None
    reason: str = ""
    started_s: float | None = None  # Unix time
    ended_s: float | None = None
    attempts: int = 0

    @property
    def ended(self) -> bool:
        """Whether none of its processes runs any more."""
        return self.state in ENDED


def handle_of(spec: EngineSpec, task: Task) -> Handle:
    """Return the handle of a task, known before it is submitted."""
    return Handle(
        engine=spec,
        id=task.id,
        folder=str(Path(task.folder).resolve() / "jobs" / task.id),
        processes=task.processes,
        nodes=task.nodes,
        copies=task.copies,
    )


class Engine(Protocol):
    """Interface of an engine that runs tasks."""

    @property
    def poll_s(self) -> float:
        """The shortest time between two status queries."""
        ...

    def handle(self, task: Task) -> Handle:
        """Return the handle of a task; it is recorded before the task is submitted."""
        ...

    def submit(self, task: Task) -> Handle:
        """Start the task, unless one with its id was already submitted."""
        ...

    def status(self, handle: Handle) -> TaskStatus:
        """Return the state of a task; `lost` if the engine does not know it."""
        ...

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Yield the output of its processes; with `follow`, until the task ends."""
        ...

    def cancel(self, handle: Handle) -> None:
        """Stop a task: SIGTERM, its grace period, SIGKILL. Does nothing once it has ended."""
        ...


def new_id(name: str) -> str:
    """Return a unique task id that every engine accepts."""
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:24].strip("-")
    return f"{stem if stem[:1].isalpha() else 'task'}-{secrets.token_hex(4)}"


def check_task(task: Task) -> None:
    """Raise InputError with everything that no engine could run."""
    where = f"task {task.id}"
    problems: list[Problem] = []

    def check(is_wrong: bool, what: str, fix: str) -> None:
        if is_wrong:
            problems.append(Problem(where=where, what=what, fix=fix))

    check(
        not NAME.fullmatch(task.id),
        f'"{task.id}" is not an id',
        "use new_id: lower-case letters, digits and dashes",
    )
    check(not task.argv, "the command is empty", "give the program and its arguments")
    for name in ("nodes", "processes_per_node", "cores_per_process", "copies"):
        check(getattr(task, name) < 1, f"{name} is {getattr(task, name)}", "use 1 or more")
    for name in ("chips_per_process", "retries", "backoff_s", "grace_s"):
        check(
            not 0 <= getattr(task, name) < math.inf,
            f"{name} is {getattr(task, name)}",
            "use 0 or more",
        )
    limit_s = task.time_limit_s
    check(
        limit_s is not None and not 0 < limit_s < math.inf,
        f"the time limit is {limit_s} s",
        "use more than 0",
    )
    check(
        task.copies > 1 and task.processes > 1,
        f"{task.copies} copies of {task.processes} processes",
        "submit a task per copy, or use one process per copy",
    )
    wrong = [code for code in task.final_codes if not 1 <= code <= 255]
    check(bool(wrong), f"{wrong} are not exit codes of a failure", "use numbers from 1 to 255")
    for name, value in task.env:
        bad = not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value
        check(
            bad, f'"{name}" is not an environment variable', "use letters, digits and underscores"
        )
    check(any("\0" in word for word in task.argv), "the command contains a NUL byte", "remove it")
    if problems:
        raise InputError(problems)


def exit_reason(code: int) -> str:
    """Return an exit code as text; a shell reports signal N as 128 + N."""
    if code - 128 in set(signal.Signals):
        return f"killed by {signal.Signals(code - 128).name}"
    return f"exit code {code}"


def cost_usd(task: Task, spec: EngineSpec, status: TaskStatus) -> float:
    """Return the cost from start to end at the engine's price per node-hour, if it is set."""
    if status.started_s is None or status.ended_s is None:
        return 0.0
    hours = max(0.0, status.ended_s - status.started_s) / HOUR_S
    return spec.price_usd_per_hour * task.nodes * task.copies * hours
