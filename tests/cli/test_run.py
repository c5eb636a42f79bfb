"""`gpuyard run`, `resume` and `calibrate --run` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.small import IRIS, own

from gpuyard.cli import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workload whose script fails."""
    return own(tmp_path, "raise SystemExit('the <loss> is not a number')\n")


def test_a_failure_its_fix_and_the_way_on(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = str(path.parent / "home")
    assert main(["run", str(path), "--home", home]) == 4
    said = capsys.readouterr().out
    assert "the <loss> is not a number" in said
    assert "fix: mend the program, then resume\n  then: gpuyard resume" in said
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


def test_wrong_data_is_wrong_input_and_not_tried_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(IRIS.replace("label: target", "label: colour"), encoding="utf-8")
    assert main(["run", str(file)]) == 2
    said = capsys.readouterr().out
    assert 'error: data.label: no column named "colour"\n  fix: use sepal_length_cm' in said
    assert "then: gpuyard resume" in said
    assert "attempt" not in said


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
