"""`gpuyard runs`, `show`, `logs` and `stop` on local runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.cli.main import main
from gpuyard.home import Home
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task, new_id
from gpuyard.jobs.task_runner import run_task

STEPS = """
import json
print("training <starts>")
with open("metrics.jsonl", "w") as file:
    for step in range(2000):
        row = {"step": step, "time_s": float(step), "loss": 1.0 / (step + 1), "tokens_per_s": 1e6, "memory_bytes": 1e9}
        print(json.dumps(row), file=file)
"""
DRIVER = """
import sys
from pathlib import Path
from gpuyard.home import Home
from gpuyard.jobs.engines import open_engine
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.spec import EngineSpec
from gpuyard.jobs.task import Task, new_id
from gpuyard.jobs.task_runner import run_task
home = Home(path=Path(sys.argv[1]))
ledger = Ledger(home=home)
run = ledger.begin(name="long", workload="", engine=EngineSpec(), stages=("train",))
code = "import time; print('up', flush=True); time.sleep(300)"
task = Task(id=new_id("long"), argv=(sys.executable, "-c", code), folder=sys.argv[1], grace_s=1.0)
status = run_task(open_engine(EngineSpec()), task, ledger, run.id, "train")
ledger.finish(run.id, "train", state="cancelled")
ledger.end(run.id, status.state)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A state directory with a finished run."""
    path = tmp_path / "home"
    ledger = Ledger(home=Home(path=path))
    run = ledger.begin(
        name="quick <start>",
        workload="task: pretraining # <b>\n",
        engine=EngineSpec(),
        stages=("train",),
        versions=(("gpuyard", "1"),),
    )
    folder = Path(run.folder)
    folder.mkdir(parents=True)
    task = Task(id=new_id("train"), argv=(sys.executable, "-c", STEPS), folder=str(folder))
    metrics = (folder / "metrics.jsonl",)
    assert (
        run_task(open_engine(EngineSpec()), task, ledger, run.id, "train", metrics=metrics).state
        == "done"
    )
    ledger.finish(run.id, "train", state="done", result="result.json", cost_usd=1.25)
    ledger.end(run.id, "done")
    return path


def test_missing_home_has_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--home", str(tmp_path / "none")]) == 0
    assert "no runs in" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()
    assert main(["show", "last", "--home", str(tmp_path / "none")]) == 2
    assert "there is no state directory" in capsys.readouterr().err


@pytest.mark.slow
def test_run_is_listed_and_shown(
    home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["runs", "--home", str(home), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert (row["name"], row["state"], row["cost_usd"], row["resumable"]) == (
        "quick <start>",
        "done",
        1.25,
        False,
    )
    assert main(["runs", "--home", str(home)]) == 0
    assert "1/1" in capsys.readouterr().out
    page = tmp_path / "run.html"
    assert main(["show", row["id"][:4], "--home", str(home), "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert all(words in out for words in ("train", "1GB", "1999", "result.json"))
    text = page.read_text(encoding="utf-8")
    assert "quick &lt;start&gt;" in text
    assert "task: pretraining # &lt;b&gt;" in text
    assert "<h2>Loss</h2>" in text
    assert "Throughput, tokens per second" in text
    assert text.count("<polyline") == 3
    assert len(text) < 60_000  # 2,000 steps are thinned
    assert main(["show", "last", "--home", str(home), "--json"]) == 0
    detail = json.loads(capsys.readouterr().out)
    assert detail["metrics"]["train.loss"] == pytest.approx(1 / 2000)
    assert main(["show", "nonsense", "--home", str(home)]) == 2


@pytest.mark.slow
def test_finished_run_has_logs_and_cannot_be_stopped(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "last", "--home", str(home), "-f"]) == 0
    assert capsys.readouterr().out == "train: training <starts>\n"
    assert main(["logs", "last", "--home", str(home), "--stage", "deploy"]) == 2
    assert '"deploy"' in capsys.readouterr().err
    assert main(["stop", "last", "--home", str(home)]) == 2
    assert "done" in capsys.readouterr().err


@pytest.mark.slow
def test_running_run_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)]) as driver:
        while (
            main(["logs", "last", "--home", str(tmp_path)]) or "up" not in capsys.readouterr().out
        ):
            assert driver.poll() is None
            time.sleep(0.1)
        assert main(["stop", "last", "--home", str(tmp_path), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "cancelled"
    run = Ledger(home=Home(path=tmp_path)).get("last")
    assert run.state == "cancelled"
    assert run.stages[0].handle
    assert open_engine(EngineSpec()).status(run.stages[0].handle).state == "cancelled"


@pytest.mark.slow
def test_job_of_an_interrupted_run_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", DRIVER, str(tmp_path)]) as driver:
        while (
            main(["logs", "last", "--home", str(tmp_path)]) or "up" not in capsys.readouterr().out
        ):
            assert driver.poll() is None
            time.sleep(0.1)
        driver.kill()
    assert main(["runs", "--home", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "interrupted" in out
    assert "gpuyard resume" in out
    assert main(["stop", "last", "--home", str(tmp_path)]) == 0
    run = Ledger(home=Home(path=tmp_path)).get("last")
    assert run.state == "cancelled"
    assert run.stages[0].handle
    while not (status := open_engine(EngineSpec()).status(run.stages[0].handle)).ended:
        time.sleep(0.05)
    assert status.state == "cancelled"
