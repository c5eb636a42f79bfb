"""Every example runs: planned ones to the artefacts that would deploy them, those of this machine to their end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.pipeline import read_stages
from gpuyard.app.up import names_of, up
from gpuyard.catalog import load_catalog
from gpuyard.home import Home
from gpuyard.jobs import Ledger
from gpuyard.workload import read_workload

from .small import end_services, nothing_runs

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/workload.yaml"))
LOCAL = ("own-script-slurm", "quickstart")
PLANNED = [name for name in FOLDERS if name not in LOCAL]


def copied(name: str, folder: Path) -> Path:
    """The example in a folder of its own, for it keeps its state beside it."""
    shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns(".gpuyard"))
    return folder / name / "workload.yaml"


def test_every_folder_is_run_here() -> None:
    assert sorted((*LOCAL, *PLANNED)) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    for name in FOLDERS:
        local = read_workload(EXAMPLES / name / "workload.yaml", load_catalog()).where.provider == "local"
        assert local == (name in LOCAL), name


@pytest.mark.parametrize("name", PLANNED)
def test_a_planned_example(name: str, tmp_path: Path) -> None:
    way = up(copied(name, tmp_path))
    assert tuple(stage.name for stage in way.stages) == names_of(False)
    states = {stage.name: stage.state for stage in way.stages}
    assert states["check"] == states["plan"] == "done", way.stages
    assert set(states.values()) <= {"done", "skipped"}, way.stages
    for stage in way.stages:
        assert stage.what
        assert all((Path(way.folder) / file).exists() for file in stage.files), stage
    assert way.next.startswith("gpuyard p")
    assert not Home(path=Path(way.folder).parents[1]).ledger.exists()  # nothing was run, nothing was spent


@pytest.mark.parametrize("name", LOCAL)
def test_an_example_of_this_machine(name: str, tmp_path: Path, measured: Callable[[Home], Home]) -> None:
    path = copied(name, tmp_path)
    home = measured(Home.beside(path))  # measuring takes minutes, and has tests of its own
    try:
        way = up(path)
        assert tuple(stage.name for stage in way.stages) == names_of(True)
        run = Ledger(home=home).get("last")
        assert run.state == "done", run.stages
        assert tuple(stage.name for stage in run.stages) == read_stages(path).names
    finally:
        if home.ledger.exists():
            end_services(home)
        nothing_runs(tmp_path)
