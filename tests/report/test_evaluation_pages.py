"""Plots, scorecards and selections as text: all that was measured is there, and nothing breaks the page."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuyard.learn import TrainSpec
from gpuyard.learn.evaluate import (
    Comparison,
    Curve,
    FoldOutcome,
    LearningPoint,
    Pictures,
    Score,
    Scorecard,
    SliceScores,
)
from gpuyard.learn.evaluate.pictures import Histogram
from gpuyard.learn.select import Footprint, Rejection, Selection, Trial
from gpuyard.registry import Pair
from gpuyard.report.evaluate import comparison_table, scorecard_page, scorecard_table
from gpuyard.report.plots import bars, heat, lines, marks
from gpuyard.report.select import selection_page, winner_text

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False)
SCORE = Score(metric="rmse", value=1.25, low=1.0, high=1.5, parts=(1.2, 1.3))


def drawn(text: str) -> None:
    """The drawing is well-formed, and every place in it is a number."""
    svg = text[text.index("<svg") : text.index("</svg>") + 6]
    ElementTree.fromstring(svg)
    assert not re.search(r"\b(nan|inf)\b", svg.lower().replace("infinite", ""))


@settings(max_examples=30)
@given(points=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
@example(points=[(0.0, 5e-324)])
@example(points=[(1e12, 1e12 + 1e-3)])
def test_any_numbers_can_be_drawn(points: list[tuple[float, float]]) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    drawn(lines([("a <b>", xs, ys), ("none", [float("nan")], [1.0])], "x & y", "y"))
    drawn(marks(xs, ys, "x", "y", equal=True))
    edges = sorted({*xs, max(xs) + 1.0})
    drawn(bars(edges, [3] * (len(edges) - 1), "x", "rows"))


def test_a_confusion_has_all_its_counts() -> None:
    text = heat(((12345, 1), (0, 7)), ("<no>", "yes"))
    drawn(text)
    assert "12,345" in text
    assert "<no>" not in text


def card() -> Scorecard:
    """Of values, with everything that can be."""
    return Scorecard(
        trainer="trees", problem="regression", method="2 folds, random", rows=20, confidence_ratio=0.9, seed=0,
        scores=(SCORE,), not_computed=("token_accuracy",), losses=(Curve(name="loss", xs=(1.0, 2.0), ys=(3.0, 2.0)),),
        folds=tuple(FoldOutcome(number=n, train_rows=10, test_rows=10, scores=(SCORE,), fit_s=0.5, predict_s=0.1) for n in (0, 1)),
        slices=(SliceScores(column="place", value="<north>", rows=12, scores=(SCORE,)),),
        learning=(LearningPoint(train_rows=5, scores=(SCORE,), train_scores=(SCORE,)), LearningPoint(train_rows=10, scores=(SCORE,), train_scores=())),
        pictures=Pictures(residuals=Histogram(edges=(0.0, 1.0, 2.0), counts=(4, 5)), predicted=Curve(name="rows", xs=(1.0, 2.0), ys=(1.1, 1.9))),
    )  # fmt: skip


def test_a_scorecard_is_told_whole() -> None:
    found = Comparison(
        metric="rmse",
        test="paired bootstrap",
        first=1.5,
        second=1.25,
        difference=-0.25,
        low=-0.4,
        high=-0.1,
        p_value=0.01,
    )
    text = scorecard_page(card(), (found,), "wine@champion")
    for words in (
        "Residuals",
        "Answers against truth",
        "Loss while training",
        "Learning curve: rmse",
        "Slices",
        "&lt;north&gt;",
        "wine@champion",
        "not computed: token_accuracy",
    ):
        assert words in text
    assert "<north>" not in text
    assert "1 to 1.5" in scorecard_table(card()).rows[0][2]
    assert scorecard_table(card()).columns[2].heading == "90% interval"
    assert comparison_table((found,), "a", "b").rows[0][3:8] == (
        "-0.25",
        "-0.4 to -0.1",
        "paired bootstrap",
        "0.01",
        "yes",
    )


@pytest.mark.parametrize("cost_usd", [None, 0.25])
def test_a_selection_is_told_whole(cost_usd: float | None) -> None:
    taken = Footprint(
        latency_s=0.001,
        latency_p99_s=0.002,
        batch_latency_s=0.004,
        batch_rows=32,
        memory_bytes=1e8,
        size_bytes=1e6,
        cost_usd=cost_usd,
    )
    trials = [
        Trial(number=n, trainer="trees", parameters=(Pair(name="leaves", value=str(n)),), train=TrainSpec(), state="complete", score=SCORE, footprint=taken if n == 1 else None)
        for n in (1, 2)
    ]  # fmt: skip
    chosen = Selection(
        metric="rmse", higher=False, search="tpe", prune="median", seed=0, winner=trials[0], ranking=tuple(trials),
        rejected=(Rejection(number=2, label="trees (leaves 2)", reason="rmse 2, <the> winner has 1"),), fits_count=7, fits_saved_count=3,
    )  # fmt: skip
    text = winner_text(chosen)
    assert "chosen: trial 1, trees (leaves 1)" in text
    assert "7 models fitted of 10" in text
    assert ("a million predictions $0.25" in text) == (cost_usd is not None)
    page = selection_page(chosen)
    assert "&lt;the&gt; winner" in page
    assert "Scores by trial" in page
