"""Messages of infeasible and wrong inputs: every file in tests/golden/inference.

To update: GPUYARD_GOLDEN=write pytest tests/plan/inference/test_golden.py, then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuyard.app.plan import plan_workload
from gpuyard.app.workspace import open_workspace
from gpuyard.errors import Infeasible, InputError

FOLDER = Path(__file__).parents[2] / "golden" / "inference"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_message_matches_golden_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    try:
        found = plan_workload(open_workspace(Path(f"{name}.yaml")))
    except InputError as error:
        text = f"{error}\n"
    else:
        assert isinstance(found, Infeasible)
        text = f"{found}\n"
    golden = FOLDER / f"{name}.txt"
    if os.environ.get("GPUYARD_GOLDEN") == "write":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert "\n  fix: " in text


def test_every_golden_file_has_message() -> None:
    assert len(NAMES) >= 8
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
