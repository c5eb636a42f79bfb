"""The process of one stage: its folder, inputs and exit codes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpuyard.app.stage_worker import (
    DataResult,
    _on_test,
    load_result,
    main,
    make_run,
    open_run,
    training_task,
)
from gpuyard.datasets.prepare import prepare
from gpuyard.datasets.spec import DataSpec, SplitSpec
from gpuyard.datasets.steps.step_list import StepSpec
from gpuyard.datasets.text.tokenise import Tokenise
from gpuyard.errors import InputError
from gpuyard.home import Home
from gpuyard.learn.task import read_task

from .pipelines import IRIS, script_workload


def test_run_is_opened_from_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    run = make_run(tmp_path / "run", path, Home(path=tmp_path / "home"), "iris")
    path.write_text("", encoding="utf-8")  # the run has its own copy
    assert open_run(tmp_path / "run") == run
    assert (run.base, run.name) == (tmp_path, "iris")
    assert run.stages.names == ("data", "train", "evaluate", "register", "deploy")
    with pytest.raises(InputError, match="the data stage has not been run"):
        load_result(run, "data", DataResult)


def test_command_files_are_relative_to_the_workload(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", script_workload(tmp_path, ""), Home(path=tmp_path / "home"), "own"
    )
    command = read_task(training_task(run)).train.command
    assert command is not None
    assert command.run == (sys.executable, str(tmp_path / "train.py"))


def test_missing_run_or_data_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "data"]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    path = tmp_path / "workload.yaml"
    path.write_text(IRIS, encoding="utf-8")
    make_run(tmp_path / "run", path, Home(path=tmp_path / "home"), "iris")
    assert main([str(tmp_path / "run"), "evaluate"]) == 2  # its data does not exist yet
    assert "the data stage has not been run" in capsys.readouterr().err


def test_language_model_bundle_is_not_tested(tmp_path: Path) -> None:
    (tmp_path / "texts.jsonl").write_text(
        '{"text": "spine and leaf and spine and leaf"}\n' * 40, encoding="utf-8"
    )
    steps = (StepSpec(tokenise=Tokenise(sequence_tokens=8)),)
    spec = DataSpec(source="texts.jsonl", steps=steps, split=SplitSpec(test_ratio=0.2))
    prepared = prepare(spec, base=tmp_path, out=tmp_path / "data")
    assert next(split.rows for split in prepared.manifest.splits if split.name == "test")
    run = make_run(
        tmp_path / "run", script_workload(tmp_path, ""), Home(path=tmp_path / "home"), "own"
    )
    assert _on_test(run, prepared.folder, tmp_path / "bundle") is None
