"""`gpuyard run`, `resume` and `calibrate --run` as a user types them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gpuyard.cli import main

OWN = """\
task: pretraining
name: own
where: {provider: local}
pipeline:
  train: {command: {run: [PYTHON, train.py]}}
  run: {retries: 0}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workload whose script fails."""
    (tmp_path / "train.py").write_text("raise SystemExit('the <loss> is not a number')\n", encoding="utf-8")
    file = tmp_path / "workload.yaml"
    file.write_text(OWN.replace("PYTHON", sys.executable), encoding="utf-8")
    return file


def test_a_failure_its_fix_and_the_way_on(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = str(path.parent / "home")
    assert main(["run", str(path), "--home", home]) == 4
    said = capsys.readouterr().out
    assert "the <loss> is not a number" in said
    assert "error: train: exit code 4" in said
    assert "fix: mend it, then gpuyard resume" in said
    assert main(["resume", "last", "--home", home, "--json"]) == 4  # nothing was mended
    assert json.loads(capsys.readouterr().out)["stages"][0]["attempt"] == 2
    (path.parent / "train.py").write_text("print('well')\n", encoding="utf-8")
    assert main(["resume", "last", "--home", home]) == 0
    said = capsys.readouterr().out
    assert "own on local" in said
    assert "done\n`gpuyard show" in said
    assert main(["resume", "last", "--home", home]) == 2
    assert "is done" in capsys.readouterr().err
    assert main(["calibrate", "--run", "last", "--home", home]) == 4
    assert "this machine was not measured" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run", "none.yaml"], 2, "none.yaml"),
        (["run", "FILE", "--until", "report"], 2, "--until"),
        (["run", "FILE", "--engine", "nomad"], 2, "--engine"),
        (["calibrate"], 2, "name one of FILE.csv and --run"),
        (["calibrate", "x.csv", "--run", "last"], 2, "name one of FILE.csv and --run"),
        (["calibrate", "--run", "last", "--home", "none"], 2, "there is no state directory"),
    ],
)
def test_wrong_words(
    words: list[str], code: int, told: str, path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(path.parent)
    assert main([str(path) if word == "FILE" else word for word in words]) == code
    assert told in capsys.readouterr().err
    assert not (path.parent / ".gpuyard").exists()
