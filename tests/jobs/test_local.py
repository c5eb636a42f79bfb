"""This machine: what a supervisor's death, a full disk and GPUs mean."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from gpuyard.document.encode import load_json
from gpuyard.errors import InputError
from gpuyard.jobs.engines.local.chips import chip_environment, local_chips
from gpuyard.jobs.engines.local.local_engine import LocalEngine
from gpuyard.jobs.engines.local.supervisor import Supervisor
from gpuyard.jobs.files import JobFiles
from gpuyard.jobs.process import Process, is_alive, this_process
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle, Task, TaskStatus, new_id

ENGINE = LocalEngine(spec=EngineSpec())
WAIT = "import os, time; open('pid', 'w').write(str(os.getpid())); print('up', flush=True); time.sleep(300)"


def task(folder: Path, code: str, **changes: object) -> Task:
    """A task that runs Python code."""
    return Task(id=new_id("t"), argv=(sys.executable, "-c", code), folder=str(folder), **changes)  # type: ignore[arg-type]


def ended(handle: Handle) -> TaskStatus:
    """The status at the end."""
    for _ in ENGINE.logs(handle, follow=True):
        pass
    return ENGINE.status(handle)


def test_killed_supervisor_ends_all_its_processes(tmp_path: Path) -> None:
    handle = ENGINE.submit(task(tmp_path, WAIT, nodes=2, grace_s=0.5))
    lines = ENGINE.logs(handle, follow=True)
    assert {next(lines), next(lines)} == {"[0] up", "[1] up"}
    supervisor = load_json((Path(handle.folder) / "supervisor.json").read_text(), Process)
    worker = this_process(int((tmp_path / "pid").read_text()))
    assert ENGINE.status(handle).state == "running"
    os.kill(supervisor.pid, signal.SIGKILL)
    while is_alive(worker) or is_alive(supervisor):
        time.sleep(0.05)
    assert ENGINE.status(handle).state == "lost"
    assert list(lines) == []
    ENGINE.cancel(handle)
    assert ENGINE.status(handle).state == "lost"


def test_full_disk_loses_log_lines_but_not_the_job(tmp_path: Path) -> None:
    given = task(tmp_path, "print('x' * 10000); open('made', 'w')")
    folder = Path(ENGINE.handle(given).folder)
    folder.mkdir(parents=True)
    (folder / "log").symlink_to("/dev/full")
    handle = ENGINE.submit(given)
    while not ENGINE.status(handle).ended:
        time.sleep(0.05)
    assert ENGINE.status(handle).state == "done"
    assert (tmp_path / "made").exists()


def test_process_that_ignores_sigterm_is_killed_after_grace_period(tmp_path: Path) -> None:
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAIT
    handle = ENGINE.submit(task(tmp_path, code, grace_s=0.3))
    assert next(ENGINE.logs(handle, follow=True)) == "up"
    ENGINE.cancel(handle)
    assert ended(handle).state == "cancelled"
    assert not is_alive(this_process(int((tmp_path / "pid").read_text())))


def test_job_cancelled_between_attempts_does_not_restart(tmp_path: Path) -> None:
    handle = ENGINE.submit(task(tmp_path, "raise SystemExit(1)", retries=5, backoff_s=60.0))
    lines = ENGINE.logs(handle, follow=True)
    assert next(lines) == "gpuyard: exit code 1; attempt 2 of 6 in 60 s"
    ENGINE.cancel(handle)
    status = ended(handle)
    assert (status.state, status.attempts) == ("cancelled", 1)


def test_last_log_line_without_newline_is_reported(tmp_path: Path) -> None:
    handle = ENGINE.submit(
        task(tmp_path, "import sys; sys.stdout.write('a\\nb')", env=(("LANG", "C"),))
    )
    assert list(ENGINE.logs(handle, follow=True)) == ["a", "b"]


def test_chips_are_dealt_out_by_rank_and_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl"):
        (tmp_path / name).touch()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert local_chips(tmp_path) == ("0", "1", "10")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    two = task(tmp_path, "", processes_per_node=2, chips_per_process=2)
    assert [chip_environment(two, rank, 0)["CUDA_VISIBLE_DEVICES"] for rank in (0, 1)] == [
        "4,5",
        "6,7",
    ]
    copies = task(tmp_path, "", copies=8, chips_per_process=1)
    assert [chip_environment(copies, 0, index)["CUDA_VISIBLE_DEVICES"] for index in (0, 3, 4)] == [
        "4",
        "7",
        "4",
    ]
    assert chip_environment(task(tmp_path, ""), 0, 0) == {}
    with pytest.raises(InputError, match="needs 6 chips; this host has 4"):
        ENGINE.submit(task(tmp_path, "", nodes=3, chips_per_process=2))


def test_process_identity_includes_start_time() -> None:
    own = this_process()
    assert is_alive(own)
    assert is_alive(Process(host=own.host, boot=own.boot, pid=own.pid, start="1")) is False
    assert is_alive(Process(host=own.host, boot="another", pid=own.pid, start=own.start)) is False
    assert is_alive(Process(host="elsewhere", boot=own.boot, pid=own.pid, start=own.start)) is None


@pytest.mark.parametrize("jump_s", [-86_400.0, 86_400.0])
def test_clock_that_is_set_neither_ends_a_job_nor_changes_its_duration(
    jump_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(1_000_000_000.0, jump_s)  # every look at it is a day apart
    monkeypatch.setattr(time, "time", lambda: next(clock))
    files = JobFiles(folder=tmp_path)
    job = task(tmp_path, "import time; time.sleep(0.5)", time_limit_s=3600.0)
    wakeup, writer = os.pipe()
    try:
        with (tmp_path / "log").open("ab", buffering=0) as log:
            Supervisor(job, files, 1).run(log, wakeup)
    finally:
        os.close(wakeup)
        os.close(writer)
    status = files.exit(0)
    assert status is not None
    assert (status.state, status.reason) == ("done", "")
    assert status.started_s is not None
    assert status.ended_s is not None
    assert 0.5 <= status.ended_s - status.started_s < 3600.0
