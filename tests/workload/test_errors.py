"""The wording of errors: every malformed file in tests/golden/errors, and exactly what is said of it.

To write the texts anew after a change of wording: GPUYARD_GOLDEN=write pytest tests/workload/test_errors.py,
and read the difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.workload import read_workload

from .rows import CATALOG

FOLDER = Path(__file__).parent.parent / "golden" / "errors"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def refused(name: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_workload(Path(f"{name}.yaml"), CATALOG)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)  # so that files are named as a user in that folder sees them
    text = f"{refused(name)}\n"
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_has_a_line_and_a_fix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    lines = Path(f"{name}.yaml").read_bytes().count(b"\n") + 1
    for problem in refused(name).problems:
        place = re.match(rf"{re.escape(name)}\.yaml:(?P<line>\d+)(: |$)", problem.where)
        assert place, problem.where
        assert 1 <= int(place["line"]) <= lines
        assert problem.what.strip()
        assert problem.fix.strip()


def test_the_golden_files_are_whole() -> None:
    assert len(NAMES) >= 30
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
