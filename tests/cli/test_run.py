"""`gpuyard run` and `resume`: exit codes and messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.app.pipelines import IRIS, script_workload

from gpuyard.cli.main import main


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workload whose script fails."""
    return script_workload(tmp_path, "raise SystemExit('the <loss> is not a number')\n")


@pytest.mark.slow
def test_failed_run_exits_with_4_and_resumes_after_fix(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(path.parent / "home")
    assert main(["run", str(path), "--home", home]) == 4
    out = capsys.readouterr().out
    assert "the <loss> is not a number" in out
    assert "gpuyard resume" in out
    assert main(["resume", "last", "--home", home, "--json"]) == 4  # nothing was fixed
    assert json.loads(capsys.readouterr().out)["stages"][0]["attempt"] == 2
    (path.parent / "train.py").write_text("print('well')\n", encoding="utf-8")
    assert main(["resume", "last", "--home", home]) == 0
    assert "gpuyard show" in capsys.readouterr().out
    assert main(["resume", "last", "--home", home]) == 2  # already done


@pytest.mark.slow
def test_wrong_data_exits_with_2_without_retry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(IRIS.replace("label: target", "label: colour"), encoding="utf-8")
    assert main(["run", str(file)]) == 2
    out = capsys.readouterr().out
    assert "data.label" in out
    assert "attempt" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "none.yaml"], "none.yaml"),
        (["run", "FILE", "--until", "report"], "--until"),
        (["run", "FILE", "--engine", "nomad"], "--engine"),
    ],
)
def test_wrong_arguments_exit_with_2(
    words: list[str],
    message: str,
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(path.parent)
    assert main([str(path) if word == "FILE" else word for word in words]) == 2
    assert message in capsys.readouterr().err
    assert not (path.parent / ".gpuyard").exists()
