"""Resume after gpuyard was killed: adopt the job that an earlier process left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from gpuyard.jobs.records import Stage
from gpuyard.jobs.task import Engine, Handle, Task, TaskStatus


# The handle of a job is recorded before the job is submitted, so a process
# that takes over a run can find every job that an earlier process may have left:
#   running, or done but not recorded   follow it
#   running, but the stage was stopped  cancel it, then start a new one
#   lost before it started              submit it under the same id: its submission may still be
#                                       in flight, and an id is started only once
#   anything else                       start a new one
# Invariant: two jobs of one stage never run at the same time.
def adopt_job(
    engine: Engine, task: Task, recorded: Stage, follow: Callable[[Handle], TaskStatus]
) -> tuple[TaskStatus | None, Task]:
    """Return the status of the stage's earlier job, None for a new start, and the task to start."""
    handle = recorded.handle
    if not handle or handle.engine != engine.handle(task).engine:
        return None, task
    action = _adoption(recorded, engine.status(handle))
    if action == "follow":
        adopted = follow(handle)
        return (adopted if adopted.state in ("done", "cancelled") else None), task
    if action == "cancel":
        while not engine.status(handle).ended:
            engine.cancel(handle)
            time.sleep(engine.poll_s)
    elif action == "resubmit":
        task = replace(task, id=handle.id)
    return None, task


def _adoption(stage: Stage, status: TaskStatus) -> str:
    """What to do with the recorded job of a stage: follow, cancel, resubmit, or nothing."""
    if status.state in ("pending", "running"):
        return "cancel" if stage.state == "cancelled" else "follow"
    if stage.state == "running":
        if status.state == "done":
            return "follow"
        if status.state == "lost" and status.started_s is None:
            return "resubmit"
    return ""
