"""A run as a table and as curves."""

from __future__ import annotations

import pytest

from gpuyard.jobs.records import MetricPoint, Run, Series, Stage
from gpuyard.jobs.spec import EngineSpec
from gpuyard.perf.local.comparison import TrainingPrediction
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
PREDICTION = TrainingPrediction(
    trainer="trees", steps=900, step_s=0.02, total_s=18.0, samples_per_s=6000.0, memory_bytes=1e8, error_ratio=0.05,
    parts=(("overhead", 0.02),),
)  # fmt: skip


def test_run_table_shows_times_and_first_error_line() -> None:
    table = run_table(RUN, ("150 rows in", "", ""))
    assert table.rows == (
        ("data", "done", "2.5s", "150 rows in"),
        ("train", "failed", "1s", "exit code 1"),
        ("register", "pending", "", ""),
    )
    assert table.title == "run 3f9a21: iris on local"
    assert table.notes[0].startswith("failed, cost $1.5")
    with pytest.raises(ValueError, match="zip"):
        run_table(RUN, ())


def series(name: str, count: int) -> Series:
    points = tuple(
        MetricPoint(step=step, name=name, value=None if step == 3 else 1.0 / (step + 1))
        for step in range(count)
    )
    return Series(stage="train", name=name, points=points)


def test_a_step_that_compiles_does_not_flatten_the_others() -> None:
    points = [MetricPoint(step=n, name="step_s", value=0.3 if n == 0 else 0.001) for n in range(9)]
    ((title, drawn),) = run_curves([Series(stage="train", name="step_s", points=tuple(points))])
    assert title == "Step time (1 slower step not drawn, at most 300ms: compilation)"
    assert "300ms" not in drawn


def test_curves_are_thinned_and_show_the_prediction() -> None:
    long, short, lone = series("loss", 5000), series("step_s", 50), series("samples_per_s", 1)
    drawn = dict(run_curves([long, short, lone], PREDICTION))
    assert list(drawn) == ["Loss", "Step time"]  # a curve needs two points
    assert "predicted" not in drawn["Loss"]
    assert "predicted" in drawn["Step time"]
    assert "predicted" not in dict(run_curves([short]))["Step time"]
    assert drawn["Loss"].count(",") < 12 * MOST_POINTS
    assert "nan" not in drawn["Loss"]
    assert run_curves([]) == []
