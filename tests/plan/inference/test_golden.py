"""The wording of refusals: every file in tests/golden/inference, and exactly what `gpuyard plan` says of it.

To write the texts anew after a change of wording: GPUYARD_GOLDEN=write pytest tests/plan/inference/test_golden.py,
and read the difference. Numbers that come from fitted constants are tested in test_search.py, not here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuyard.app.plan import plan_file
from gpuyard.errors import Infeasible, InputError

FOLDER = Path(__file__).parents[2] / "golden" / "inference"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    try:
        found = plan_file(Path(f"{name}.yaml"))
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


def test_the_golden_files_are_whole() -> None:
    assert len(NAMES) >= 8
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == NAMES
