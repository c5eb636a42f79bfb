"""`gpuyard run`: results of stages, champion rules, failures, kills, full disks."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.resume import resume_run
from gpuyard.app.run import (
    Registered,
    begin_run,
    continue_run,
    run_pipeline,
    serve_again,
)
from gpuyard.app.serve import stop_endpoint
from gpuyard.app.stage_summaries import outcomes
from gpuyard.app.stage_worker import DataResult, EvaluateResult, load_result, open_run
from gpuyard.app.up import up
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.learn.task import TrainResult
from gpuyard.registry.registry import Registry
from gpuyard.serving.deploy import is_ready
from gpuyard.serving.endpoints import Endpoint

from .pipelines import (
    IRIS,
    FinishedRun,
    assert_nothing_runs,
    gpuyard_process,
    script_workload,
    wait_for_stage,
)

EVERY_KILL = os.environ.get("GPUYARD_EVERY_KILL") == "1"


FLOWER = (5.1, 3.5, 1.4, 0.2)  # setosa in raw units: the service scales it


def predict(url: str, names: tuple[str, ...]) -> dict[str, list[object]]:
    """The service's prediction for one flower."""
    columns = [
        {"name": name, "shape": [1], "datatype": "FP64", "data": [value]}
        for name, value in zip(names, FLOWER, strict=True)
    ]
    request = urllib.request.Request(
        f"{url}/v2/models/iris/infer", json.dumps({"inputs": columns}).encode()
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        return {item["name"]: item["data"] for item in json.load(response)["outputs"]}


@pytest.mark.slow
def test_every_stage_is_done_once(iris: FinishedRun) -> None:
    assert iris.run.state == "done"
    assert [stage.name for stage in iris.run.stages] == [
        "data",
        "train",
        "evaluate",
        "register",
        "deploy",
    ]
    assert all(
        stage.state == "done" and stage.attempt == 1 and not stage.error
        for stage in iris.run.stages
    )
    assert all(Path(stage.result).is_file() for stage in iris.run.stages)
    assert Ledger(home=iris.home).get("last") == iris.run
    assert {"gpuyard", "python"} <= {name for name, _ in iris.run.versions}


@pytest.mark.slow
def test_stage_results_are_saved(iris: FinishedRun) -> None:
    run = open_run(Path(iris.run.folder))
    data = load_result(run, "data", DataResult)
    assert (data.rows_in_count, data.rows_out_count, len(data.features)) == (150, 150, 4)
    assert dict(data.splits) == {"train": 120, "test": 30}
    train = load_result(run, "train", TrainResult)
    assert (train.trainer, train.steps, train.data_version) == ("trees", 20, data.version)
    evaluation = load_result(run, "evaluate", EvaluateResult)
    assert evaluation.test is not None
    assert evaluation.card.rows == 120
    assert evaluation.test.rows == 30
    assert all(score.value > 0.8 for score in evaluation.card.scores if score.metric == "accuracy")
    version = load_result(run, "register", Registered)
    assert (version.name, version.version, version.alias) == ("iris", 1, "champion")
    champion = Registry(home=iris.home).get("iris@champion")
    assert champion.lineage.run == iris.run.id
    test = {score.metric: score.value for score in evaluation.test.scores}
    assert {metric.name: metric.value for metric in champion.metrics if metric.name in test} == test
    lines = outcomes(iris.run)
    assert all(lines)
    assert lines[0] == "150 rows in, 150 out; 4 features; train 120, test 30"


@pytest.mark.slow
def test_service_predicts_the_same_after_restart(iris: FinishedRun) -> None:
    run = open_run(Path(iris.run.folder))
    names = load_result(run, "data", DataResult).features
    endpoint = load_result(run, "deploy", Endpoint)
    if not is_ready(endpoint):
        endpoint = serve_again(iris.run)
    before = predict(endpoint.url, names)
    assert [str(label) for label in before["label"]] == ["0"]
    assert serve_again(iris.run).pid == endpoint.pid  # a running service is not started again
    assert stop_endpoint(iris.home, "iris").state == "stopped"
    assert not is_ready(endpoint)
    again = serve_again(iris.run)
    assert again.pid != endpoint.pid
    assert predict(again.url, names) == before


@pytest.mark.slow
def test_files_of_a_run_are_private_whatever_the_umask(tmp_path: Path) -> None:
    path = script_workload(tmp_path, "open('mine', 'w').close()\n")
    home = Home(path=tmp_path / "home")
    home.path.mkdir(mode=0o755)
    command = [sys.executable, "-m", "gpuyard", "run", str(path), "--home", str(home.path)]
    subprocess.run(command, umask=0, check=True, capture_output=True)
    paths = list(home.path.rglob("*"))
    assert {path.name for path in paths} >= {"mine", "log", "run.json", "ledger.db"}
    assert [str(path) for path in paths if path.stat().st_mode & 0o077] == []
    (home.path / "runs").chmod(0o755)  # as an earlier version left it
    Ledger(home=home).get("last")
    assert (home.path / "runs").stat().st_mode & 0o777 == 0o700


def test_wrong_workload_starts_no_run(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS.replace("train:", "trian:"), encoding="utf-8")
    with pytest.raises(InputError, match=r"workload\.yaml:10: pipeline\.trian"):
        run_pipeline(open_workspace(path))
    path.write_text(IRIS, encoding="utf-8")
    with pytest.raises(InputError, match="nomad"):
        run_pipeline(open_workspace(path), engine="nomad")
    assert not (tmp_path / ".gpuyard").exists()


@pytest.mark.slow
def test_run_until_stage_shares_prepared_data(
    iris: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(iris.path.parent)  # the state directory is a relative path
    run = run_pipeline(open_workspace(iris.path, home=Home(path=Path(".gpuyard"))), until="data")
    assert (run.state, run.error, run.resumable) == ("done", "", True)
    assert [stage.state for stage in run.stages] == ["done", *["pending"] * 4]
    folders = {
        load_result(open_run(Path(item.folder)), "data", DataResult).folder
        for item in (run, iris.run)
    }
    assert len(folders) == 1


@pytest.mark.slow
def test_run_killed_before_its_last_requested_stage_resumes_up_to_it(tmp_path: Path) -> None:
    script = "import os, time\nwhile not os.path.exists('GO'):\n    time.sleep(0.05)\n"
    path = script_workload(tmp_path, script.replace("GO", str(tmp_path / "go")))
    home = Home.for_workload(path)
    with gpuyard_process("run", path, "--until", "train") as process:
        wait_for_stage(home, "train", process)
    (tmp_path / "go").touch()
    run = Ledger(home=home).get("last")
    assert (run.state, run.until) == ("interrupted", "train")
    again = resume_run(home, run)
    assert (again.state, again.resumable) == ("done", True)
    assert [stage.state for stage in again.stages] == ["done", "pending"]
    rest = resume_run(home, again)  # it was done: now the rest is requested
    assert [stage.state for stage in rest.stages] == ["done", "skipped"]
    assert_nothing_runs(tmp_path)


@pytest.mark.slow
def test_failed_stage_reports_cause_and_run_resumes_after_fix(tmp_path: Path) -> None:
    path = script_workload(tmp_path, "print('out of luck')\nraise SystemExit(1)\n")
    run = run_pipeline(open_workspace(path))
    home, stage = Home.for_workload(path), run.stages[0]
    assert (run.state, run.error, stage.name, stage.state) == ("failed", "train", "train", "failed")
    assert "out of luck" in stage.error
    assert run.stages[1].state == "pending"
    script_workload(tmp_path, "print('well')\n")
    again = resume_run(home, run)
    assert (again.id, again.state) == (run.id, "done")
    assert [(stage.name, stage.state, stage.attempt) for stage in again.stages] == [
        ("train", "done", 2),
        ("register", "skipped", 1),  # there is no model
    ]
    with pytest.raises(InputError):
        resume_run(home, again)
    assert_nothing_runs(tmp_path)


@pytest.mark.slow
def test_running_run_cannot_be_resumed_but_stopped(tmp_path: Path) -> None:
    path = script_workload(tmp_path, "import time\ntime.sleep(300)\n")
    with gpuyard_process("run", path) as process:
        run = wait_for_stage(Home.for_workload(path), "train", process)
        with pytest.raises(ExternalError, match=run.id):
            resume_run(Home.for_workload(path), run)
        command = [
            sys.executable,
            "-m",
            "gpuyard",
            "stop",
            "last",
            "--home",
            str(Home.for_workload(path).path),
        ]
        subprocess.run(command, capture_output=True, check=True)
        assert process.wait(300) == 4  # cancelled, not done
    ended = Ledger(home=Home.for_workload(path)).get(run.id)
    assert [stage.state for stage in ended.stages] == ["cancelled", "pending"]
    assert_nothing_runs(tmp_path)


@pytest.mark.slow
def test_file_size_limit_fails_stage_and_run_resumes(tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = "".join(
        f"{','.join(str(rng.random()) for _ in range(20))},{number % 2}\n" for number in range(6000)
    )
    head = ",".join([*(f"x{number}" for number in range(20)), "y"])
    (tmp_path / "table.csv").write_text(f"{head}\n{rows}", encoding="utf-8")
    path = tmp_path / "workload.yaml"
    path.write_text(
        "task: pretraining\nname: table\nwhere: {provider: local}\npipeline:\n"
        "  data: {source: table.csv, label: y}\n  run: {retries: 0}\n",
        encoding="utf-8",
    )
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (400_000, before[1])
    )  # inherited by the stage's processes
    try:
        run = run_pipeline(open_workspace(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (run.state, run.stages[0].state) == ("failed", "failed")
    assert "File too large" in run.stages[0].error
    assert "Traceback" not in run.stages[0].error
    again = resume_run(Home.for_workload(path), run)
    assert (again.state, again.stages[0].attempt) == ("done", 2)
    assert load_result(open_run(Path(again.folder)), "data", DataResult).rows_out_count == 6000


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
def test_full_disk_raises_external_error_and_run_resumes(tmp_path: Path) -> None:
    path = script_workload(tmp_path, "print('well')\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("cannot mount a tmpfs here")
    home = Home(path=disk / "home")
    try:
        run = begin_run(open_workspace(path, home=home))
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        with pytest.raises(
            ExternalError, match=r"(?s)(full|No space left|disk I/O error).*free disk space"
        ):
            continue_run(home, run)
        (disk / "filler").unlink()
        again = resume_run(home, Ledger(home=home).get(run.id))
        assert again.state == "done"
        assert_nothing_runs(disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


class KilledError(BaseException):
    """In place of SIGKILL: nothing catches it."""


def kill(*_: object, **__: object) -> None:
    """End gpuyard at once."""
    raise KilledError


@pytest.mark.slow
@pytest.mark.parametrize(
    "where", ["gpuyard.app.stage_worker.dump_json", "gpuyard.app.run.versions"]
)
def test_run_killed_before_its_first_stage_is_not_listed(
    where: str, tmp_path: Path, measured: Callable[[Home], Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script_workload(tmp_path, "print('well')\n")
    home = measured(Home.for_workload(path))
    with monkeypatch.context() as patch:
        patch.setattr(where, kill)
        with pytest.raises(KilledError):
            run_pipeline(open_workspace(path))
    assert Ledger(home=home).runs() == ()
    assert up(open_workspace(path)).stages[-1].state == "skipped"
    assert Ledger(home=home).get("last").state == "done"


@pytest.mark.slow
def test_run_without_folder_raises_input_error_and_up_starts_another(
    tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = script_workload(tmp_path, "raise SystemExit('no luck')\n")
    home = measured(Home.for_workload(path))
    with pytest.raises(ExternalError):
        up(open_workspace(path))
    first = Ledger(home=home).get("last")
    (Path(first.folder) / "run.json").unlink()
    with pytest.raises(InputError):
        resume_run(home, first)
    assert Ledger(home=home).get("last").state == "failed"
    script_workload(tmp_path, "print('well')\n")
    assert up(open_workspace(path)).stages[-1].state == "skipped"
    second = Ledger(home=home).get("last")
    assert (second.state, second.id == first.id) == ("done", False)
    assert_nothing_runs(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12 if EVERY_KILL else 2))
def test_run_killed_at_any_moment_resumes(seed: int, tmp_path: Path) -> None:
    script = "import os\nwith open('COUNT', 'a') as file:\n    file.write('x')\nimport time\ntime.sleep(1)\n"
    path = script_workload(tmp_path, script.replace("COUNT", str(tmp_path / "count")))
    home, rng = Home.for_workload(path), random.Random(seed)
    with gpuyard_process("run", path) as process:
        wait_for_stage(home, "train", process)
        time.sleep(rng.uniform(0.0, 2.5))
    run = Ledger(home=home).get("last")
    if run.state != "done":
        assert run.state == "interrupted"
        run = resume_run(home, run)
    assert run.state == "done"
    assert (tmp_path / "count").read_text() == "x"  # the job outlived gpuyard and was adopted
    assert len(Ledger(home=home).runs()) == 1
    assert_nothing_runs(tmp_path)
