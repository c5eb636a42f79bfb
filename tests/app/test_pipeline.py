"""The sections of a pipeline: what is said of a wrong one, and which stages come of a right one.

To write the texts anew after a change of wording: GPUYARD_GOLDEN=write pytest tests/app/test_pipeline.py,
and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpuyard.app.pipeline import STAGES, read_stages
from gpuyard.errors import InputError

FOLDER = Path(__file__).parent.parent / "golden" / "pipeline"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
DATA = "data: {source: 'sklearn:iris', label: target}"


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_stages(path)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)  # so that files are named as a user in that folder sees them
    error = refused(Path(f"{name}.yaml"))
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        golden.write_text(f"{error}\n", encoding="utf-8")
    assert f"{error}\n" == golden.read_text(encoding="utf-8")
    for problem in error.problems:
        assert re.match(rf"{name}\.yaml(:\d+: |$)", problem.where), problem.where
        assert problem.what.strip()
        assert problem.fix.strip()


def test_the_golden_files_are_whole() -> None:
    assert len(NAMES) >= 10
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES


def test_every_section_has_its_problem() -> None:
    told = "\n".join(problem.where for problem in refused(FOLDER / "every-section.yaml").problems)
    assert all(f"pipeline.{name}" in told for name in ("data", "train", "evaluate", "select", "deploy", "run"))


@pytest.mark.parametrize(
    ("sections", "names"),
    [
        ((DATA,), ("data",)),
        ((DATA, "train: {trees: {}}"), ("data", "train", "register")),
        ((DATA, "train: {trees: {}}", "evaluate: {folds: 3}"), ("data", "train", "evaluate", "register")),
        (
            (
                DATA,
                "evaluate: {folds: 3}",
                "select: {metric: accuracy, candidates: [{trees: {}}]}",
                "deploy: {name: x}",
            ),
            ("data", "select", "register", "deploy"),  # the search judges by folds itself
        ),
        (("train: {command: {run: ['true']}}",), ("train", "register")),
        (("deploy: {name: x, model: iris@champion}",), ("deploy",)),
    ],
)
def test_stages_follow_from_the_sections(sections: tuple[str, ...], names: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "workload.yaml"
    file.write_text("pipeline:\n" + "".join(f"  {section}\n" for section in sections), encoding="utf-8")
    stages = read_stages(file)
    assert stages.names == names
    assert tuple(sorted(names, key=STAGES.index)) == names
    assert stages.run.engine.name == "local"
