"""`gpuyard up`: planned machines and this one; kept, changed, stopped short, killed and started again."""

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
from gpuyard.app.up_values import compared_of, found_values, predicted_of
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import Home
from gpuyard.jobs import Ledger, Run
from gpuyard.jobs.way import Way
from gpuyard.perf.local import LocalProfile
from gpuyard.registry import Registry
from gpuyard.serving import Endpoints

from .small import IRIS, end_services, nothing_runs, own, reached, running, started

EXAMPLES = Path(__file__).parents[2] / "examples"
SERVE = (EXAMPLES / "serve-small-cloud-run" / "workload.yaml").read_text(encoding="utf-8")
EVERY_KILL = os.environ.get("GPUYARD_EVERY_KILL") == "1"
STAGES = ("data", "train", "evaluate", "register", "deploy")
SEED = int(os.environ.get("GPUYARD_KILL_SEED", "10"))


def states(way: Way) -> dict[str, str]:
    """What became of every stage."""
    return {stage.name: stage.state for stage in way.stages}


def test_planned_machines_from_check_to_artefacts_then_kept_then_changed(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE, encoding="utf-8")
    folder = Home.beside(path).path / "up" / "serve-small-cloud-run"
    planned = up(path, dry_run=True)
    assert states(planned) == dict.fromkeys(names_of(False), "planned")
    assert not Home.beside(path).path.exists()

    first = up(path, until="plan")
    assert states(first) == {"check": "done", "plan": "done"}
    assert first.next == f"gpuyard up {path}"
    whole = up(path)
    assert states(whole) == {
        "check": "kept", "plan": "kept", "fabric": "skipped", "verify": "skipped", "simulate": "skipped",
        "provision": "done",
    }  # fmt: skip
    assert whole.next == f"gpuyard provision {folder / 'deploy'} --apply --yes --max-cost USD"
    assert any((folder / "deploy").iterdir())
    made_ns = (folder / "plan.json").stat().st_mtime_ns
    again = up(path)
    assert [(stage.name, stage.what) for stage in again.stages] == [(stage.name, stage.what) for stage in whole.stages]
    assert "done" not in states(again).values()
    assert (folder / "plan.json").stat().st_mtime_ns == made_ns

    (folder / "plan.json").unlink()  # what was made from it is made again too
    assert states(up(path, until="plan")) == {"check": "kept", "plan": "done"}
    (folder / "fabric.json").write_text("of another workload", encoding="utf-8")
    path.write_text(SERVE.replace("2/h", "3/h"), encoding="utf-8")
    changed = up(path)
    assert "kept" not in states(changed).values()
    assert states(changed)["verify"] == "skipped"
    assert not (folder / "fabric.json").exists()


def test_what_cannot_be_met_stops_there(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE.replace("ttft: 1s", "ttft: 1us"), encoding="utf-8")
    for _ in range(2):
        way = up(path)
        assert way.stages[-1].state == "stopped"
        assert way.stages[-1].name in ("check", "plan")
        assert way.next == way.stages[-1].what
    assert not (Path(way.folder) / "deploy").exists()


def test_a_stage_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(SERVE, encoding="utf-8")
    with pytest.raises(InputError, match='no stage "train" for this target'):
        up(path, until="train")
    assert not Home.beside(path).path.exists()


def test_a_failing_stage_is_told_and_the_rest_goes_on_once_mended(
    tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = own(tmp_path, "raise SystemExit('no luck')\n")
    measured(Home.beside(path))
    with pytest.raises(RefusedError, match=r"train: (?s:.)*no luck"):
        up(path)
    own(tmp_path, "print('well')\n")
    way = up(path)
    assert states(way) == {
        "check": "kept", "measure": "kept", "data": "skipped", "predict": "skipped", "train": "done",
        "evaluate": "skipped", "select": "skipped", "register": "skipped", "deploy": "skipped", "compare": "skipped",
    }  # fmt: skip
    assert len(Ledger(home=Home.beside(path)).runs()) == 1
    assert states(up(path))["train"] == "kept"
    nothing_runs(tmp_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """An `up` that was killed again and again, then left to end."""

    path: Path
    home: Home
    looks: tuple[Run, ...]  # the run after every kill
    way: Way


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, machine: LocalProfile) -> Iterator[Killed]:
    """Iris on this machine, with a `gpuyard up` killed in several stages."""
    path = tmp_path_factory.mktemp("up") / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    home, rng, looks = Home.beside(path), random.Random(SEED), []
    save_profile(machine, home)
    try:
        for stage in STAGES * 4 if EVERY_KILL else sorted(rng.sample(STAGES, 2), key=STAGES.index):
            with started("up", path) as process:
                reached(home, stage, process)
                time.sleep(rng.uniform(0.0, 3.0))
            looks.append(Ledger(home=home).get("last"))
        yield Killed(path=path, home=home, looks=tuple(looks), way=up(path))
    finally:
        end_services(home)
        nothing_runs(path.parent)


def test_a_killed_way_goes_on_to_its_end(killed: Killed) -> None:
    assert list(states(killed.way)) == list(names_of(True))
    assert set(states(killed.way).values()) <= {"done", "kept", "skipped"}
    assert killed.way.next.startswith("gpuyard ui")
    (run,) = [run for run in Ledger(home=killed.home).runs() if any(stage.attempt for stage in run.stages)]
    assert run.state == "done"


def test_what_was_done_before_a_kill_is_not_done_again(killed: Killed) -> None:
    final = Ledger(home=killed.home).get("last")
    assert killed.looks[0].state in ("interrupted", "cancelled")
    for look in killed.looks:
        for stage in look.stages:
            ended = final.stage(stage.name)
            assert ended is not None
            if stage.state == "done" and look.id == final.id:
                assert (ended.attempt, ended.started_s, ended.ended_s) == (
                    stage.attempt, stage.started_s, stage.ended_s,
                )  # fmt: skip
    assert len(Registry(home=killed.home).versions("iris")) == 1
    (endpoint,) = Endpoints(home=killed.home).all()
    assert endpoint.state == "running"
    for pid, words in running(killed.path.parent).items():  # the one server and its workers, nothing else
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert endpoint.pid in (pid, parent), words


def test_predicted_meets_measured(killed: Killed) -> None:
    names = [row.name for row in compared_of(Path(killed.way.folder))]
    assert names == ["step time", "rows a second", "memory", "requests a core-second"]
    compared, card, chosen = found_values(Path(killed.way.folder), killed.home)
    assert len(compared) == 4
    assert card is not None
    assert chosen is None
    foreseen = predicted_of(killed.home, Ledger(home=killed.home).get("last"))
    assert foreseen is not None
    assert foreseen.steps == 20


def test_a_service_that_was_stopped_is_started_again_and_nothing_else(killed: Killed) -> None:
    before = Ledger(home=killed.home).get("last")
    stop_endpoint(killed.home, "iris")
    again = states(up(killed.path))
    assert {name: state for name, state in again.items() if state == "done"} == {"deploy": "done", "compare": "done"}
    assert [endpoint.state for endpoint in Endpoints(home=killed.home).all()] == ["running"]
    assert Ledger(home=killed.home).get("last").id == before.id
    assert "done" not in states(up(killed.path)).values()


def test_two_at_once_do_not_drive_one_run(tmp_path: Path, measured: Callable[[Home], Home]) -> None:
    path = own(tmp_path, "import time\ntime.sleep(300)\n")
    home = measured(Home.beside(path))
    with started("up", path) as process:
        reached(home, "train", process)
        with pytest.raises(RefusedError, match="is running in another process"):
            up(path)
    stop_run(home, "last")  # what a killed gpuyard left running
    nothing_runs(tmp_path)
