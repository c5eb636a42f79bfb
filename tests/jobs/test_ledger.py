"""The ledger of runs: states, resuming, and what is left after kill -9 at any moment."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics, series
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Handle

STAGES = ("data", "train", "deploy")


def begun(tmp_path: Path) -> tuple[Ledger, str]:
    """A ledger with one run."""
    ledger = Ledger(home=Home(path=tmp_path / "home"))
    run = ledger.begin(
        name="lab",
        workload="task: x\n",
        engine=EngineSpec(name="slurm", partition="gpu"),
        stages=STAGES,
        versions=(("gpuyard", "1"),),
    )
    return ledger, run.id


def test_run_is_recorded_from_start_to_end(tmp_path: Path) -> None:
    ledger, run_id = begun(tmp_path)
    run = ledger.get(run_id)
    assert (run.state, run.engine.partition, run.versions) == (
        "running",
        "gpu",
        (("gpuyard", "1"),),
    )
    assert [stage.state for stage in run.stages] == ["pending"] * 3
    assert run.folder == str(ledger.home.runs / run_id)
    handle = Handle(engine=run.engine, id="train-1", folder="/x")
    ledger.start(run_id, "data")
    ledger.finish(run_id, "data", state="done", result="data.json")
    assert ledger.start(run_id, "train", handle).handle == handle
    ledger.finish(run_id, "train", state="failed", error="exit code 1", cost_usd=2.0)
    ledger.end(run_id, "failed", "train")
    assert ledger.get(run_id).resumable
    run = ledger.take(run_id)
    assert (run.state, run.ended_s, run.error) == ("running", None, "")
    assert [stage.state for stage in run.stages] == ["done", "failed", "pending"]
    with pytest.raises(AssertionError, match="train"):
        ledger.end(run_id, "done")
    assert ledger.start(run_id, "train", handle).attempt == 2
    ledger.finish(run_id, "train", state="done", cost_usd=1.5)
    assert ledger.end(run_id, "done").resumable  # deploy was not requested
    ledger.take(run_id)
    ledger.finish(run_id, "deploy", state="skipped")
    run = ledger.end(run_id, "done")
    assert (run.state, run.cost_usd) == ("done", 3.5)
    with pytest.raises(InputError, match="is done"):
        ledger.take(run_id)


def test_runs_resolve_by_name_prefix_and_last(tmp_path: Path) -> None:
    ledger, first = begun(tmp_path)
    second = ledger.begin(name="b", workload="", engine=EngineSpec(), stages=()).id
    assert [run.id for run in ledger.runs()] == [second, first]
    assert ledger.get("last").id == second
    assert ledger.get(first).id == first
    shared = next(place for place in range(1, 7) if first[:place] != second[:place])
    assert ledger.get(first[:shared]).id == first
    with pytest.raises(InputError, match="gpuyard runs"):
        ledger.get("zzzzzz")
    with pytest.raises(InputError):
        ledger.get("")


def test_run_of_dead_process_is_interrupted_and_can_be_resumed(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom gpuyard.home import Home\n"
        "from gpuyard.jobs.ledger import Ledger\nfrom gpuyard.jobs.spec import EngineSpec\n"
        "ledger = Ledger(home=Home(path=Path(sys.argv[1])))\n"
        "run = ledger.begin(name='x', workload='', engine=EngineSpec(), stages=('train',))\n"
        "ledger.start(run.id, 'train')\nprint(run.id, flush=True)\nsys.stdin.read()\n"
    )
    ledger = Ledger(home=Home(path=tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout
        run_id = other.stdout.readline().strip()
        assert ledger.get(run_id).state == "running"
        with pytest.raises(ExternalError, match="another process"):
            ledger.take(run_id)
        driver = ledger.request_stop(run_id)
        assert driver
        assert driver.pid == other.pid
        other.kill()
    run = ledger.get(run_id)
    assert (run.state, run.resumable, run.stop_asked) == ("interrupted", True, True)
    run = ledger.take(run_id)
    assert (run.state, run.stop_asked) == ("running", False)
    assert run.stages[0].state == "running"  # its job may still run: whoever goes on looks


def test_another_machine_is_heard_of_by_its_beats(tmp_path: Path) -> None:
    clock = [1000.0]
    ledger = Ledger(home=Home(path=tmp_path), now=lambda: clock[0])
    run_id = ledger.begin(name="x", workload="", engine=EngineSpec(), stages=()).id
    with ledger.connect() as connection:
        connection.execute(
            'UPDATE runs SET driver = replace(driver, \'"host": "\', \'"host": "far-\')'
        )
    assert ledger.get(run_id).state == "running"
    clock[0] += 45
    assert ledger.heartbeat(run_id) is False
    clock[0] += 45
    assert ledger.get(run_id).state == "running"
    clock[0] += 45
    assert ledger.get(run_id).state == "interrupted"


def test_metrics_are_taken_once_line_by_line(tmp_path: Path) -> None:
    ledger, run_id = begun(tmp_path)
    file = tmp_path / "metrics.jsonl"
    assert import_metrics(ledger, run_id, "train", file) == ()
    rows = [
        {"step": step, "time_s": 10.0 + step, "loss": 1.0 / (step + 1), "note": "x"}
        for step in range(4)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    file.write_text(text + '{"step": 4, "lo')
    assert [point.step for point in import_metrics(ledger, run_id, "train", file)] == [0, 1, 2, 3]
    assert import_metrics(ledger, run_id, "train", file) == ()
    with file.open(
        "a"
    ) as more:  # the torn line is finished; then a restart from step 3, a broken line and a NaN
        more.write(
            'ss": 0.5}\n{"step": 3, "loss": 9.0}\nnot json\n[1]\n{"loss": 3}\n{"step": 5, "loss": NaN}\n'
        )
    assert [
        (point.step, point.value) for point in import_metrics(ledger, run_id, "train", file)
    ] == [
        (4, 0.5),
        (3, 9.0),
        (5, None),
    ]
    (found,) = series(ledger, run_id)
    assert [(point.step, point.value) for point in found.points] == [
        (0, 1.0),
        (1, 0.5),
        (2, 1 / 3),
        (3, 9.0),
        (4, 0.5),
        (5, None),
    ]
    file.write_text('{"step": 0, "loss": 7}\n')  # another file of that name
    assert [point.value for point in import_metrics(ledger, run_id, "train", file)] == [7.0]


WRITER = """
import itertools, json, os, sys
from pathlib import Path
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.metrics import import_metrics
from gpuyard.jobs.spec import EngineSpec
home, metrics = Path(sys.argv[1]), Path(sys.argv[2])
ledger = Ledger(home=Home(path=home))
old = [run for run in ledger.runs() if run.state == "interrupted"]
run = ledger.take(old[0].id) if old else ledger.begin(name="x", workload="w", engine=EngineSpec(), stages=("a", "b"))
print("ready", flush=True)
for stage in run.stages:
    if stage.state == "done":
        continue
    ledger.start(run.id, stage.name)
    for _ in range(6):
        written = metrics.read_text().count("\\n") if metrics.exists() else 0
        with metrics.open("a") as file:
            file.write(json.dumps({"step": written, "loss": written}) + "\\n")
        import_metrics(ledger, run.id, "all", metrics)
    ledger.finish(run.id, stage.name, state="done", result="r", cost_usd=1.0)
ledger.end(run.id, "done")
"""


def test_killed_writer_leaves_consistent_ledger(tmp_path: Path) -> None:
    """Killed again and again at random moments, the run still ends, each point once and each stage done once."""
    home, metrics = tmp_path / "home", tmp_path / "metrics.jsonl"
    rng = random.Random(5)
    ledger = Ledger(home=Home(path=home))
    for _ in range(25):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(home), str(metrics)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout
            writer.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.06))
            writer.send_signal(signal.SIGKILL)
        with sqlite3.connect(home / "ledger.db") as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
            assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        raw.close()
        for run in ledger.runs():
            assert run.state in ("interrupted", "done")
            assert all(
                stage.result == "r" and stage.cost_usd == 1.0
                for stage in run.stages
                if stage.state == "done"
            )
            assert all(stage.cost_usd == 0.0 for stage in run.stages if stage.state != "done")
            assert run.state != "done" or all(stage.state == "done" for stage in run.stages)
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(home), str(metrics)], check=True, capture_output=True
    )
    assert done.returncode == 0
    lines = metrics.read_text().splitlines()
    for run in ledger.runs():
        for found in series(ledger, run.id):
            assert [point.value for point in found.points] == [
                float(point.step) for point in found.points
            ]
            assert [point.step for point in found.points] == list(range(found.points[-1].step + 1))
            assert len(found.points) <= len(lines)
