"""Confidence intervals of scores: bootstrap over rows or groups, corrected t over folds."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.metric_table import MetricDefinition
from gpuyard.learn.evaluate.predictions import Array, Predictions
from gpuyard.learn.evaluate.ranking import queries

MAX_DRAWS = 200_000_000  # rows times resamples; with more rows, fewer resamples are enough
MIN_RESAMPLES = 100
CHUNK_WEIGHTS = 4_000_000  # 32 MB at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricScore:
    """A metric's value and its confidence interval."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    parts: tuple[float, ...] = ()  # value per fold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """Resampling units: rows, or groups of rows that belong together."""

    count: int
    of_row: npt.NDArray[np.intp] | None = None  # group of each row; None: every row is a unit


def units_of(predictions: Predictions) -> Units:
    """Return the resampling units: rows, whole groups, or the queries of a ranking."""
    if predictions.groups is None:
        return Units(count=predictions.count)
    numbers = queries(predictions)
    count = int(numbers.max()) + 1
    # Ranking metrics take one weight per query, not per row.
    return Units(count=count, of_row=None if predictions.problem == "ranking" else numbers)


def unweighted(metric: MetricDefinition, predictions: Predictions) -> float:
    """Return the metric with weight 1 everywhere."""
    units = units_of(predictions)
    width = units.count if units.of_row is None else len(units.of_row)
    return float(metric.compute(predictions, np.ones((1, width)))[0])


def resampled(units: Units, resamples: int, seed: int) -> Iterator[Array]:
    """Yield bootstrap weights in chunks: how often each row was drawn."""
    rng = np.random.default_rng(seed)
    resamples = min(resamples, max(MIN_RESAMPLES, MAX_DRAWS // max(1, units.count)))
    width = units.count if units.of_row is None else max(units.count, len(units.of_row))
    step = max(1, CHUNK_WEIGHTS // width)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.integers(0, units.count, size=(rows, units.count))
        drawn += np.arange(rows)[:, None] * units.count
        weights = np.bincount(drawn.ravel(), minlength=rows * units.count).reshape(
            rows, units.count
        )
        row_weights = weights if units.of_row is None else weights[:, units.of_row]
        yield np.asarray(row_weights, dtype=np.float64)


def score(
    metric: MetricDefinition,
    predictions: Predictions,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> MetricScore:
    """Return the metric with its percentile bootstrap interval; none below two resamples."""
    units = units_of(predictions)
    value = unweighted(metric, predictions)
    if resamples < 2 or units.count < 2:
        return MetricScore(metric=metric.name, value=value)
    drawn = np.concatenate(
        [metric.compute(predictions, weights) for weights in resampled(units, resamples, seed)]
    )
    drawn = drawn[np.isfinite(drawn)]  # a sample without a positive row has no ROC AUC
    if len(drawn) < 2:
        return MetricScore(metric=metric.name, value=value)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return MetricScore(metric=metric.name, value=value, low=float(low), high=float(high))


def fold_score(
    metric: MetricDefinition,
    values: Sequence[float],
    test_over_train: float,
    confidence: float = 0.95,
) -> MetricScore:
    """Return the mean over folds, with an interval corrected for their shared training rows."""
    mean = float(np.mean(values))
    half_width = student_half_width(values, test_over_train, confidence)
    known = math.isfinite(half_width)
    return MetricScore(
        metric=metric.name,
        value=mean,
        low=max(mean - half_width, metric.min_value) if known else None,
        high=min(mean + half_width, metric.max_value) if known else None,
        parts=tuple(float(value) for value in values),
    )


def student_half_width(values: Sequence[float], test_over_train: float, confidence: float) -> float:
    """Return half the width of the t interval of the mean over folds; NaN below two values."""
    count = len(values)
    if count < 2:
        return math.nan
    variance = float(np.var(values, ddof=1))
    standard_error = math.sqrt(
        (1.0 / count + test_over_train)  # 1/k, plus the overlap of the training rows
        * variance
    )  # Nadeau and Bengio 2003, "Inference for the Generalization Error", section 4
    return float(statistics().t.ppf((1 + confidence) / 2, count - 1)) * standard_error


def statistics() -> typing.Any:
    """Return scipy.stats, which the extra `run` installs."""
    import scipy.stats

    return scipy.stats
