"""A run as a table and as curves."""

from __future__ import annotations

import pytest

from gpuyard.jobs import EngineSpec, Progress, Run, Series
from gpuyard.jobs.records import Point, Stage
from gpuyard.perf.local import Foreseen
from gpuyard.report.progress import progress_line, progress_words
from gpuyard.report.run import MOST_POINTS, run_curves, run_table

RUN = Run(
    id="3f9a21", name="iris", state="failed", engine=EngineSpec(), folder="runs/3f9a21", workload="", workload_hash="",
    created_s=0.0,
    stages=(
        Stage(name="data", state="done", attempt=1, started_s=10.0, ended_s=12.5),
        Stage(name="train", state="failed", attempt=1, started_s=13.0, ended_s=14.0, error="exit code 1\nlog line",
              cost_usd=1.5),
        Stage(name="register", state="pending"),
    ),
)  # fmt: skip
FORESEEN = Foreseen(
    trainer="trees", steps=900, step_s=0.02, total_s=18.0, samples_per_s=6000.0, memory_bytes=1e8, error_ratio=0.05,
    parts=(("overhead", 0.02),),
)  # fmt: skip


def test_stages_with_their_time_and_the_first_line_of_an_error() -> None:
    table = run_table(RUN, ("150 rows in", "", ""))
    assert table.rows == (
        ("data", "done", "2.5s", "150 rows in"), ("train", "failed", "1s", "exit code 1"), ("register", "pending", "", ""),
    )  # fmt: skip
    assert table.title == "run 3f9a21: iris on local"
    assert table.notes[0].startswith("failed, cost $1.5")
    with pytest.raises(ValueError, match="zip"):
        run_table(RUN, ())


def series(name: str, count: int) -> Series:
    points = tuple(Point(step=step, name=name, value=None if step == 3 else 1.0 / (step + 1)) for step in range(count))
    return Series(stage="train", name=name, points=points)


def test_curves_are_thinned_and_the_predicted_value_is_a_line() -> None:
    long, short, lone = series("loss", 5000), series("step_s", 50), series("samples_per_s", 1)
    drawn = dict(run_curves([long, short, lone], FORESEEN))
    assert list(drawn) == ["Loss", "Time of a step"]  # one point is no curve
    assert "predicted" not in drawn["Loss"]
    assert "predicted" in drawn["Time of a step"]
    assert "predicted" not in dict(run_curves([short]))["Time of a step"]
    assert drawn["Loss"].count(",") < 12 * MOST_POINTS
    assert "nan" not in drawn["Loss"]
    assert run_curves([]) == []


def test_progress_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(
        stage="train", state="running", attempts=2, step=10, steps=100, loss=0.25, samples_per_s=1234.5, left_s=90.0
    )
    assert (
        progress_words(progress)
        == "train · running · step 10 of 100 · loss 0.25 · 1,234 rows/s · 1.5min left · attempt 2"
    )
    assert progress_words(Progress(stage="data", state="pending")) == "data · pending"
    progress_line(progress)  # nobody looks
    assert capsys.readouterr() == ("", "")
