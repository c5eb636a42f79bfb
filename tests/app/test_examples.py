"""Every example workload runs: planned ones up to their deployment files, local ones to the end."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.app.stages import read_stages
from gpuyard.app.up import names_of, up
from gpuyard.app.workspace import open_workspace
from gpuyard.catalog.load import load_catalog
from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.workload.read import read_workload

from .pipelines import assert_nothing_runs, stop_services

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = sorted(path.parent.name for path in EXAMPLES.glob("*/workload.yaml"))
LOCAL = ("own-script-slurm", "quickstart")
PLANNED = [name for name in FOLDERS if name not in LOCAL]


def copy_example(name: str, folder: Path) -> Path:
    """Copy an example, because a run writes its state directory next to the workload."""
    shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns(".gpuyard"))
    return folder / name / "workload.yaml"


def test_every_example_folder_is_listed() -> None:
    assert sorted((*LOCAL, *PLANNED)) == sorted(
        path.name for path in EXAMPLES.iterdir() if path.is_dir()
    )
    for name in FOLDERS:
        local = (
            read_workload(EXAMPLES / name / "workload.yaml", load_catalog()).where.provider
            == "local"
        )
        assert local == (name in LOCAL), name


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANNED)
def test_planned_example_is_provisioned(name: str, tmp_path: Path) -> None:
    report = up(open_workspace(copy_example(name, tmp_path)))
    assert tuple(stage.name for stage in report.stages) == names_of(False)
    states = {stage.name: stage.state for stage in report.stages}
    assert states["check"] == states["plan"] == "done", report.stages
    assert set(states.values()) <= {"done", "skipped"}, report.stages
    for stage in report.stages:
        assert stage.what
        assert all((Path(report.folder) / file).exists() for file in stage.files), stage
    assert report.next.endswith("what to set before --apply") or "gpuyard p" in report.next
    assert not Home(path=Path(report.folder).parents[1]).ledger.exists()  # nothing was run


@pytest.mark.slow
@pytest.mark.parametrize("name", LOCAL)
def test_local_example_runs_to_the_end(
    name: str, tmp_path: Path, measured: Callable[[Home], Home]
) -> None:
    path = copy_example(name, tmp_path)
    home = measured(Home.for_workload(path))  # a benchmark takes minutes
    try:
        report = up(open_workspace(path))
        assert tuple(stage.name for stage in report.stages) == names_of(True)
        run = Ledger(home=home).get("last")
        assert run.state == "done", run.stages
        assert tuple(stage.name for stage in run.stages) == read_stages(path).names
    finally:
        if home.ledger.exists():
            stop_services(home)
        assert_nothing_runs(tmp_path)
