"""A task as a stage of a run: progress, stopping, jobs that are lost, and jobs that outlived gpuyard."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import ExternalError
from gpuyard.home import Home
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.files import combined_status
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import series
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import ENDED, Handle, State, Task, TaskStatus, cost_usd, new_id
from gpuyard.jobs.task_runner import TaskProgress, run_task

STEPS = """
import json, time
with open("metrics.jsonl", "a") as file:
    for step in range(1, 6):
        print(json.dumps({"step": step, "time_s": 100.0 + 2.0 * step, "loss": 1.0 / step, "samples_per_s": 8.0}), file=file, flush=True)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with a run of one stage."""
    found = Ledger(home=Home(path=tmp_path / "home"))
    found.begin(name="x", workload="", engine=EngineSpec(), stages=("train",))
    return found


def make(folder: Path, code: str, **changes: object) -> Task:
    """A task that runs Python code."""
    return Task(id=new_id("t"), argv=(sys.executable, "-c", code), folder=str(folder), **changes)  # type: ignore[arg-type]


def test_metrics_reach_the_ledger_and_progress_is_reported(tmp_path: Path, ledger: Ledger) -> None:
    told: list[TaskProgress] = []
    run_id = ledger.get("last").id
    engine = open_engine(EngineSpec())
    status = run_task(
        engine,
        make(tmp_path, STEPS),
        ledger,
        run_id,
        "train",
        metrics=(tmp_path / "metrics.jsonl",),
        steps=10,
        on_progress=told.append,
    )
    assert status.state == "done"
    last = told[-1]
    assert (last.state, last.step, last.steps, last.loss, last.samples_per_s) == (
        "done",
        5,
        10,
        0.2,
        8.0,
    )
    assert last.left_s == pytest.approx(10.0)  # five steps of two seconds
    assert {each.name: len(each.points) for each in series(ledger, run_id)} == {
        "loss": 5,
        "samples_per_s": 5,
    }
    stage = ledger.get(run_id).stages[0]
    assert (stage.state, stage.attempt) == ("running", 1)  # the caller says how it ended
    again = run_task(engine, make(tmp_path, "raise SystemExit(3)"), ledger, run_id, "train")
    assert again.state == "done"  # the job that is there is found, not started again
    assert ledger.get(run_id).stages[0].attempt == 1


def test_stop_reaches_the_job(tmp_path: Path, ledger: Ledger) -> None:
    run_id = ledger.get("last").id

    def stop(progress: TaskProgress) -> None:
        """Asks for the end as soon as it runs."""
        if progress.state == "running":
            ledger.request_stop(run_id)

    wait = make(tmp_path, "import time; time.sleep(300)", grace_s=1.0)
    status = run_task(open_engine(EngineSpec()), wait, ledger, run_id, "train", on_progress=stop)
    assert status.state == "cancelled"


@dataclass(slots=True)
class Forgetful:
    """An engine that loses its first jobs."""

    losses: int
    poll_s: float = 0.01
    submitted: list[str] = field(default_factory=list)

    def handle(self, task: Task) -> Handle:
        """Where the task will be."""
        return Handle(engine=EngineSpec(), id=task.id, folder=task.folder)

    def submit(self, task: Task) -> Handle:
        """Takes the task."""
        self.submitted.append(task.id)
        return self.handle(task)

    def status(self, handle: Handle) -> TaskStatus:
        """Lost, or done."""
        return TaskStatus(state="lost" if self.submitted.index(handle.id) < self.losses else "done")

    def logs(self, handle: Handle, follow: bool) -> Iterator[str]:
        """Nothing."""
        return iter(())

    def cancel(self, handle: Handle) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("losses", "retries", "state", "tries"),
    [(2, 3, "done", 3), (2, 1, "lost", 2), (0, 0, "done", 1)],
)
def test_lost_job_is_resubmitted(
    tmp_path: Path, ledger: Ledger, losses: int, retries: int, state: State, tries: int
) -> None:
    engine = Forgetful(losses=losses)
    run_id = ledger.get("last").id
    status = run_task(
        engine, make(tmp_path, "", retries=retries, backoff_s=0.001), ledger, run_id, "train"
    )
    assert status.state == state
    assert len(set(engine.submitted)) == tries
    assert ledger.get(run_id).stages[0].attempt == tries


@dataclass(slots=True)
class Shy(Forgetful):
    """An engine that is away for the first questions."""

    away: int = 3

    def status(self, handle: Handle) -> TaskStatus:
        """Nothing at first."""
        self.away -= 1
        if self.away >= 0:
            raise ExternalError("engine", "no answer", "wait")
        return Forgetful.status(self, handle)


def test_temporarily_unreachable_engine_is_waited_for(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.retry.RetryPolicy.wait_s", lambda *_: 0.0)
    run_id = ledger.get("last").id
    assert run_task(Shy(losses=0), make(tmp_path, ""), ledger, run_id, "train").state == "done"
    gone = Shy(losses=0, away=10**6)
    run = ledger.begin(name="y", workload="", engine=EngineSpec(), stages=("train",))
    with pytest.raises(ExternalError, match="no answer"):
        run_task(gone, make(tmp_path, ""), ledger, run.id, "train")


def test_job_of_failed_stage_is_adopted_and_job_of_stopped_stage_is_ended(
    tmp_path: Path, ledger: Ledger
) -> None:
    engine, run_id = open_engine(EngineSpec()), ledger.get("last").id
    for state, attempt in (("failed", 1), ("cancelled", 2)):
        left = make(
            tmp_path,
            "import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)",
            grace_s=1.0,
        )
        ledger.start(run_id, "train", engine.submit(left))
        ledger.finish(run_id, "train", state=state)  # type: ignore[arg-type]
        before = ledger.get(run_id).stages[0].attempt
        if state == "failed":
            (tmp_path / "go").touch()
        status = run_task(engine, make(tmp_path, ""), ledger, run_id, "train")
        assert status.state == "done"
        assert ledger.get(run_id).stages[0].attempt == before + attempt - 1
        assert engine.status(engine.handle(left)).state == (
            "done" if state == "failed" else "cancelled"
        )
        (tmp_path / "go").unlink(missing_ok=True)
        if state == "failed":
            ledger.finish(run_id, "train", state="failed")


def test_cost_is_time_times_price(tmp_path: Path) -> None:
    task = make(tmp_path, "", nodes=4)
    status = TaskStatus(state="done", started_s=100.0, ended_s=1900.0)
    assert cost_usd(task, EngineSpec(price_usd_per_hour=10.0), status) == 20.0
    assert cost_usd(task, EngineSpec(), status) == 0.0
    assert cost_usd(task, EngineSpec(price_usd_per_hour=10.0), replace(status, ended_s=None)) == 0.0


@given(
    st.lists(
        st.sampled_from(["pending", "running", "done", "failed", "cancelled", "lost"]),
        min_size=1,
        max_size=6,
    )
)
def test_copies_end_together_and_fail_with_the_first_that_failed(states: list[State]) -> None:
    whole = combined_status(
        [TaskStatus(state=state, exit_code=3 if state == "failed" else None) for state in states]
    )
    assert whole.ended == all(state in ENDED for state in states)
    if set(states) == {"done"}:
        assert whole.state == "done"
    if whole.ended and "failed" in states:
        assert (whole.state, whole.exit_code) == ("failed", 3)
    if not whole.ended:
        assert whole.exit_code is None
