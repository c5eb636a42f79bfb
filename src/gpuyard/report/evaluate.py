"""Scorecards and comparisons as tables and as a page with the curves that people look for."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpuyard.learn.evaluate import Comparison, Scorecard
from gpuyard.learn.evaluate.intervals import Score
from gpuyard.report.page import html_table, page
from gpuyard.report.plots import bars, heat, lines, marks
from gpuyard.report.table import Column, Table

__all__ = ["comparison_table", "fold_table", "scorecard_page", "scorecard_sections", "scorecard_table", "slice_table"]


def scorecard_table(card: Scorecard) -> Table:
    """Each metric with its interval."""
    rows = tuple((score.metric, _number(score.value), _interval(score)) for score in card.scores)
    notes = [f"{card.trainer}, {card.method}, {card.rows:,} rows judged"]
    notes += [f"not computed: {name}" for name in card.not_computed]
    heading = f"{card.confidence_ratio:.0%} interval"
    return Table(
        columns=(
            Column(heading="metric"),
            Column(heading="value", numeric=True),
            Column(heading=heading, numeric=True),
        ),
        rows=rows,
        notes=tuple(notes),
    )


def fold_table(card: Scorecard) -> Table:
    """Each part of a cross-validation."""
    names = [score.metric for score in card.scores]
    rows = []
    for fold in card.folds:
        values = {score.metric: score.value for score in fold.scores}
        cells = (_number(values.get(name)) for name in names)
        rows.append(
            (str(fold.number + 1), f"{fold.train_rows:,}", f"{fold.test_rows:,}", *cells, f"{fold.fit_s:.2f} s")
        )
    headings = ("part", "learnt from", "judged on", *names, "fit")
    return Table(columns=tuple(Column(heading=name, numeric=True) for name in headings), rows=tuple(rows))


def slice_table(card: Scorecard) -> Table:
    """The scores by the values of columns, each with its interval."""
    names = [score.metric for score in card.scores]
    rows = []
    for item in card.slices:
        scores = {score.metric: score for score in item.scores}
        cells = (_with_interval(scores.get(name)) for name in names)
        rows.append((item.column, item.value, f"{item.rows:,}", *cells))
    numeric = tuple(Column(heading=name, numeric=True) for name in ("rows", *names))
    return Table(columns=(Column(heading="column"), Column(heading="value"), *numeric), rows=tuple(rows))


def comparison_table(comparisons: Sequence[Comparison], first: str, second: str) -> Table:
    """Two models on the same rows."""
    rows = tuple(
        (
            item.metric, _number(item.first), _number(item.second), f"{item.difference:+.4g}",
            "" if item.low is None or item.high is None else f"{item.low:+.4g} to {item.high:+.4g}",
            item.test, f"{item.p_value:.3g}", "yes" if item.significant else "no",
        )
        for item in comparisons
    )  # fmt: skip
    headings = ("metric", first, second, "difference", "interval", "test", "p", "significant")
    return Table(
        columns=tuple(Column(heading=name, numeric=name not in ("metric", "test", "significant")) for name in headings),
        rows=rows,
        notes=("significant: a chance below 5 % of a difference as large if there were none",),
    )


def scorecard_page(card: Scorecard, comparisons: Sequence[Comparison] = (), against: str = "") -> str:
    """Everything on one page."""
    return page(f"Evaluation of {card.trainer}", scorecard_sections(card, comparisons, against))


def scorecard_sections(card: Scorecard, comparisons: Sequence[Comparison] = (), against: str = "") -> list[str]:
    """The parts of the page, as HTML."""
    sections = [
        f"<p>{escape(card.trainer)}, {escape(card.method)}; data {escape(card.data[:16] or 'not versioned')}</p>"
    ]
    sections.append(html_table(scorecard_table(card)))
    if comparisons:
        sections += [f"<h2>Against {escape(against)}</h2>", html_table(comparison_table(comparisons, against, "this"))]
    sections += _curves(card)
    if len(card.folds) > 1:
        sections += ["<h2>Parts</h2>", html_table(fold_table(card))]
    if card.slices:
        sections += ["<h2>Slices</h2>", html_table(slice_table(card))]
    return sections


def _curves(card: Scorecard) -> list[str]:
    """The pictures that there are, each under its title."""
    drawn, found = card.pictures, []
    if drawn.roc:
        curves = [(curve.name, curve.xs, curve.ys) for curve in drawn.roc]
        found += ["<h2>ROC</h2>", lines(curves, "false positives", "true positives", unit=True, diagonal=True)]
    if drawn.precision_recall:
        curves = [(curve.name, curve.xs, curve.ys) for curve in drawn.precision_recall]
        found += ["<h2>Precision and recall</h2>", lines(curves, "recall", "precision", unit=True)]
    if drawn.confusion:
        names = list(card.classes) or [str(index) for index in range(len(drawn.confusion))]
        found += ["<h2>Confusion</h2>", heat(drawn.confusion, names)]
    if drawn.calibration:
        curves = [(curve.name, curve.xs, curve.ys) for curve in drawn.calibration]
        found += ["<h2>Calibration</h2>", lines(curves, "predicted", "observed", unit=True, diagonal=True)]
    if drawn.residuals:
        found += [
            "<h2>Residuals</h2>",
            bars(drawn.residuals.edges, drawn.residuals.counts, "truth less answer", "rows"),
        ]
    if drawn.predicted:
        found += [
            "<h2>Answers against truth</h2>",
            marks(drawn.predicted.xs, drawn.predicted.ys, "truth", "answer", equal=True),
        ]
    if drawn.position_loss:
        curve = drawn.position_loss
        found += ["<h2>Loss by place</h2>", lines([("nats", curve.xs, curve.ys)], "token", "nats")]
    if card.losses:
        curves = [(curve.name, curve.xs, curve.ys) for curve in card.losses]
        found += ["<h2>Loss while training</h2>", lines(curves, "step", "loss")]
    return found + _learning(card)


def _learning(card: Scorecard) -> list[str]:
    """The learning curve of the first metric."""
    if not card.learning or not card.scores:
        return []
    name = card.scores[0].metric
    sizes = tuple(float(point.train_rows) for point in card.learning)
    judged = tuple(_of(point.scores, name) for point in card.learning)
    learnt = tuple(_of(point.train_scores, name) for point in card.learning)
    curves = [("test rows", sizes, judged), ("training rows", sizes, learnt)]
    return [f"<h2>Learning curve: {escape(name)}</h2>", lines(curves, "training rows", name)]


def _of(scores: Sequence[Score], name: str) -> float:
    """The value of one metric."""
    return next((score.value for score in scores if score.metric == name), float("nan"))


def _number(value: float | None) -> str:
    """Four digits, or a dash."""
    return "–" if value is None else f"{value:.4g}"


def _interval(score: Score) -> str:
    """Its ends, or a dash."""
    return "–" if score.low is None or score.high is None else f"{score.low:.4g} to {score.high:.4g}"


def _with_interval(score: Score | None) -> str:
    """Value and half-width."""
    if score is None:
        return "–"
    known = score.low is not None and score.high is not None
    return f"{_number(score.value)} ({_interval(score)})" if known else _number(score.value)
