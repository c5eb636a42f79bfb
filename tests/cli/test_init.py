"""`gpuyard init`: starter files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuyard.cli.init import TASKS
from gpuyard.cli.main import main


@pytest.mark.parametrize("task", TASKS)
def test_starter_is_valid_and_not_overwritten(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "mine.yaml"
    assert main(["init", task, str(target)]) == 0
    assert main(["check", str(target)]) == 0
    assert f"{target}: valid" in capsys.readouterr().out
    before = target.read_bytes()
    assert main(["init", task, str(target)]) == 2  # never overwritten
    assert main(["init", task, str(target), "--force"]) == 0
    assert target.read_bytes() == before
