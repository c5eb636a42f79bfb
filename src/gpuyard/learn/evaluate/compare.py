"""Significance tests between two models on the same rows or the same folds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.evaluate.intervals import (
    resampled,
    statistics,
    student_half_width,
    units_of,
    unweighted,
)
from gpuyard.learn.evaluate.metric_table import MetricDefinition
from gpuyard.learn.evaluate.predictions import Array, Predictions

Test: TypeAlias = Literal["mcnemar", "delong", "paired bootstrap", "corrected t"]
EXACT_BELOW = 25  # discordant rows: below, exact binomial; from here on, chi-squared
SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Difference of a metric (second minus first), its interval and p-value."""

    metric: str
    test: Test
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    p_value: float

    @property
    def significant(self) -> bool:
        """True if the p-value is below 5 %."""
        return self.p_value < SIGNIFICANCE


def compare(
    metric: MetricDefinition,
    first: Predictions,
    second: Predictions,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Use DeLong for binary ROC AUC, McNemar for accuracy, and a paired bootstrap otherwise."""
    _check_same_rows(first, second)
    binary = first.problem == "classification" and first.outputs.shape[1] == 2
    if metric.name == "roc_auc" and binary and first.groups is None:
        return delong(first, second, confidence)
    bootstrap = paired_bootstrap(
        metric, first, second, resamples=resamples, confidence=confidence, seed=seed
    )
    if metric.name in ("accuracy", "f1_micro") and first.groups is None:
        return dataclasses.replace(bootstrap, test="mcnemar", p_value=mcnemar(first, second))
    return bootstrap


def paired_bootstrap(
    metric: MetricDefinition,
    first: Predictions,
    second: Predictions,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compare on common resamples; the p-value is twice the share on the far side of zero."""
    _check_same_rows(first, second)
    value_first = unweighted(metric, first)
    value_second = unweighted(metric, second)
    differences = np.concatenate(
        [
            metric.compute(second, weights) - metric.compute(first, weights)
            for weights in resampled(units_of(first), resamples, seed)
        ]
    )
    differences = differences[np.isfinite(differences)]
    low, high = np.quantile(differences, [(1 - confidence) / 2, (1 + confidence) / 2])
    below = float((differences <= 0).mean())
    above = float((differences >= 0).mean())
    smallest = 1.0 / (len(differences) + 1)  # a finite number of resamples never shows zero
    p_value = min(1.0, 2.0 * max(min(below, above), smallest))
    return Comparison(
        metric=metric.name,
        test="paired bootstrap",
        first=value_first,
        second=value_second,
        difference=value_second - value_first,
        low=float(low),
        high=float(high),
        p_value=p_value,
    )


def mcnemar(first: Predictions, second: Predictions) -> float:
    """Return the p-value of McNemar's test (1947) on the rows that only one model gets right."""
    assert first.truth is not None
    correct_first = first.labels == first.truth
    correct_second = second.labels == first.truth
    only_first = int((correct_first & ~correct_second).sum())
    only_second = int((correct_second & ~correct_first).sum())
    discordant = only_first + only_second
    if discordant == 0:
        return 1.0
    if discordant < EXACT_BELOW:
        return float(statistics().binomtest(only_first, discordant, 0.5).pvalue)
    statistic = (abs(only_first - only_second) - 1.0) ** 2 / discordant  # with Edwards' correction
    return float(statistics().chi2.sf(statistic, 1))


def delong(first: Predictions, second: Predictions, confidence: float = 0.95) -> Comparison:
    """Compare the ROC AUC of two models (DeLong 1988, by ranks as in Sun and Xu 2014)."""
    _check_same_rows(first, second)
    assert first.truth is not None
    positive = first.truth.astype(np.intp) == 1
    if positive.all() or not positive.any():
        raise InputError.one("compare", "only one class occurs", "compare on rows of both classes")
    areas, of_positive, of_negative = [], [], []
    for predictions in (first, second):
        area, beaten, missed = _placements(predictions.outputs[:, 1].astype(np.float64), positive)
        areas.append(area)
        of_positive.append(beaten)
        of_negative.append(missed)
    covariance = _covariance(of_positive) + _covariance(of_negative)
    variance = float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    difference = areas[1] - areas[0]
    half_width = float(statistics().norm.ppf((1 + confidence) / 2)) * math.sqrt(max(variance, 0.0))
    if variance <= 0:
        p_value = 1.0 if difference == 0 else 0.0
    else:
        p_value = float(2 * statistics().norm.sf(abs(difference) / math.sqrt(variance)))
    return Comparison(
        metric="roc_auc",
        test="delong",
        first=areas[0],
        second=areas[1],
        difference=difference,
        low=difference - half_width,
        high=difference + half_width,
        p_value=p_value,
    )


def _placements(scores: Array, positive: npt.NDArray[np.bool_]) -> tuple[float, Array, Array]:
    # The AUC; for each positive, the share of negatives below it; for each negative, the share of
    # positives above it.
    rank = statistics().rankdata
    overall = rank(scores)
    among_positives = rank(scores[positive])
    among_negatives = rank(scores[~positive])
    beaten = (overall[positive] - among_positives) / len(among_negatives)
    missed = 1.0 - (overall[~positive] - among_negatives) / len(among_positives)
    return float(beaten.mean()), np.asarray(beaten), np.asarray(missed)


def _covariance(placements: Sequence[Array]) -> Array:
    count = len(placements[0])
    return np.asarray(np.cov(np.vstack(placements)) / count) if count > 1 else np.zeros((2, 2))


def corrected_t(
    metric: MetricDefinition,
    first: Sequence[float],
    second: Sequence[float],
    test_over_train: float,
    confidence: float = 0.95,
) -> Comparison:
    """Compare fold scores by a t-test corrected for shared training rows (Nadeau, Bengio 2003)."""
    if len(first) != len(second) or len(first) < 2:
        raise InputError.one(
            "compare", "the folds differ", "compare both models on the same folds, at least two"
        )
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean, count = float(differences.mean()), len(differences)
    scale = math.sqrt((1.0 / count + test_over_train) * float(differences.var(ddof=1)))
    half_width = student_half_width(list(differences), test_over_train, confidence)
    p_value = 1.0 if mean == 0 else 0.0
    if scale > 0:
        p_value = float(2 * statistics().t.sf(abs(mean) / scale, count - 1))
    return Comparison(
        metric=metric.name,
        test="corrected t",
        first=float(np.mean(first)),
        second=float(np.mean(second)),
        difference=mean,
        low=mean - half_width,
        high=mean + half_width,
        p_value=p_value,
    )


def _check_same_rows(first: Predictions, second: Predictions) -> None:
    same = first.count == second.count and first.problem == second.problem
    if same and first.truth is not None and second.truth is not None:
        same = bool(np.array_equal(first.truth, second.truth))
    if not same:
        raise InputError.one(
            "compare", "the models predicted different rows", "predict the same split with both"
        )
