"""The `pipeline` section: errors in a wrong one, stages of a right one.

To update the messages: GPUYARD_GOLDEN=write pytest tests/app/test_pipeline.py, then read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpuyard.app.stages import read_stages
from gpuyard.errors import InputError
from gpuyard.jobs.records import STAGES

FOLDER = Path(__file__).parent.parent / "golden" / "pipeline"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
DATA = "data: {source: 'sklearn:iris', label: target}"


def input_error(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_stages(path)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_message_matches_golden_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)  # messages show paths relative to this folder
    error = input_error(Path(f"{name}.yaml"))
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        golden.write_text(f"{error}\n", encoding="utf-8")
    assert f"{error}\n" == golden.read_text(encoding="utf-8")
    for problem in error.problems:
        assert re.match(rf"{name}\.yaml(:\d+: |$)", problem.where), problem.where
        assert problem.what.strip()
        assert problem.fix.strip()


def test_every_golden_file_has_message() -> None:
    assert len(NAMES) >= 10
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES


def test_wrong_sections_are_reported_at_once() -> None:
    places = "\n".join(
        problem.where for problem in input_error(FOLDER / "every-section.yaml").problems
    )
    assert all(
        f"pipeline.{name}" in places
        for name in ("data", "train", "evaluate", "select", "deploy", "run")
    )


@pytest.mark.parametrize(
    ("sections", "names"),
    [
        ((DATA,), ("data",)),
        ((DATA, "train: {trees: {}}"), ("data", "train", "register")),
        (
            (DATA, "train: {trees: {}}", "evaluate: {folds: 3}"),
            ("data", "train", "evaluate", "register"),
        ),
        (
            (
                DATA,
                "evaluate: {folds: 3}",
                "select: {metric: accuracy, candidates: [{trees: {}}]}",
                "deploy: {name: x}",
            ),
            ("data", "select", "register", "deploy"),  # the search evaluates by folds itself
        ),
        (("train: {command: {run: ['true']}}",), ("train", "register")),
        (("deploy: {name: x, model: iris@champion}",), ("deploy",)),
    ],
)
def test_stages_follow_sections(
    sections: tuple[str, ...], names: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text(
        "pipeline:\n" + "".join(f"  {section}\n" for section in sections), encoding="utf-8"
    )
    stages = read_stages(file)
    assert stages.names == names
    assert tuple(sorted(names, key=STAGES.index)) == names
    assert stages.run.engine.name == "local"
