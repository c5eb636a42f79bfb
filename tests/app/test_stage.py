"""One stage in a process of its own: its folder, what it finds there, its exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuyard.app.stage import Prepared, _on_test, load_result, main, make_run, open_run, training_task
from gpuyard.datasets import DataSpec, SplitSpec, Step, prepare
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.task import read_task

from .small import IRIS, own


def test_a_run_is_found_again_by_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    run = make_run(tmp_path / "run", path, Home(path=tmp_path / "home"), "iris")
    path.write_text("", encoding="utf-8")  # the run keeps the workload as it was
    assert open_run(tmp_path / "run") == run
    assert (run.base, run.name) == (tmp_path, "iris")
    assert run.stages.names == ("data", "train", "evaluate", "register", "deploy")
    with pytest.raises(InputError, match="the data stage has not been run"):
        load_result(run, "data", Prepared)


def test_files_of_a_command_are_named_from_the_folder_of_the_workload(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", own(tmp_path, ""), Home(path=tmp_path / "home"), "own")
    command = read_task(training_task(run)).train.command
    assert command is not None
    assert command.run == (sys.executable, str(tmp_path / "train.py"))


def test_what_is_wrong_is_told_with_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), "data"]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    make_run(tmp_path / "run", path, Home(path=tmp_path / "home"), "iris")
    assert main([str(tmp_path / "run"), "evaluate"]) == 2  # before its data
    assert "the data stage has not been run" in capsys.readouterr().err


def test_a_language_model_has_no_test_of_its_bundle(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text('{"text": "spine and leaf and spine and leaf"}\n' * 40, encoding="utf-8")
    steps = (Step(tokenise=Tokenise(sequence_tokens=8)),)
    spec = DataSpec(source="texts.jsonl", steps=steps, split=SplitSpec(test_ratio=0.2))
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "data")
    assert next(split.rows for split in prepared.manifest.splits if split.name == "test")
    run = make_run(tmp_path / "run", own(tmp_path, ""), Home(path=tmp_path / "home"), "own")
    assert _on_test(run, prepared.folder, tmp_path / "bundle") is None
