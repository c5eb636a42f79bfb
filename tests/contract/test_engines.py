"""One contract for every engine: this machine, Ray, Slurm and Kubernetes run the same tasks to the same ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import InputError
from gpuyard.jobs.engines import ENGINES
from gpuyard.jobs.task import Handle, Task

from .place import LONG_S, Place, place

Case = Callable[[Place], Iterator[None]]


def two_ranks_meet(at: Place) -> Iterator[None]:
    task = at.task("meet", nodes=2)
    handle = at.engine.submit(task)
    assert at.engine.submit(task) == handle  # once more starts nothing more
    yield
    lines = list(at.engine.logs(handle, follow=True))
    status = at.engine.status(handle)
    assert (status.state, status.exit_code, status.attempts) == ("done", 0, 1), (
        status,
        at.told(handle),
    )
    assert status.started_s
    assert status.ended_s
    assert status.ended_s >= status.started_s
    for rank in (0, 1):
        own = [line.removeprefix(f"[{rank}] ") for line in lines if line.startswith(f"[{rank}] ")]
        assert own == [f"line {number}" for number in range(20)] + [
            f"met 1 local 0 node {rank} of 1"
        ]


def several_processes_of_a_node_meet(at: Place) -> Iterator[None]:
    handle = at.engine.submit(at.task("meet", processes_per_node=2))
    yield
    assert at.wait(handle).state == "done", at.told(handle)
    text = "\n".join(at.engine.logs(handle, follow=False))
    assert all(f"met 1 local {rank} node 0 of 2" in text for rank in (0, 1)), text


def a_failure_is_tried_again_and_told(at: Place) -> Iterator[None]:
    handle = at.engine.submit(at.task("fail", retries=1))
    yield
    status = at.wait(handle)
    assert (status.state, status.exit_code, status.reason, status.attempts) == (
        "failed",
        7,
        "exit code 7",
        2,
    )
    lines = [line for line in at.engine.logs(handle, follow=False) if line.startswith("attempt")]
    assert lines == ["attempt 0", "attempt 1"]


def an_end_that_would_come_again_is_not_tried_again(at: Place) -> Iterator[None]:
    alone = at.engine.submit(at.task("wrong", retries=2))
    group = at.engine.submit(at.task("wrong", nodes=2, retries=2))
    retried = at.engine.submit(at.task("wrong", retries=1, final_codes=()))
    yield
    for handle, attempts in ((alone, 1), (group, 1), (retried, 2)):
        status = at.wait(handle)
        assert (status.state, status.exit_code, status.attempts) == ("failed", 2, attempts), (
            status,
            at.told(handle),
        )
        assert status.reason.startswith("exit code 2"), status


def a_killed_worker_is_started_again_with_its_group(at: Place) -> Iterator[None]:
    handle = at.engine.submit(at.task("die", nodes=2, retries=1))
    yield
    status = at.wait(handle)
    assert (status.state, status.attempts) == ("done", 2), (status, at.told(handle))
    lines = list(at.engine.logs(handle, follow=False))
    assert sum("resumed from step 30 in attempt 1" in line for line in lines) == 2, lines


def a_late_task_is_ended_and_not_tried_again(at: Place) -> Iterator[None]:
    task = at.task("late", time_limit_s=3.0, retries=3)
    handle = at.engine.submit(task)
    yield
    status = at.wait(handle)
    assert status.state == "failed"
    assert "time limit" in status.reason
    assert status.attempts == 1
    _nothing_runs(at, task)


def copies_run_side_by_side(at: Place) -> Iterator[None]:
    task = at.task("copies", copies=3)
    handle = at.engine.submit(task)
    yield
    assert at.wait(handle).state == "done", at.told(handle)
    assert sorted(path.name for path in Path(task.folder).glob("copy-*")) == [
        "copy-0",
        "copy-1",
        "copy-2",
    ]
    lines = [
        line for line in at.engine.logs(handle, follow=False) if not line.startswith("gpuyard: ")
    ]
    assert sorted(lines) == [f"[{index}] copy {index} of 3" for index in range(3)]


def a_command_that_is_not_there_fails(at: Place) -> Iterator[None]:
    handle = at.engine.submit(replace(at.task("meet"), argv=("/no/such/program",)))
    yield
    status = at.wait(handle)
    assert (status.state, status.exit_code) in {("failed", 127), ("failed", 126), ("failed", 2)}, (
        status
    )


SUBMIT = """
import sys, time
from pathlib import Path
from gpuyard.document.encode import load_json
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.task import Handle, Task
task = load_json(Path(sys.argv[1]).read_text(), Task)
handle = load_json(Path(sys.argv[2]).read_text(), Handle)
open_engine(handle.engine).submit(task)
print("submitted", flush=True)
time.sleep(300)
"""


def a_job_outlives_gpuyard_and_is_found_and_cancelled(at: Place) -> Iterator[None]:
    task = at.task("wait")
    folder = Path(task.folder)
    (folder / "task.json").write_text(dump_json(task))
    (folder / "handle.json").write_text(
        dump_json(at.engine.handle(task))
    )  # known before anything is submitted
    if at.spec.name == "ray":
        at.engine.submit(task)  # the other process would start a Ray of its own
    command = [sys.executable, "-c", SUBMIT, str(folder / "task.json"), str(folder / "handle.json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as gpuyard:
        if at.spec.name != "ray":
            assert gpuyard.stdout
            assert gpuyard.stdout.readline() == b"submitted\n"
        os.killpg(gpuyard.pid, signal.SIGKILL)
    yield
    handle = load_json((folder / "handle.json").read_text(), Handle)
    assert at.wait(handle, "running").state == "running", at.told(handle)
    at.saying(handle, "ready")
    at.engine.cancel(handle)
    status = at.wait(handle)
    assert (status.state, status.reason) == ("cancelled", "cancelled")
    assert (folder / "checkpoint").read_text() == "last"  # it had its grace
    _nothing_runs(at, task)
    at.engine.cancel(handle)  # once more changes nothing
    assert at.engine.status(handle) == status


def an_unknown_job_is_lost(at: Place) -> Iterator[None]:
    yield
    handle = at.engine.handle(at.task("wait"))
    assert at.engine.status(handle).state == "lost"
    at.engine.cancel(handle)
    assert at.engine.status(handle).state == "lost"


def a_wrong_task_is_refused_with_every_reason(at: Place) -> Iterator[None]:
    yield
    wrong = replace(
        at.task("wait"), argv=(), nodes=0, retries=-1, time_limit_s=0.0, env=(("A B", "c"),)
    )
    with pytest.raises(InputError) as error:
        at.engine.submit(wrong)
    assert len(error.value.problems) == 5


def a_lost_node_is_survived(at: Place) -> Iterator[None]:
    """Comes last, for it takes the node from everybody."""
    yield
    if at.lose_node is None:
        return
    handle = at.engine.submit(at.task("node", nodes=2, retries=1, grace_s=1.0))
    at.saying(handle, "[0] ready")
    at.saying(handle, "[1] ready")
    at.lose_node(handle)
    status = at.wait(handle)
    assert (status.state, status.attempts) == ("done", 2), (status, at.told(handle))


CASES: tuple[Case, ...] = (
    two_ranks_meet,
    several_processes_of_a_node_meet,
    a_failure_is_tried_again_and_told,
    an_end_that_would_come_again_is_not_tried_again,
    a_killed_worker_is_started_again_with_its_group,
    a_late_task_is_ended_and_not_tried_again,
    copies_run_side_by_side,
    a_command_that_is_not_there_fails,
    a_job_outlives_gpuyard_and_is_found_and_cancelled,
    an_unknown_job_is_lost,
    a_wrong_task_is_refused_with_every_reason,
    a_lost_node_is_survived,
)


def _nothing_runs(at: Place, task: Task) -> None:
    """Fails if the child that forgot its parent is still there."""
    noted = Path(task.folder) / "orphan"
    if (
        at.spec.name == "slurm" or not noted.exists()
    ):  # on a busy machine a task may be late before it has begun
        return
    pid, until_s = int(noted.read_text()), time.monotonic() + LONG_S
    while _runs_program(pid):
        assert time.monotonic() < until_s, f"{pid} still runs"
        time.sleep(0.1)


def _runs_program(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return b"program.py" in command and state not in "ZX"


@pytest.mark.parametrize("name", tuple(ENGINES))
def test_engine_meets_the_contract(name: str) -> None:
    """All cases of an engine in one place, side by side: what takes long is the engines' own start."""
    with place(name) as at, contextlib.ExitStack() as stack:
        begun = [(case.__name__, case(at)) for case in CASES]
        for _, each in begun:
            stack.callback(each.close)  # type: ignore[attr-defined]
            next(each)
        broken: list[str] = []
        for case, each in begun:
            try:
                assert next(each, "ended") == "ended"
            except AssertionError as error:
                broken.append(f"{case}: {error}")
        assert not broken, "\n\n".join(broken)
