"""Several processes on one state directory: nothing is lost, and nothing is recorded twice."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyard.home import Home
from gpuyard.jobs.ledger import Ledger
from gpuyard.registry.registry import Registry

from ..serving.cases import bundle
from .kills import FINISH_S, PIPELINE


def together(*commands: list[str]) -> list[str]:
    """Run gpuyard commands at the same time; return what those that failed printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "gpuyard", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for words in commands
    ]
    outputs = [process.communicate(timeout=FINISH_S)[0] for process in processes]
    return [
        output for process, output in zip(processes, outputs, strict=True) if process.returncode
    ]


def check_integrity(home: Home) -> None:
    with sqlite3.connect(home.ledger) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


@pytest.mark.slow
def test_two_runs_of_one_workload_on_one_home_both_finish(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    commands = []
    for seed in (0, 1):
        file = tmp_path / f"workload-{seed}.yaml"
        file.write_text(PIPELINE.replace("{seed: 0, trees", f"{{seed: {seed}, trees"))
        commands.append(["run", str(file), "--home", str(home.path)])
    assert together(*commands) == []
    runs = Ledger(home=home).runs()
    assert [run.state for run in runs] == ["done", "done"]
    versions = Registry(home=home).versions("iris")
    assert sorted(version.version for version in versions) == [1, 2]
    assert {version.lineage.run for version in versions} == {run.id for run in runs}
    assert Registry(home=home).get("iris@champion").version in (1, 2)
    assert len(list(home.data.glob("*/manifest.json"))) == 1  # prepared once, for both
    check_integrity(home)


@pytest.mark.slow
def test_registrations_of_one_name_at_once_get_their_own_versions(tmp_path: Path) -> None:
    home, count = Home(path=tmp_path / "home"), 4
    folders = [bundle(tmp_path / str(number), bias=float(number)) for number in range(count)]
    words = ["--name", "m", "--home", str(home.path)]
    assert together(*(["models", "import", str(folder), *words] for folder in folders)) == []
    registry = Registry(home=home)
    versions = sorted(version.version for version in registry.versions("m"))
    assert versions == [1, 2, 3, 4]
    digests = {registry.get(f"m/{version}").digest for version in versions}  # verifies the files
    assert len(digests) == count
    assert registry.collect() == ()
    check_integrity(home)
