"""Run a task to its end with retries and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics
from gpuyard.jobs.records import MetricPoint
from gpuyard.jobs.resume import adopt_job
from gpuyard.jobs.task import Engine, Handle, State, Task, TaskStatus, new_id
from gpuyard.retry import RetryPolicy

# An engine that does not respond is given up after about ten minutes. The waits are shorter than
# the silence after which another process may take over the run.
UNAVAILABLE = RetryPolicy(attempts=64, first_s=1.0, max_s=20.0)
STOP_CHECK_S = 2.0  # how late a run may notice a stop request
FIRST_POLL_S = 0.02  # doubles after each poll, up to the engine's own interval


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """Progress of a task."""

    stage: str
    state: State
    attempts: int = 0
    step: int | None = None
    steps: int | None = None  # total
    loss: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    left_s: float | None = None
    reason: str = ""


class _ProgressMeter:
    def __init__(self, progress: TaskProgress) -> None:
        self.progress = progress
        self._first: tuple[int, float] | None = None  # step and time since the last restart

    def add(self, points: Sequence[MetricPoint]) -> None:
        for point in points:
            progress = self.progress
            if progress.step is not None and point.step < progress.step:
                self._first = None  # restarted from a checkpoint
            loss, samples, tokens = progress.loss, progress.samples_per_s, progress.tokens_per_s
            self.progress = replace(
                progress,
                step=point.step,
                loss=point.value if point.name == "loss" else loss,
                samples_per_s=point.value if point.name == "samples_per_s" else samples,
                tokens_per_s=point.value if point.name == "tokens_per_s" else tokens,
            )
            if point.time_s is not None:
                self._first = self._first or (point.step, point.time_s)
                self._estimate_left(point.step - self._first[0], point.time_s - self._first[1])

    def _estimate_left(self, done: int, elapsed_s: float) -> None:
        progress = self.progress
        if progress.steps and progress.step is not None and done > 0 and elapsed_s > 0:
            left = max(0, progress.steps - progress.step)
            self.progress = replace(progress, left_s=left * elapsed_s / done)


# The follow loop: poll the engine, import new metrics, report progress, write a heartbeat, and pass
# on a stop request. Invariants: metrics are imported after the status was read, so those of an
# ended task are complete; a heartbeat is a write that reaches the disk, so it has its own, longer
# interval; a stop cancels the task once, and the loop still waits until the engine reports the end.
def follow_task(
    engine: Engine,
    handle: Handle,
    ledger: Ledger,
    run_id: str,
    stage: str,
    *,
    metrics: Sequence[Path] = (),
    steps: int | None = None,
    on_progress: Callable[[TaskProgress], None] = lambda _: None,
) -> TaskStatus:
    """Wait for a task and import its metrics; `gpuyard stop` cancels it."""
    meter = _ProgressMeter(TaskProgress(stage=stage, state="pending", steps=steps))
    wait_s, is_cancelled, reported, heartbeat_at_s = FIRST_POLL_S, False, None, 0.0
    sizes: dict[Path, int] = {}
    while True:
        status = _status(engine, handle, ledger, run_id)
        for path in metrics:
            if _has_grown(path, sizes):
                meter.add(import_metrics(ledger, run_id, stage, path))
        meter.progress = replace(
            meter.progress, state=status.state, attempts=status.attempts, reason=status.reason
        )
        if meter.progress != reported:
            reported = meter.progress
            on_progress(reported)
        if status.ended:
            return status
        if time.monotonic() >= heartbeat_at_s:
            heartbeat_at_s = time.monotonic() + STOP_CHECK_S
            if ledger.heartbeat(run_id) and not is_cancelled:
                engine.cancel(handle)
                is_cancelled = True
        time.sleep(wait_s)
        wait_s = min(engine.poll_s, wait_s * 2)


def _has_grown(path: Path, sizes: dict[Path, int]) -> bool:
    try:
        size = path.stat().st_size
    except OSError:
        return False
    before, sizes[path] = sizes.get(path), size
    return before != size


def run_detached_task(engine: Engine, task: Task) -> TaskStatus:
    """Run a task that belongs to no stage; cancel it if the wait is interrupted."""
    handle, wait_s = engine.submit(task), FIRST_POLL_S
    try:
        while not (status := engine.status(handle)).ended:
            time.sleep(wait_s)
            wait_s = min(engine.poll_s, wait_s * 2)
    except BaseException:
        engine.cancel(handle)
        raise
    return status


def run_task(
    engine: Engine,
    task: Task,
    ledger: Ledger,
    run_id: str,
    stage: str,
    *,
    metrics: Sequence[Path] = (),
    steps: int | None = None,
    on_progress: Callable[[TaskProgress], None] = lambda _: None,
) -> TaskStatus:
    """Run a task as a stage of a run; the caller records how the stage finished.

    A job that an earlier process left is adopted. A job that the engine lost is submitted again,
    up to the task's number of retries; other failures are retried by the engine itself.
    """

    def follow(handle: Handle) -> TaskStatus:
        return follow_task(
            engine,
            handle,
            ledger,
            run_id,
            stage,
            metrics=metrics,
            steps=steps,
            on_progress=on_progress,
        )

    recorded = ledger.get(run_id).stage(stage)
    assert recorded, f"{stage} is not a stage of run {run_id}"
    status, task = adopt_job(engine, task, recorded, follow)
    losses = 0
    while status is None or (
        status.state == "lost" and losses < task.retries and not ledger.heartbeat(run_id)
    ):
        if status:
            losses += 1
            time.sleep(task.retry.backoff_s(losses))
            task = replace(task, id=new_id(task.id.rpartition("-")[0]))
        ledger.start(run_id, stage, engine.handle(task))
        status = follow(engine.submit(task))
    return status


def _status(engine: Engine, handle: Handle, ledger: Ledger, run_id: str) -> TaskStatus:
    def sleep(wait_s: float) -> None:
        ledger.heartbeat(run_id)
        time.sleep(wait_s)

    return UNAVAILABLE.run(lambda: engine.status(handle), lambda _: True, sleep)
