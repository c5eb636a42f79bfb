"""The report of a model selection."""

from __future__ import annotations

import pytest

from gpuyard.learn.evaluate.intervals import MetricScore
from gpuyard.learn.select.selection import Footprint, Rejection, Selection, Trial
from gpuyard.learn.spec import TrainSpec
from gpuyard.registry.bundle import Tag
from gpuyard.report.select import selection_page, winner_text

SCORE = MetricScore(metric="rmse", value=1.25, low=1.0, high=1.5, parts=(1.2, 1.3))


@pytest.mark.parametrize("cost_usd", [None, 0.25])
def test_selection_shows_winner_cost_and_rejections(cost_usd: float | None) -> None:
    footprint = Footprint(
        latency_s=0.001,
        latency_p99_s=0.002,
        batch_latency_s=0.004,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
        cost_usd=cost_usd,
    )
    trials = [
        Trial(
            number=n,
            trainer="trees",
            parameters=(Tag(name="leaves", value=str(n)),),
            train=TrainSpec(),
            state="complete",
            score=SCORE,
            footprint=footprint if n == 1 else None,
        )
        for n in (1, 2)
    ]
    chosen = Selection(
        metric="rmse",
        higher=False,
        search="tpe",
        prune="median",
        seed=0,
        winner=trials[0],
        ranking=tuple(trials),
        rejected=(
            Rejection(number=2, label="trees (leaves 2)", reason="rmse 2, <the> winner has 1"),
        ),
        fits_count=7,
        fits_saved_count=3,
    )
    text = winner_text(chosen)
    assert "chosen: trial 1, trees (leaves 1)" in text
    assert "7 models fitted of 10" in text
    assert ("a million predictions $0.25" in text) == (cost_usd is not None)
    page = selection_page(chosen)
    assert "&lt;the&gt; winner" in page
    assert "Scores by trial" in page
