"""`gpuyard up` on planned machines and on this one: cached, changed, stopped and killed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuyard.app.measure import save_profile
from gpuyard.app.runs import stop_run
from gpuyard.app.serve import stop_endpoint
from gpuyard.app.up import names_of, up
from gpuyard.app.up_report import UpReport
from gpuyard.app.up_results import compared_of, predicted_of, results_of_plan
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.jobs.records import Run
from gpuyard.perf.local.profile import MachineProfile
from gpuyard.registry.registry import Registry
from gpuyard.serving.endpoints import Endpoints

from .pipelines import (
    IRIS,
    assert_nothing_runs,
    gpuyard_process,
    processes_of,
    script_workload,
    stop_services,
    wait_for_stage,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVE = (EXAMPLES / "serve-small-cloud-run" / "workload.yaml").read_text(encoding="utf-8")
EVERY_KILL = os.environ.get("GPUYARD_EVERY_KILL") == "1"
STAGES = ("data", "train", "evaluate", "register", "deploy")
SEED = int(os.environ.get("GPUYARD_KILL_SEED", "10"))


def states(report: UpReport) -> dict[str, str]:
    """State of every stage."""
    return {stage.name: stage.state for stage in report.stages}


def test_planned_stages_are_cached_until_workload_or_files_change(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE, encoding="utf-8")
    folder = Home.for_workload(path).path / "up" / "serve-small-cloud-run"
    planned = up(open_workspace(path), dry_run=True)
    assert states(planned) == dict.fromkeys(names_of(False), "planned")
    assert not Home.for_workload(path).path.exists()

    first = up(open_workspace(path), until="plan")
    assert states(first) == {"check": "done", "plan": "done"}
    assert first.next == f"gpuyard up {path}"
    whole = up(open_workspace(path))
    assert states(whole) == {
        "check": "cached",
        "plan": "cached",
        "fabric": "skipped",
        "verify": "skipped",
        "simulate": "skipped",
        "provision": "done",
    }
    assert whole.next.startswith(f"read {folder / 'deploy' / 'README.md'}")
    assert "--yes" not in whole.next  # nothing that spends is one paste away
    assert any((folder / "deploy").iterdir())
    written_ns = (folder / "plan.json").stat().st_mtime_ns
    again = up(open_workspace(path))
    assert [(stage.name, stage.what) for stage in again.stages] == [
        (stage.name, stage.what) for stage in whole.stages
    ]
    assert "done" not in states(again).values()
    assert (folder / "plan.json").stat().st_mtime_ns == written_ns

    (folder / "plan.json").unlink()  # later stages are computed again too
    assert states(up(open_workspace(path), until="plan")) == {"check": "cached", "plan": "done"}
    (folder / "fabric.json").write_text("of another workload", encoding="utf-8")
    path.write_text(SERVE.replace("2/h", "3/h"), encoding="utf-8")
    changed = up(open_workspace(path))
    assert "cached" not in states(changed).values()
    assert states(changed)["verify"] == "skipped"
    assert not (folder / "fabric.json").exists()


def test_infeasible_target_stops_at_its_stage(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE.replace("ttft: 10s", "ttft: 1us"), encoding="utf-8")
    for _ in range(2):
        report = up(open_workspace(path))
        assert report.stages[-1].state == "stopped"
        assert report.stages[-1].name in ("check", "plan")
        assert report.next == report.stages[-1].what
    assert not (Path(report.folder) / "deploy").exists()


def test_unknown_stage_raises_input_error(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE, encoding="utf-8")
    with pytest.raises(InputError, match='"train"'):
        up(open_workspace(path), until="train")
    assert not Home.for_workload(path).path.exists()


@pytest.mark.slow
def test_failed_stage_raises_external_error_and_up_resumes_after_fix(
    tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = script_workload(tmp_path, "raise SystemExit('no luck')\n")
    measured(Home.for_workload(path))
    with pytest.raises(ExternalError, match=r"train: (?s:.)*no luck"):
        up(open_workspace(path))
    script_workload(tmp_path, "print('well')\n")
    report = up(open_workspace(path))
    assert states(report) == {
        "check": "cached",
        "measure": "cached",
        "data": "skipped",
        "predict": "skipped",
        "train": "done",
        "evaluate": "skipped",
        "select": "skipped",
        "register": "skipped",
        "deploy": "skipped",
        "compare": "skipped",
    }
    assert len(Ledger(home=Home.for_workload(path)).runs()) == 1
    assert states(up(open_workspace(path)))["train"] == "cached"
    assert_nothing_runs(tmp_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """An `up` that was killed again and again, then left to end."""

    path: Path
    home: Home
    runs: tuple[Run, ...]  # the run after every kill
    report: UpReport


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, machine: MachineProfile) -> Iterator[Killed]:
    """Iris on this machine, with a `gpuyard up` killed in several stages."""
    path = tmp_path_factory.mktemp("up") / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    home, rng, runs = Home.for_workload(path), random.Random(SEED), []
    save_profile(machine, home)
    try:
        for stage in STAGES * 4 if EVERY_KILL else sorted(rng.sample(STAGES, 2), key=STAGES.index):
            with gpuyard_process("up", path) as process:
                wait_for_stage(home, stage, process)
                time.sleep(rng.uniform(0.0, 3.0))
            runs.append(Ledger(home=home).get("last"))
        yield Killed(path=path, home=home, runs=tuple(runs), report=up(open_workspace(path)))
    finally:
        stop_services(home)
        assert_nothing_runs(path.parent)


@pytest.mark.slow
def test_killed_up_resumes_to_the_end(killed: Killed) -> None:
    assert list(states(killed.report)) == list(names_of(True))
    assert set(states(killed.report).values()) <= {"done", "cached", "skipped"}
    assert killed.report.next.startswith("gpuyard ui")
    (run,) = [
        run for run in Ledger(home=killed.home).runs() if any(stage.attempt for stage in run.stages)
    ]
    assert run.state == "done"


@pytest.mark.slow
def test_stages_done_before_a_kill_are_not_repeated(killed: Killed) -> None:
    final = Ledger(home=killed.home).get("last")
    assert killed.runs[0].state in ("interrupted", "cancelled")
    for run in killed.runs:
        for stage in run.stages:
            ended = final.stage(stage.name)
            assert ended is not None
            if stage.state == "done" and run.id == final.id:
                assert (ended.attempt, ended.started_s, ended.ended_s) == (
                    stage.attempt,
                    stage.started_s,
                    stage.ended_s,
                )
    assert len(Registry(home=killed.home).versions("iris")) == 1
    (endpoint,) = Endpoints(home=killed.home).all()
    assert endpoint.state == "running"
    for pid, words in processes_of(killed.path.parent).items():  # only the server and its workers
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert endpoint.pid in (pid, parent), words


@pytest.mark.slow
def test_prediction_is_compared_with_measurement(killed: Killed) -> None:
    names = [row.name for row in compared_of(Path(killed.report.folder))]
    assert names == ["step time", "rows per second", "memory", "requests per core-second"]
    results = results_of_plan(Path(killed.report.folder), killed.home)
    assert results.trained is not None
    assert results.selection is None
    prediction = predicted_of(killed.home, Ledger(home=killed.home).get("last"))
    assert prediction is not None
    assert prediction.steps == 20


@pytest.mark.slow
def test_stopped_service_is_restarted_without_other_stages(killed: Killed) -> None:
    before = Ledger(home=killed.home).get("last")
    stop_endpoint(killed.home, "iris")
    again = states(up(open_workspace(killed.path)))
    assert {name: state for name, state in again.items() if state == "done"} == {
        "deploy": "done",
        "compare": "done",
    }
    assert [endpoint.state for endpoint in Endpoints(home=killed.home).all()] == ["running"]
    assert Ledger(home=killed.home).get("last").id == before.id
    assert "done" not in states(up(open_workspace(killed.path))).values()


@pytest.mark.slow
def test_second_up_of_a_running_workload_raises_external_error(
    tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = script_workload(tmp_path, "import time\ntime.sleep(300)\n")
    home = measured(Home.for_workload(path))
    with gpuyard_process("up", path) as process:
        wait_for_stage(home, "train", process)
        with pytest.raises(ExternalError, match="another process"):
            up(open_workspace(path))
    stop_run(home, "last")  # the job that the killed gpuyard left running
    assert_nothing_runs(tmp_path)
