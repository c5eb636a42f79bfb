"""How sure a score is: bootstrap over rows (or groups of rows), corrected t over folds."""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import RefusedError
from gpuyard.learn.evaluate.measures import Measure
from gpuyard.learn.evaluate.predictions import Array, Predictions
from gpuyard.learn.evaluate.ranking import queries

__all__ = ["Score", "Units", "fold_score", "resampled", "score", "statistics", "student_half_width", "units_of"]

MOST_DRAWS = 200_000_000  # rows times resamples; more rows need fewer resamples for an interval as sharp
LEAST_RESAMPLES = 100
CHUNK_WEIGHTS = 4_000_000  # 32 MB at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A metric's value and the interval that holds the true one with the wanted confidence."""

    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    parts: tuple[float, ...] = ()  # of each fold


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Units:
    """What is drawn with replacement: rows, or groups of rows that belong together."""

    count: int
    of_row: npt.NDArray[np.intp] | None = None  # the group of each row; None: rows themselves


def units_of(given: Predictions) -> Units:
    """Rows, or whole groups where the rows have them; the queries of a ranking."""
    if given.groups is None:
        return Units(count=given.count)
    numbers = queries(given)
    count = int(numbers.max()) + 1
    return Units(count=count, of_row=None if given.problem == "ranking" else numbers)  # its metrics weigh queries


def resampled(units: Units, resamples: int, seed: int) -> Iterator[Array]:
    """Weights of bootstrap samples, a chunk at a time: how often each row was drawn."""
    rng = np.random.default_rng(seed)
    resamples = min(resamples, max(LEAST_RESAMPLES, MOST_DRAWS // max(1, units.count)))
    width = units.count if units.of_row is None else max(units.count, len(units.of_row))
    step = max(1, CHUNK_WEIGHTS // width)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = rng.integers(0, units.count, size=(rows, units.count))
        drawn += np.arange(rows)[:, None] * units.count
        weights = np.bincount(drawn.ravel(), minlength=rows * units.count).reshape(rows, units.count)
        yield np.asarray((weights if units.of_row is None else weights[:, units.of_row]), dtype=np.float64)


def score(
    measure: Measure, given: Predictions, *, resamples: int = 1000, confidence: float = 0.95, seed: int = 0
) -> Score:
    """The metric with its percentile bootstrap interval; no interval with fewer than two resamples."""
    units = units_of(given)
    width = units.count if units.of_row is None else len(units.of_row)
    value = float(measure.compute(given, np.ones((1, width)))[0])
    if resamples < 2 or units.count < 2:
        return Score(metric=measure.name, value=value)
    drawn = np.concatenate([measure.compute(given, weights) for weights in resampled(units, resamples, seed)])
    drawn = drawn[np.isfinite(drawn)]  # a sample without a positive row has no ROC
    if len(drawn) < 2:
        return Score(metric=measure.name, value=value)
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Score(metric=measure.name, value=value, low=float(low), high=float(high))


def fold_score(measure: Measure, values: Sequence[float], test_over_train: float, confidence: float = 0.95) -> Score:
    """The mean over folds with an interval that knows that their training rows overlap (Nadeau and Bengio 2003)."""
    mean = float(np.mean(values))
    half = student_half_width(values, test_over_train, confidence)
    known = math.isfinite(half)
    return Score(
        metric=measure.name,
        value=mean,
        low=max(mean - half, measure.least) if known else None,
        high=min(mean + half, measure.most) if known else None,
        parts=tuple(float(value) for value in values),
    )


def student_half_width(values: Sequence[float], test_over_train: float, confidence: float) -> float:
    """Half the width of the interval of the mean; NaN with fewer than two values."""
    count = len(values)
    if count < 2:
        return math.nan
    variance = float(np.var(values, ddof=1))
    spread = math.sqrt(
        (1.0 / count + test_over_train)  # 1/k for the mean, and the overlap of the training parts
        * variance
    )
    return float(statistics().t.ppf((1 + confidence) / 2, count - 1)) * spread


def statistics() -> typing.Any:
    """scipy.stats, which comes with the extra `run`."""
    try:
        import scipy.stats
    except ModuleNotFoundError as error:
        raise RefusedError("evaluate", "the package scipy is not installed", "pip install 'gpuyard[run]'") from error
    return scipy.stats
