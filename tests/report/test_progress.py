"""Progress of a running stage in one line."""

from __future__ import annotations

import pytest

from gpuyard.jobs.task_runner import TaskProgress
from gpuyard.report.progress import progress_line, progress_words


def test_progress_words_list_known_values(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TaskProgress(
        stage="train",
        state="running",
        attempts=2,
        step=10,
        steps=100,
        loss=0.25,
        samples_per_s=1234.5,
        left_s=90.0,
    )
    assert (
        progress_words(progress)
        == "train · running · step 10 of 100 · loss 0.25 · 1,234 rows/s · 1.5min left · attempt 2"
    )
    assert progress_words(TaskProgress(stage="data", state="pending")) == "data · pending"
    progress_line(progress)  # not a terminal
    assert capsys.readouterr() == ("", "")
