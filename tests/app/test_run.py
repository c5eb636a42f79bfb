"""`gpuyard run`: every stage with its result, the rules of the champion, failures, killing, a full disk."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.outcome import outcomes
from gpuyard.app.run import Registered, _alias, begin_run, continue_run, resume_run, run_file, serve_again
from gpuyard.app.serve import stop_endpoint
from gpuyard.app.stage import Evaluated, Prepared, load_result, open_run
from gpuyard.app.up import up
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.jobs import Ledger
from gpuyard.learn import TrainResult
from gpuyard.registry import Metric, Registry
from gpuyard.serving import Endpoint, is_ready

from .small import IRIS, Done, nothing_runs, own, reached, started

EVERY_KILL = os.environ.get("GPUYARD_EVERY_KILL") == "1"


FLOWER = (5.1, 3.5, 1.4, 0.2)  # setosa, as it is measured: the service scales it


def asked(url: str, names: tuple[str, ...]) -> dict[str, list[object]]:
    """What the service answers for one flower."""
    columns = [
        {"name": name, "shape": [1], "datatype": "FP64", "data": [value]}
        for name, value in zip(names, FLOWER, strict=True)
    ]
    request = urllib.request.Request(f"{url}/v2/models/iris/infer", json.dumps({"inputs": columns}).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return {item["name"]: item["data"] for item in json.load(answer)["outputs"]}


def test_every_stage_is_done_once(iris: Done) -> None:
    assert iris.run.state == "done"
    assert [stage.name for stage in iris.run.stages] == ["data", "train", "evaluate", "register", "deploy"]
    assert all(stage.state == "done" and stage.attempt == 1 and not stage.error for stage in iris.run.stages)
    assert all(Path(stage.result).is_file() for stage in iris.run.stages)
    assert Ledger(home=iris.home).get("last") == iris.run
    assert {"gpuyard", "python"} <= {name for name, _ in iris.run.versions}


def test_the_results_are_those_of_the_stages(iris: Done) -> None:
    run = open_run(Path(iris.run.folder))
    data = load_result(run, "data", Prepared)
    assert (data.rows_in_count, data.rows_out_count, len(data.features)) == (150, 150, 4)
    assert dict(data.splits) == {"train": 120, "test": 30}
    train = load_result(run, "train", TrainResult)
    assert (train.trainer, train.steps, train.data_version) == ("trees", 20, data.version)
    judged = load_result(run, "evaluate", Evaluated)
    assert judged.test is not None
    assert judged.card.rows == 120
    assert judged.test.rows == 30
    assert all(score.value > 0.8 for score in judged.card.scores if score.metric == "accuracy")
    made = load_result(run, "register", Registered)
    assert (made.name, made.version, made.alias, made.why) == ("iris", 1, "champion", "it is the first")
    champion = Registry(home=iris.home).get("iris@champion")
    assert champion.lineage.run == iris.run.id
    test = {score.metric: score.value for score in judged.test.scores}
    assert {metric.name: metric.value for metric in champion.metrics if metric.name in test} == test
    lines = outcomes(iris.run)
    assert all(lines)
    assert lines[0] == "150 rows in, 150 out; 4 features; train 120, test 30"


def test_the_service_answers_is_stopped_and_comes_again(iris: Done) -> None:
    run = open_run(Path(iris.run.folder))
    names, found = load_result(run, "data", Prepared).features, load_result(run, "deploy", Endpoint)
    if not is_ready(found.url):
        found = serve_again(iris.run)
    before = asked(found.url, names)
    assert [str(label) for label in before["label"]] == ["0"]
    assert serve_again(iris.run).pid == found.pid  # one that runs is not started again
    assert stop_endpoint(iris.home, "iris").state == "stopped"
    assert not is_ready(found.url)
    again = serve_again(iris.run)
    assert again.pid != found.pid
    assert asked(again.url, names) == before


def test_a_better_version_is_the_champion_and_a_worse_one_a_challenger(iris: Done, tmp_path: Path) -> None:
    registry = Registry(home=Home(path=tmp_path))
    bundle = open_run(Path(iris.run.folder)).stage("train") / "bundle"
    card = load_result(open_run(Path(iris.run.folder)), "evaluate", Evaluated).test
    told = []
    for number, (metric, value) in enumerate(
        [("log_loss", 0.3), ("log_loss", 0.4), ("log_loss", 0.2), ("accuracy", 0.9), ("log_loss", 0.2)]
    ):
        description = json.loads((bundle / "model.json").read_text())
        description["lineage"]["code"] = str(number)
        copy = tmp_path / f"bundle-{number}"
        shutil.copytree(bundle, copy)
        (copy / "model.json").write_text(json.dumps(description))
        made = registry.register("iris", copy, metrics=(Metric(name=metric, value=value),))
        alias, why = _alias(registry, made, "log_loss", card)
        registry.alias("iris", alias, made.version)
        told.append((alias, why))
    assert told == [
        ("champion", "it is the first"),
        ("challenger", "log_loss 0.4 against 0.3 of version 1: promote it with `gpuyard models promote`"),
        ("champion", "log_loss 0.2 against 0.3 of version 1"),
        ("challenger", "it has no log_loss to compare with version 3: promote it with `gpuyard models promote`"),
        ("champion", "log_loss 0.2 against 0.2 of version 3"),
    ]


def test_a_wrong_file_begins_nothing(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS.replace("train:", "trian:"), encoding="utf-8")
    with pytest.raises(InputError, match=r'workload\.yaml:10: pipeline\.trian: unknown key "trian"'):
        run_file(path)
    path.write_text(IRIS, encoding="utf-8")
    with pytest.raises(InputError, match='no engine named "nomad"'):
        run_file(path, engine="nomad")
    assert not (tmp_path / ".gpuyard").exists()


def test_it_stops_after_a_stage_and_the_prepared_data_is_shared(iris: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(iris.path.parent)  # a state directory may be named from here
    run = run_file(iris.path, home=Home(path=Path(".gpuyard")), until="data")
    assert (run.state, run.error) == ("cancelled", "stopped before train")
    assert [stage.state for stage in run.stages] == ["done", *["pending"] * 4]
    folders = {load_result(open_run(Path(each.folder)), "data", Prepared).folder for each in (run, iris.run)}
    assert len(folders) == 1


def test_a_failing_stage_says_why_and_goes_on_once_mended(tmp_path: Path) -> None:
    path = own(tmp_path, "print('out of luck')\nraise SystemExit(1)\n")
    run = run_file(path)
    home, stage = Home.beside(path), run.stages[0]
    assert (run.state, run.error, stage.name, stage.state) == ("failed", "train", "train", "failed")
    assert "out of luck" in stage.error
    assert "mend the program, then resume" in stage.error
    assert run.stages[1].state == "pending"
    own(tmp_path, "print('well')\n")
    again = resume_run(home, run)
    assert (again.id, again.state) == (run.id, "done")
    assert [(each.name, each.state, each.attempt) for each in again.stages] == [
        ("train", "done", 2), ("register", "skipped", 1),  # it left no model
    ]  # fmt: skip
    with pytest.raises(InputError, match="is done"):
        resume_run(home, again)
    nothing_runs(tmp_path)


def test_a_run_that_is_driven_is_not_driven_twice(tmp_path: Path) -> None:
    path = own(tmp_path, "import time\ntime.sleep(300)\n")
    with started("run", path) as process:
        run = reached(Home.beside(path), "train", process)
        with pytest.raises(RefusedError, match="is running in another process"):
            resume_run(Home.beside(path), run)
        words = [sys.executable, "-m", "gpuyard", "stop", "last", "--home", str(Home.beside(path).path)]
        stopped = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        assert f"run {run.id} is cancelled" in stopped
        assert process.wait(60) == 4  # cancelled, which is not done
    ended = Ledger(home=Home.beside(path)).get(run.id)
    assert [stage.state for stage in ended.stages] == ["cancelled", "pending"]
    nothing_runs(tmp_path)


def test_a_file_that_cannot_be_written_fails_the_stage_and_room_mends_it(tmp_path: Path) -> None:
    rng = random.Random(1)
    rows = "".join(f"{','.join(str(rng.random()) for _ in range(20))},{number % 2}\n" for number in range(6000))
    head = ",".join([*(f"x{number}" for number in range(20)), "y"])
    (tmp_path / "table.csv").write_text(f"{head}\n{rows}", encoding="utf-8")
    path = tmp_path / "workload.yaml"
    path.write_text(
        "task: pretraining\nname: table\nwhere: {provider: local}\npipeline:\n"
        "  data: {source: table.csv, label: y}\n  run: {retries: 0}\n", encoding="utf-8"
    )  # fmt: skip
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, before[1]))  # the stage's processes have it from this one
    try:
        run = run_file(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (run.state, run.stages[0].state) == ("failed", "failed")
    assert "File too large" in run.stages[0].error
    assert "fix: " in run.stages[0].error
    assert "Traceback" not in run.stages[0].error
    again = resume_run(Home.beside(path), run)
    assert (again.state, again.stages[0].attempt) == ("done", 2)
    assert load_result(open_run(Path(again.folder)), "data", Prepared).rows_out_count == 6000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a file system of its own")
def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = own(tmp_path, "print('well')\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine mounts nothing")
    home = Home(path=disk / "home")
    try:
        run = begin_run(path, home=home)
        with contextlib.suppress(OSError), (disk / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))
        with pytest.raises(RefusedError, match=r"(?s)(full|No space left|disk I/O error).*free disk space"):
            continue_run(home, run)
        (disk / "filler").unlink()
        again = resume_run(home, Ledger(home=home).get(run.id))
        assert again.state == "done"
        nothing_runs(disk)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


class KilledError(BaseException):
    """Stands for a SIGKILL: nothing catches it."""


def killed(*_: object, **__: object) -> None:
    """Ends gpuyard at once."""
    raise KilledError


@pytest.mark.parametrize("where", ["gpuyard.app.stage.dump_json", "gpuyard.app.run.versions"])
def test_a_run_killed_while_it_is_begun_is_not_told_of(
    where: str, tmp_path: Path, measured: Callable[[Home], Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = own(tmp_path, "print('well')\n")
    home = measured(Home.beside(path))
    with monkeypatch.context() as patch:
        patch.setattr(where, killed)
        with pytest.raises(KilledError):
            run_file(path)
    assert Ledger(home=home).runs() == ()
    assert up(path).stages[-1].state == "skipped"
    assert Ledger(home=home).get("last").state == "done"


def test_a_run_whose_folder_is_gone_says_so_and_up_begins_another(
    tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = own(tmp_path, "raise SystemExit('no luck')\n")
    home = measured(Home.beside(path))
    with pytest.raises(RefusedError):
        up(path)
    first = Ledger(home=home).get("last")
    (Path(first.folder) / "run.json").unlink()
    with pytest.raises(InputError, match="start a new run with `gpuyard run` or `gpuyard up`"):
        resume_run(home, first)
    assert Ledger(home=home).get("last").state == "failed"
    own(tmp_path, "print('well')\n")
    assert up(path).stages[-1].state == "skipped"
    second = Ledger(home=home).get("last")
    assert (second.state, second.id == first.id) == ("done", False)
    nothing_runs(tmp_path)


@pytest.mark.parametrize("seed", range(12 if EVERY_KILL else 2))
def test_a_run_killed_at_any_moment_goes_on(seed: int, tmp_path: Path) -> None:
    script = "import os\nwith open('COUNT', 'a') as file:\n    file.write('x')\nimport time\ntime.sleep(1)\n"
    path = own(tmp_path, script.replace("COUNT", str(tmp_path / "count")))
    home, rng = Home.beside(path), random.Random(seed)
    with started("run", path) as process:
        reached(home, "train", process)
        time.sleep(rng.uniform(0.0, 2.5))
    run = Ledger(home=home).get("last")
    if run.state != "done":
        assert run.state == "interrupted"
        run = resume_run(home, run)
    assert run.state == "done"
    assert (tmp_path / "count").read_text() == "x"  # its job outlived gpuyard, and was found again
    assert len(Ledger(home=home).runs()) == 1
    nothing_runs(tmp_path)
