"""`gpuyard init`, `check` and `schema`."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from gpuyard.cli import main
from gpuyard.cli.init import TASKS

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("task", TASKS)
def test_a_starter_passes_its_own_check(task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.yaml"
    assert main(["init", task, str(target)]) == 0
    assert main(["check", str(target)]) == 0
    assert f"{target}: valid" in capsys.readouterr().out
    before = target.read_bytes()
    assert main(["init", task, str(target)]) == 2  # never written over
    assert main(["init", task, str(target), "--force"]) == 0
    assert target.read_bytes() == before


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_machines(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["candidates"]
    assert all(group["machines"] and group["reason"] for group in answer["left_out"])


def test_the_schema_accepts_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    validator = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    for path in EXAMPLES:
        validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


def test_nothing_left_is_infeasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "w.yaml"
    target.write_text(
        "task: hpc\nhpc: {offload: 60%, bound: fp64, cpu_hours: 1000}\n"
        "where: {provider: onprem}\nrequirements: {precision: fp4, framework: rocm}\n",
        encoding="utf-8",
    )
    code = main(["check", str(target)])
    out, err = capsys.readouterr()
    assert code in (2, 3), out + err
    assert "fix:" in out + err
