"""A task from submission to its end, with its metrics in the ledger; found again after gpuyard was killed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.errors import RefusedError
from gpuyard.jobs.backoff import backoff_s
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics
from gpuyard.jobs.records import Point
from gpuyard.jobs.task import Engine, Handle, State, Status, Task, new_id

__all__ = ["Progress", "follow", "run_task", "wait_for"]

AWAY_S = 600.0  # an engine that does not answer for so long is given up
BEAT_S = 20.0
STOP_S = 2.0  # how late a run may notice that it is to stop
SLOW_START_S = 0.02  # the first question comes soon; then slower, down to the engine's own pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a task is."""

    stage: str
    state: State
    attempts: int = 0
    step: int | None = None
    steps: int | None = None  # all there will be
    loss: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    left_s: float | None = None
    reason: str = ""


class _Pace:
    """Steps over time: what is left, from the steps since this attempt began."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._first: tuple[int, float] | None = None

    def take(self, points: Sequence[Point]) -> None:
        """Takes the newest values."""
        for point in points:
            step = self.progress.step
            if step is not None and point.step < step:
                self._first = None  # started again from a checkpoint
            self.progress = replace(
                self.progress,
                step=point.step,
                loss=point.value if point.name == "loss" else self.progress.loss,
                samples_per_s=point.value if point.name == "samples_per_s" else self.progress.samples_per_s,
                tokens_per_s=point.value if point.name == "tokens_per_s" else self.progress.tokens_per_s,
            )
            if point.time_s is not None:
                self._first = self._first or (point.step, point.time_s)
                self._left(point.step, point.time_s)

    def _left(self, step: int, time_s: float) -> None:
        """The time that the steps still to come will take at the pace so far."""
        assert self._first
        done, elapsed_s = step - self._first[0], time_s - self._first[1]
        if self.progress.steps and done > 0 and elapsed_s > 0:
            left = max(0, self.progress.steps - step)
            self.progress = replace(self.progress, left_s=left * elapsed_s / done)


def follow(
    engine: Engine, handle: Handle, ledger: Ledger, run_id: str, stage: str, *,
    metrics: Sequence[Path] = (), steps: int | None = None, tell: Callable[[Progress], None] = lambda _: None,
) -> Status:  # fmt: skip
    """Waits for the task's end: metrics go to the ledger, progress to `tell`; `gpuyard stop` cancels it."""
    pace = _Pace(Progress(stage=stage, state="pending", steps=steps))
    wait_s, asked, told, beat_at_s = SLOW_START_S, False, None, 0.0
    sizes: dict[Path, int] = {}
    while True:
        status = _asked(engine, handle, lambda: ledger.beat(run_id))
        grown = [path for path in metrics if _grown(path, sizes)]
        pace.take([point for path in grown for point in import_metrics(ledger, run_id, stage, path)])
        pace.progress = replace(pace.progress, state=status.state, attempts=status.attempts, reason=status.reason)
        if pace.progress != told:
            told = pace.progress
            tell(told)
        if status.ended:
            return status
        if time.monotonic() >= beat_at_s:  # not at every look: each beat is a write that reaches the disk
            beat_at_s = time.monotonic() + STOP_S
            if ledger.beat(run_id) and not asked:
                engine.cancel(handle)
                asked = True
        time.sleep(wait_s)
        wait_s = min(engine.poll_s, wait_s * 2)


def _grown(path: Path, sizes: dict[Path, int]) -> bool:
    """Whether a file has another size than when it was last looked at."""
    try:
        size = path.stat().st_size
    except OSError:
        return False
    before, sizes[path] = sizes.get(path), size
    return before != size


def wait_for(engine: Engine, task: Task) -> Status:
    """Submits a task that belongs to no stage and waits for its end; cancelled when the waiting is."""
    handle, wait_s = engine.submit(task), SLOW_START_S
    try:
        while not (status := engine.status(handle)).ended:
            time.sleep(wait_s)
            wait_s = min(engine.poll_s, wait_s * 2)
    except BaseException:
        engine.cancel(handle)
        raise
    return status


def run_task(
    engine: Engine, task: Task, ledger: Ledger, run_id: str, stage: str, *,
    metrics: Sequence[Path] = (), steps: int | None = None, tell: Callable[[Progress], None] = lambda _: None,
) -> Status:  # fmt: skip
    """Runs the task to its end as a stage of a run; the caller writes how the stage finished.

    A job of this stage that an earlier gpuyard left, running or done, is followed instead of starting another. A job
    that the engine lost is submitted again, as often as the task may be retried.
    """
    status: Status | None = None
    run = ledger.get(run_id)
    known = run.stage(stage)
    assert known, f"{stage} is not a stage of run {run_id}"
    if known.handle and known.handle.engine == engine.handle(task).engine:
        before = engine.status(known.handle)
        left = before.state
        if left == "lost" and known.state == "running" and before.started_s is None:
            task = replace(task, id=known.handle.id)  # its submission may still be under way: once more starts no other
        elif left in ("pending", "running") and known.state == "cancelled":
            _end(engine, known.handle)  # two jobs of a stage never run at once
        elif left in ("pending", "running") or (left == "done" and known.state == "running"):
            status = follow(engine, known.handle, ledger, run_id, stage, metrics=metrics, steps=steps, tell=tell)
            status = status if status.state in ("done", "cancelled") else None
    losses = 0
    while status is None or (status.state == "lost" and losses < task.retries and not ledger.beat(run_id)):
        if status:
            losses += 1
            time.sleep(backoff_s(task.backoff_s, losses))
            task = replace(task, id=new_id(task.id.rpartition("-")[0]))
        handle = engine.handle(task)
        ledger.start(run_id, stage, handle)
        engine.submit(task)
        status = follow(engine, handle, ledger, run_id, stage, metrics=metrics, steps=steps, tell=tell)
    return status


def _end(engine: Engine, handle: Handle) -> None:
    """Ends a job and waits for that."""
    while not engine.status(handle).ended:
        engine.cancel(handle)
        time.sleep(engine.poll_s)


def _asked(engine: Engine, handle: Handle, beat: Callable[[], object]) -> Status:
    """The status; an engine that is away for a while does not end the run, for its job may go on."""
    away_s, failures = 0.0, 0
    while True:
        try:
            return engine.status(handle)
        except RefusedError:
            failures += 1
            wait_s = backoff_s(1.0, failures)
            away_s += wait_s
            if away_s > AWAY_S:
                raise
            beat()
            time.sleep(min(wait_s, BEAT_S))
