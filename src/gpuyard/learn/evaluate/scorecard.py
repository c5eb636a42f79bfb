"""The scorecard of an evaluation: scores with intervals, folds, slices and plots, as JSON."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.intervals import MetricScore, fold_score, score, unweighted
from gpuyard.learn.evaluate.metric_table import MetricDefinition
from gpuyard.learn.evaluate.plots import EvaluationPlots, PlotCurve
from gpuyard.learn.evaluate.predictions import AnyArray, Predictions

if TYPE_CHECKING:
    from gpuyard.learn.evaluate.fold import FoldPrediction

MAX_VALUES = 20  # of a sliced column; the other values share one slice
QUARTERS = (0.25, 0.5, 0.75)
MIN_SLICE_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Bootstrap settings."""

    resamples: int
    confidence: float
    seed: int

    def score(self, metric: MetricDefinition, predictions: Predictions) -> MetricScore:
        return score(
            metric,
            predictions,
            resamples=self.resamples,
            confidence=self.confidence,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOutcome:
    """The scores of one fold."""

    number: int
    train_rows: int
    test_rows: int
    scores: tuple[MetricScore, ...]
    fit_s: float
    predict_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceScores:
    """The scores of the rows that share a value of a column."""

    column: str
    value: str
    rows: int
    scores: tuple[MetricScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPoint:
    """The scores after training on N rows."""

    train_rows: int
    scores: tuple[MetricScore, ...]
    train_scores: tuple[MetricScore, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """The scores of a model, with their intervals."""

    trainer: str
    problem: str
    method: str  # "5 folds, stratified", "hold-out", "NAME/3 on split test"
    rows: int
    classes: tuple[str, ...] = ()
    confidence_ratio: float
    seed: int
    data: str = ""  # version of the prepared data
    scores: tuple[MetricScore, ...]
    folds: tuple[FoldOutcome, ...] = ()
    slices: tuple[SliceScores, ...] = ()
    learning: tuple[LearningPoint, ...] = ()
    losses: tuple[PlotCurve, ...] = ()
    pictures: EvaluationPlots
    not_computed: tuple[str, ...] = ()  # metrics that the model or the data does not support

    def score(self, name: str) -> MetricScore:
        return next(score for score in self.scores if score.metric == name)


def scores_of(
    metrics: Sequence[MetricDefinition], folds: Sequence[FoldPrediction], sampling: Sampling
) -> tuple[tuple[MetricScore, ...], tuple[FoldOutcome, ...]]:
    """Return overall scores (mean over folds, or bootstrap of a single split) and fold scores."""
    values = [[unweighted(metric, fold.predictions) for metric in metrics] for fold in folds]
    outcomes = tuple(
        FoldOutcome(
            number=fold.number,
            train_rows=fold.train_rows,
            test_rows=fold.test_rows,
            fit_s=fold.fit_s,
            predict_s=fold.predict_s,
            scores=tuple(
                MetricScore(metric=metric.name, value=value)
                for metric, value in zip(metrics, row, strict=True)
                if math.isfinite(value)
            ),
        )
        for fold, row in zip(folds, values, strict=True)
    )
    if len(folds) == 1:
        predictions = folds[0].predictions
        scored = [sampling.score(item, predictions) for item in metrics]
        return tuple(item for item in scored if math.isfinite(item.value)), outcomes
    ratio = float(np.mean([fold.test_rows / fold.train_rows for fold in folds]))
    scores = []
    for column, metric in enumerate(metrics):
        known = [row[column] for row in values if math.isfinite(row[column])]
        if known:
            scores.append(fold_score(metric, known, ratio, sampling.confidence))
    return tuple(scores), outcomes


def slices_of(
    metrics: Sequence[MetricDefinition],
    predictions: Predictions,
    columns: Sequence[tuple[str, AnyArray]],
    sampling: Sampling,
) -> tuple[SliceScores, ...]:
    """Return the scores per value of each column; numeric columns are cut into quarters."""
    slices = []
    for name, values in columns:
        for label, mask in _slices(values):
            if int(mask.sum()) < MIN_SLICE_ROWS:
                continue
            subset = predictions.take(np.flatnonzero(mask))
            scores = [sampling.score(item, subset) for item in metrics]
            known = tuple(item for item in scores if math.isfinite(item.value))
            slices.append(SliceScores(column=name, value=label, rows=subset.count, scores=known))
    return tuple(slices)


def _slices(values: AnyArray) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    missing = np.array([value is None or value != value for value in values])
    if values.dtype.kind in "fiu" and len(np.unique(values[~missing])) > MAX_VALUES:
        numbers = values.astype(np.float64)
        cuts = np.unique(np.quantile(numbers[~missing], QUARTERS))
        edges = [-math.inf, *cuts, math.inf]
        for low, high in itertools.pairwise(edges):
            label = f"above {low:.4g}" if high == math.inf else f"to {high:.4g}"
            label = f"{low:.4g} to {high:.4g}" if -math.inf < low and high < math.inf else label
            yield label, ~missing & (numbers > low) & (numbers <= high)
    else:
        texts = np.array([str(value) for value in values], dtype=object)
        present, counts = np.unique(texts[~missing].astype(str), return_counts=True)
        common = sorted(present[np.argsort(-counts, kind="stable")][:MAX_VALUES])
        for value in common:
            yield str(value), ~missing & (texts == value)
        if len(present) > MAX_VALUES:
            yield "all other values", ~missing & ~np.isin(texts.astype(str), common)
    if missing.any():
        yield "missing", missing
