"""Scorecards and model comparisons as tables and as a page with plots."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from html import escape

from gpuyard.learn.evaluate.compare import Comparison
from gpuyard.learn.evaluate.intervals import MetricScore
from gpuyard.learn.evaluate.scorecard import Scorecard
from gpuyard.report.page import html_table, page
from gpuyard.report.plots import bars, heat, lines, marks
from gpuyard.report.table import Table, TableColumn, table_columns


def scorecard_table(card: Scorecard) -> Table:
    """Every metric with its confidence interval."""
    rows = tuple((score.metric, _number(score.value), _interval(score)) for score in card.scores)
    notes = [f"{card.trainer}, {card.method}, {card.rows:,} rows judged"]
    notes += [f"not computed: {name}" for name in card.not_computed]
    heading = f"{card.confidence_ratio:.0%} interval"
    return Table(
        columns=table_columns("metric", ">value", f">{heading}"),
        rows=rows,
        notes=tuple(notes),
    )


def fold_table(card: Scorecard) -> Table:
    """Scores per fold of a cross-validation."""
    names = [score.metric for score in card.scores]
    rows = []
    for fold in card.folds:
        values = {score.metric: score.value for score in fold.scores}
        cells = (_number(values.get(name)) for name in names)
        rows.append(
            (
                str(fold.number + 1),
                f"{fold.train_rows:,}",
                f"{fold.test_rows:,}",
                *cells,
                f"{fold.fit_s:.2f} s",
            )
        )
    headings = ("part", "train rows", "test rows", *names, "fit")
    return Table(
        columns=table_columns(*(f">{name}" for name in headings)),
        rows=tuple(rows),
    )


def slice_table(card: Scorecard) -> Table:
    """Scores per value of a column, with confidence intervals."""
    names = [score.metric for score in card.scores]
    rows = []
    for item in card.slices:
        scores = {score.metric: score for score in item.scores}
        cells = (_with_interval(scores.get(name)) for name in names)
        rows.append((item.column, item.value, f"{item.rows:,}", *cells))
    numeric = table_columns(*(f">{name}" for name in ("rows", *names)))
    return Table(
        columns=(TableColumn(heading="column"), TableColumn(heading="value"), *numeric),
        rows=tuple(rows),
    )


def comparison_table(comparisons: Sequence[Comparison], first: str, second: str) -> Table:
    """Two models on the same rows."""
    rows = tuple(
        (
            item.metric,
            _number(item.first),
            _number(item.second),
            f"{item.difference:+.4g}",
            "" if item.low is None or item.high is None else f"{item.low:+.4g} to {item.high:+.4g}",
            item.test,
            f"{item.p_value:.3g}",
            "yes" if item.significant else "no",
        )
        for item in comparisons
    )
    headings = ("metric", first, second, "difference", "interval", "test", "p", "significant")
    return Table(
        columns=tuple(
            TableColumn(heading=name, numeric=name not in ("metric", "test", "significant"))
            for name in headings
        ),
        rows=rows,
        notes=("significant: a chance below 5 % of a difference as large if there were none",),
    )


def scorecard_page(
    card: Scorecard, comparisons: Sequence[Comparison] = (), against: str = ""
) -> str:
    """A scorecard as a self-contained page."""
    return page(f"Evaluation of {card.trainer}", scorecard_sections(card, comparisons, against))


def scorecard_sections(
    card: Scorecard, comparisons: Sequence[Comparison] = (), against: str = ""
) -> list[str]:
    """Sections of the scorecard page, as HTML."""
    sections = [
        (
            f"<p>{escape(card.trainer)}, {escape(card.method)}; data"
            f" {escape(card.data[:16] or 'not versioned')}</p>"
        )
    ]
    sections.append(html_table(scorecard_table(card)))
    if comparisons:
        sections += [
            f"<h2>Against {escape(against)}</h2>",
            html_table(comparison_table(comparisons, against, "this")),
        ]
    sections += _curves(card)
    if len(card.folds) > 1:
        sections += ["<h2>Parts</h2>", html_table(fold_table(card))]
    if card.slices:
        sections += ["<h2>Slices</h2>", html_table(slice_table(card))]
    return sections


def _curves(card: Scorecard) -> list[str]:
    """The plots of a scorecard, two side by side where there is room."""
    figures = [f"<figure><h2>{escape(title)}</h2>{plot}</figure>" for title, plot in _plots(card)]
    return [f'<div class="pair">{"".join(figures)}</div>'] if figures else []


def _plots(card: Scorecard) -> list[tuple[str, str]]:
    """Title and plot of everything that a scorecard has drawn."""
    drawn, plots = card.pictures, list[tuple[str, str]]()
    if drawn.roc:
        curves = [
            (
                f"{_class_words(card, curve.name)}, AUC {area(curve.xs, curve.ys):.4f}",
                curve.xs,
                curve.ys,
            )
            for curve in drawn.roc
        ]
        plots.append(
            (
                "ROC",
                lines(
                    curves, "false positive rate", "true positive rate", unit=True, diagonal=True
                ),
            )
        )
    if drawn.precision_recall:
        curves = [
            (
                f"{_class_words(card, curve.name)}, area {area(curve.xs, curve.ys):.4f}",
                curve.xs,
                curve.ys,
            )
            for curve in drawn.precision_recall
        ]
        plots.append(("Precision and recall", lines(curves, "recall", "precision", unit=True)))
    if drawn.confusion:
        names = list(card.classes) or [str(index) for index in range(len(drawn.confusion))]
        plots.append(("Confusion", heat(drawn.confusion, names)))
    if drawn.calibration:
        curves = [(curve.name, curve.xs, curve.ys) for curve in drawn.calibration]
        plots.append(
            ("Calibration", lines(curves, "predicted", "observed", unit=True, diagonal=True))
        )
    if drawn.residuals:
        plots.append(
            (
                "Residuals",
                bars(
                    drawn.residuals.edges,
                    drawn.residuals.counts,
                    "true value minus prediction",
                    "rows",
                ),
            )
        )
    if drawn.predicted:
        plots.append(
            (
                "Predicted against true values",
                marks(
                    drawn.predicted.xs, drawn.predicted.ys, "true value", "prediction", equal=True
                ),
            )
        )
    if drawn.position_loss:
        curve = drawn.position_loss
        plots.append(("Loss by position", lines([("nats", curve.xs, curve.ys)], "token", "nats")))
    if card.losses:
        curves = [(curve.name, curve.xs, curve.ys) for curve in card.losses]
        plots.append(("Loss while training", lines(curves, "step", "loss")))
    return [*plots, *_learning(card)]


def area(xs: Sequence[float], ys: Sequence[float]) -> float:
    """The area under a curve, by trapezoids."""
    points = sorted(zip(xs, ys, strict=True))
    return sum(
        (right[0] - left[0]) * (left[1] + right[1]) / 2
        for left, right in itertools.pairwise(points)
    )


def _class_words(card: Scorecard, name: str) -> str:
    """A curve's class by its name; of two classes, the one that counts as positive."""
    return f"class {name}" if name in card.classes or name.isdigit() else name


def _learning(card: Scorecard) -> list[tuple[str, str]]:
    if not card.learning or not card.scores:
        return []
    name = card.scores[0].metric
    sizes = tuple(float(point.train_rows) for point in card.learning)
    judged = tuple(_of(point.scores, name) for point in card.learning)
    learnt = tuple(_of(point.train_scores, name) for point in card.learning)
    curves = [("test rows", sizes, judged), ("training rows", sizes, learnt)]
    return [(f"Learning curve: {name}", lines(curves, "training rows", name))]


def _of(scores: Sequence[MetricScore], name: str) -> float:
    return next((score.value for score in scores if score.metric == name), float("nan"))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _interval(score: MetricScore) -> str:
    return (
        "–" if score.low is None or score.high is None else f"{score.low:.4g} to {score.high:.4g}"
    )


def _with_interval(score: MetricScore | None) -> str:
    if score is None:
        return "–"
    known = score.low is not None and score.high is not None
    return f"{_number(score.value)} ({_interval(score)})" if known else _number(score.value)
