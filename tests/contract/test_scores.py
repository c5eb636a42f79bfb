"""The same seed on the same data gives the same scores, whatever engine starts the stages."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from gpuyard.app.run import run_pipeline
from gpuyard.app.stage_worker import EvaluateResult, load_result, open_run
from gpuyard.app.workspace import open_workspace
from gpuyard.home import Home
from gpuyard.jobs.spec import EngineSpec
from gpuyard.learn.task import TrainResult
from tests.app.pipelines import IRIS

from .place import place

WORKLOAD = IRIS.replace("deploy: {name: iris, port: 0}", "run: {engine: ENGINE, retries: 0}")
EVERY_ENGINE = os.environ.get("GPUYARD_EVERY_ENGINE") == "1"  # Ray takes half a minute of CPU more
OWN_SCRIPT = Path(__file__).parents[2] / "examples" / "own-script-slurm"
Scores = dict[str, object]


def scores(folder: Path, spec: EngineSpec) -> Scores:
    """What the model came to on that engine, to the last digit."""
    folder.mkdir()
    path = folder / "workload.yaml"
    engine = {key: value for key, value in (("name", spec.name), ("config", spec.config)) if value}
    path.write_text(WORKLOAD.replace("ENGINE", json.dumps(engine)), encoding="utf-8")
    run = run_pipeline(open_workspace(path, home=Home(path=folder / "home")), until="evaluate")
    assert [stage.state for stage in run.stages] == ["done", "done", "done", "pending"], run.stages
    found = open_run(Path(run.folder))
    judged, train = (
        load_result(found, "evaluate", EvaluateResult),
        load_result(found, "train", TrainResult),
    )
    assert judged.test is not None
    return {
        "loss": train.loss,
        "steps": train.steps,
        "data": train.data_version,
        "folds": judged.card.scores,
        "test": judged.test.scores,
    }


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Scores:
    """The scores of this machine's own processes."""
    return scores(tmp_path_factory.mktemp("here") / "local", EngineSpec())


@pytest.mark.parametrize("name", ["slurm", *(["ray"] if EVERY_ENGINE else [])])
def test_scores_on_engine_equal_local_scores(
    name: str, here: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place(name) as there:
        assert scores(there.folder / "iris", there.spec) == here
        if name == "slurm":
            monkeypatch.setenv("SLURM_CONF", there.spec.config)
            own_script_runs(there.folder / "own")


def own_script_runs(folder: Path) -> None:
    """The example of a script of one's own, on the Slurm that this shell knows."""
    shutil.copytree(OWN_SCRIPT, folder)
    run = run_pipeline(open_workspace(folder / "workload.yaml"), engine="slurm")
    assert (run.state, run.engine.name) == ("done", "slurm"), run.stages
    train = load_result(open_run(Path(run.folder)), "train", TrainResult)
    assert (train.steps, train.world) == (20, 2)
    assert train.loss is not None
    assert train.loss < 1e-5
