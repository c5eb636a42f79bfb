"""What an evaluation came to: scores with intervals, folds, slices, curves; saved as JSON."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.fold import Answer
from gpuyard.learn.evaluate.intervals import Score, fold_score, score, units_of
from gpuyard.learn.evaluate.measures import Measure
from gpuyard.learn.evaluate.pictures import Curve, Pictures
from gpuyard.learn.evaluate.predictions import AnyArray, Predictions

__all__ = ["FoldOutcome", "LearningPoint", "Sampling", "Scorecard", "SliceScores", "scores_of", "slices_of"]

MOST_VALUES = 20  # of a sliced column; the rest are told together
QUARTERS = (0.25, 0.5, 0.75)
LEAST_SLICE_ROWS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How intervals are drawn."""

    resamples: int
    confidence: float
    seed: int

    def score(self, measure: Measure, given: Predictions) -> Score:
        """The metric with its interval."""
        return score(measure, given, resamples=self.resamples, confidence=self.confidence, seed=self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOutcome:
    """One part of a cross-validation."""

    number: int
    train_rows: int
    test_rows: int
    scores: tuple[Score, ...]
    fit_s: float
    predict_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceScores:
    """The scores of the rows that share a value of a column."""

    column: str
    value: str
    rows: int
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPoint:
    """The scores after learning from so many rows."""

    train_rows: int
    scores: tuple[Score, ...]
    train_scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """How good a model is, and how sure that is."""

    trainer: str
    problem: str
    method: str  # "5 folds, stratified", "hold-out", "NAME/3 on split test"
    rows: int
    classes: tuple[str, ...] = ()
    confidence_ratio: float
    seed: int
    data: str = ""  # version of the prepared data
    scores: tuple[Score, ...]
    folds: tuple[FoldOutcome, ...] = ()
    slices: tuple[SliceScores, ...] = ()
    learning: tuple[LearningPoint, ...] = ()
    losses: tuple[Curve, ...] = ()
    pictures: Pictures
    not_computed: tuple[str, ...] = ()  # metrics that the model or the data cannot give

    def score(self, name: str) -> Score:
        """The score of that metric."""
        return next(score for score in self.scores if score.metric == name)


def _plain(measure: Measure, given: Predictions) -> float:
    """The metric without an interval."""
    units = units_of(given)
    width = units.count if units.of_row is None else len(units.of_row)
    return float(measure.compute(given, np.ones((1, width)))[0])


def scores_of(
    measures: Sequence[Measure], answers: Sequence[Answer], sampling: Sampling
) -> tuple[tuple[Score, ...], tuple[FoldOutcome, ...]]:
    """Scores over all parts and of each: folds by their mean, a single part by the bootstrap."""
    values = [[_plain(measure, answer.predictions) for measure in measures] for answer in answers]
    outcomes = tuple(
        FoldOutcome(
            number=answer.number, train_rows=answer.train_rows, test_rows=answer.test_rows, fit_s=answer.fit_s,
            predict_s=answer.predict_s,
            scores=tuple(
                Score(metric=measure.name, value=value)
                for measure, value in zip(measures, row, strict=True)
                if math.isfinite(value)
            ),
        )
        for answer, row in zip(answers, values, strict=True)
    )  # fmt: skip
    if len(answers) == 1:
        given = answers[0].predictions
        found = [sampling.score(item, given) for item in measures]
        return tuple(item for item in found if math.isfinite(item.value)), outcomes
    ratio = float(np.mean([answer.test_rows / answer.train_rows for answer in answers]))
    scores = []
    for column, measure in enumerate(measures):
        known = [row[column] for row in values if math.isfinite(row[column])]
        if known:
            scores.append(fold_score(measure, known, ratio, sampling.confidence))
    return tuple(scores), outcomes


def slices_of(
    measures: Sequence[Measure], given: Predictions, columns: Sequence[tuple[str, AnyArray]],
    sampling: Sampling,
) -> tuple[SliceScores, ...]:  # fmt: skip
    """The scores by the values of each column; numbers with many values by their quarters."""
    found = []
    for name, values in columns:
        for label, chosen in _values(values):
            if int(chosen.sum()) < LEAST_SLICE_ROWS:
                continue
            part = given.take(np.flatnonzero(chosen))
            scores = [sampling.score(item, part) for item in measures]
            known = tuple(item for item in scores if math.isfinite(item.value))
            found.append(SliceScores(column=name, value=label, rows=part.count, scores=known))
    return tuple(found)


def _values(values: AnyArray) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """The values of a column and the rows that have them."""
    missing = np.array([value is None or value != value for value in values])
    if values.dtype.kind in "fiu" and len(np.unique(values[~missing])) > MOST_VALUES:
        numbers = values.astype(np.float64)
        cuts = np.unique(np.quantile(numbers[~missing], QUARTERS))
        edges = [-math.inf, *cuts, math.inf]
        for low, high in itertools.pairwise(edges):
            words = f"above {low:.4g}" if high == math.inf else f"to {high:.4g}"
            words = f"{low:.4g} to {high:.4g}" if -math.inf < low and high < math.inf else words
            yield words, ~missing & (numbers > low) & (numbers <= high)
    else:
        texts = np.array([str(value) for value in values], dtype=object)
        present, counts = np.unique(texts[~missing].astype(str), return_counts=True)
        common = sorted(present[np.argsort(-counts, kind="stable")][:MOST_VALUES])
        for value in common:
            yield str(value), ~missing & (texts == value)
        if len(present) > MOST_VALUES:
            yield "all other values", ~missing & ~np.isin(texts.astype(str), common)
    if missing.any():
        yield "missing", missing
