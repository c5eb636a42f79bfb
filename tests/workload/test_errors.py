"""Error messages: every malformed file in tests/golden/errors with its exact message.

To update the messages: GPUYARD_GOLDEN=write pytest tests/workload/test_errors.py, then read the diff.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpuyard.errors import InputError
from gpuyard.workload.read import read_workload

from .rows import CATALOG

FOLDER = Path(__file__).parent.parent / "golden" / "errors"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def input_error(name: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read_workload(Path(f"{name}.yaml"), CATALOG)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_message_matches_golden_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)  # messages show paths relative to this folder
    text = f"{input_error(name)}\n"
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_has_line_and_fix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    lines = Path(f"{name}.yaml").read_bytes().count(b"\n") + 1
    for problem in input_error(name).problems:
        location = re.match(rf"{re.escape(name)}\.yaml:(?P<line>\d+)(: |$)", problem.where)
        assert location, problem.where
        assert 1 <= int(location["line"]) <= lines
        assert problem.what.strip()
        assert problem.fix.strip()


def test_every_golden_file_has_message() -> None:
    assert len(NAMES) >= 30
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
