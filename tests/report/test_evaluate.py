"""The report of an evaluation: scorecard and comparison."""

from __future__ import annotations

from gpuyard.learn.evaluate.compare import Comparison
from gpuyard.learn.evaluate.intervals import MetricScore
from gpuyard.learn.evaluate.plots import EvaluationPlots, Histogram, PlotCurve
from gpuyard.learn.evaluate.scorecard import FoldOutcome, LearningPoint, Scorecard, SliceScores
from gpuyard.report.evaluate import comparison_table, scorecard_page, scorecard_table

SCORE = MetricScore(metric="rmse", value=1.25, low=1.0, high=1.5, parts=(1.2, 1.3))


def card() -> Scorecard:
    """A regression scorecard with every section."""
    return Scorecard(
        trainer="trees",
        problem="regression",
        method="2 folds, random",
        rows=20,
        confidence_ratio=0.9,
        seed=0,
        scores=(SCORE,),
        not_computed=("token_accuracy",),
        losses=(PlotCurve(name="loss", xs=(1.0, 2.0), ys=(3.0, 2.0)),),
        folds=tuple(
            FoldOutcome(
                number=n, train_rows=10, test_rows=10, scores=(SCORE,), fit_s=0.5, predict_s=0.1
            )
            for n in (0, 1)
        ),
        slices=(SliceScores(column="place", value="<north>", rows=12, scores=(SCORE,)),),
        learning=(
            LearningPoint(train_rows=5, scores=(SCORE,), train_scores=(SCORE,)),
            LearningPoint(train_rows=10, scores=(SCORE,), train_scores=()),
        ),
        pictures=EvaluationPlots(
            residuals=Histogram(edges=(0.0, 1.0, 2.0), counts=(4, 5)),
            predicted=PlotCurve(name="rows", xs=(1.0, 2.0), ys=(1.1, 1.9)),
        ),
    )


def test_scorecard_page_has_every_section() -> None:
    comparison = Comparison(
        metric="rmse",
        test="paired bootstrap",
        first=1.5,
        second=1.25,
        difference=-0.25,
        low=-0.4,
        high=-0.1,
        p_value=0.01,
    )
    text = scorecard_page(card(), (comparison,), "wine@champion")
    for part in ("Residuals", "rmse", "&lt;north&gt;", "wine@champion", "token_accuracy"):
        assert part in text
    assert text.count("<svg") == 4  # residuals, predictions, loss, learning curve
    assert "<north>" not in text
    assert "1 to 1.5" in scorecard_table(card()).rows[0][2]
    assert scorecard_table(card()).columns[2].heading == "90% interval"
    assert comparison_table((comparison,), "a", "b").rows[0][3:8] == (
        "-0.25",
        "-0.4 to -0.1",
        "paired bootstrap",
        "0.01",
        "yes",
    )
