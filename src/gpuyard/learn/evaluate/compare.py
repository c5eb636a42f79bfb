"""Is one model better than another? Tests of significance on the same rows or the same folds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.evaluate.intervals import resampled, statistics, student_half_width, units_of
from gpuyard.learn.evaluate.measures import Measure
from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = ["Comparison", "Test", "compare", "corrected_t", "delong", "mcnemar", "paired_bootstrap"]

Test: TypeAlias = Literal["mcnemar", "delong", "paired bootstrap", "corrected t"]
EXACT_BELOW = 25  # discordant rows: below, the binomial distribution; above, its normal limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Second less first, with its interval and the chance of a difference as large if there were none."""

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
        """True where the chance is below one in twenty."""
        return self.p_value < 0.05


def compare(
    measure: Measure, first: Predictions, second: Predictions, *, resamples: int = 2000, confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:  # fmt: skip
    """The sharpest test that fits: DeLong for the ROC of two classes, McNemar for accuracy, else paired bootstrap."""
    _same_rows(first, second)
    two = first.problem == "classification" and first.outputs.shape[1] == 2 and first.groups is None
    if measure.name == "roc_auc" and two:
        return delong(first, second, confidence)
    found = paired_bootstrap(measure, first, second, resamples=resamples, confidence=confidence, seed=seed)
    if measure.name in ("accuracy", "f1_micro") and first.groups is None:
        p_value = mcnemar(first, second)
        return Comparison(
            metric=found.metric, test="mcnemar", first=found.first, second=found.second, difference=found.difference,
            low=found.low, high=found.high, p_value=p_value,
        )  # fmt: skip
    return found


def paired_bootstrap(
    measure: Measure, first: Predictions, second: Predictions, *, resamples: int = 2000, confidence: float = 0.95,
    seed: int = 0,
) -> Comparison:  # fmt: skip
    """Both models on the same resamples; the p-value is twice the share on the far side of nothing."""
    _same_rows(first, second)
    units = units_of(first)
    ones = np.ones((1, units.count if units.of_row is None else len(units.of_row)))
    one, other = float(measure.compute(first, ones)[0]), float(measure.compute(second, ones)[0])
    drawn = np.concatenate(
        [measure.compute(second, w) - measure.compute(first, w) for w in resampled(units, resamples, seed)]
    )
    drawn = drawn[np.isfinite(drawn)]
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    below, above = float((drawn <= 0).mean()), float((drawn >= 0).mean())
    p_value = min(1.0, 2.0 * max(min(below, above), 1.0 / (len(drawn) + 1)))  # never nothing: resamples are few
    return Comparison(
        metric=measure.name, test="paired bootstrap", first=one, second=other, difference=other - one,
        low=float(low), high=float(high), p_value=p_value,
    )  # fmt: skip


def mcnemar(first: Predictions, second: Predictions) -> float:
    """The p-value of the rows that only one of them gets right (McNemar 1947)."""
    assert first.truth is not None
    right_one, right_other = first.labels == first.truth, second.labels == first.truth
    only_one, only_other = int((right_one & ~right_other).sum()), int((right_other & ~right_one).sum())
    discordant = only_one + only_other
    if discordant == 0:
        return 1.0
    if discordant < EXACT_BELOW:
        return float(statistics().binomtest(only_one, discordant, 0.5).pvalue)
    distance = (abs(only_one - only_other) - 1.0) ** 2 / discordant  # with Edwards' correction
    return float(statistics().chi2.sf(distance, 1))


def delong(first: Predictions, second: Predictions, confidence: float = 0.95) -> Comparison:
    """The areas under two ROC curves of the same rows (DeLong 1988, by ranks as in Sun and Xu 2014)."""
    _same_rows(first, second)
    assert first.truth is not None
    positive = first.truth.astype(np.intp) == 1
    if positive.all() or not positive.any():
        raise InputError.one("compare", "only one class occurs", "compare on rows of both classes")
    areas, of_positive, of_negative = [], [], []
    for given in (first, second):
        area, yes, no = _placements(given.outputs[:, 1].astype(np.float64), positive)
        areas.append(area)
        of_positive.append(yes)
        of_negative.append(no)
    spread = _covariance(of_positive) + _covariance(of_negative)
    variance = float(spread[0, 0] + spread[1, 1] - 2 * spread[0, 1])
    difference = areas[1] - areas[0]
    half = float(statistics().norm.ppf((1 + confidence) / 2)) * math.sqrt(max(variance, 0.0))
    if variance <= 0:
        p_value = 1.0 if difference == 0 else 0.0
    else:
        p_value = float(2 * statistics().norm.sf(abs(difference) / math.sqrt(variance)))
    return Comparison(
        metric="roc_auc", test="delong", first=areas[0], second=areas[1], difference=difference,
        low=difference - half, high=difference + half, p_value=p_value,
    )  # fmt: skip


def _placements(scores: Array, positive: npt.NDArray[np.bool_]) -> tuple[float, Array, Array]:
    """The area, and each row's share of the other class that it beats."""
    rank = statistics().rankdata
    every, yes, no = rank(scores), rank(scores[positive]), rank(scores[~positive])
    positives, negatives = len(yes), len(no)
    beaten = (every[positive] - yes) / negatives
    missed = 1.0 - (every[~positive] - no) / positives
    return float(beaten.mean()), np.asarray(beaten), np.asarray(missed)


def _covariance(parts: Sequence[Array]) -> Array:
    """Covariance of the mean placements of two models."""
    count = len(parts[0])
    return np.asarray(np.cov(np.vstack(parts)) / count) if count > 1 else np.zeros((2, 2))


def corrected_t(
    measure: Measure, first: Sequence[float], second: Sequence[float], test_over_train: float, confidence: float = 0.95
) -> Comparison:
    """The scores of the same folds, with the variance corrected for shared training rows (Nadeau and Bengio 2003)."""
    if len(first) != len(second) or len(first) < 2:
        raise InputError.one("compare", "the folds differ", "compare models on the same two or more folds")
    differences = np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    mean, count = float(differences.mean()), len(differences)
    scale = math.sqrt((1.0 / count + test_over_train) * float(differences.var(ddof=1)))
    half = student_half_width(list(differences), test_over_train, confidence)
    p_value = 1.0 if mean == 0 else 0.0
    if scale > 0:
        p_value = float(2 * statistics().t.sf(abs(mean) / scale, count - 1))
    return Comparison(
        metric=measure.name, test="corrected t", first=float(np.mean(first)), second=float(np.mean(second)),
        difference=mean, low=mean - half, high=mean + half, p_value=p_value,
    )  # fmt: skip


def _same_rows(first: Predictions, second: Predictions) -> None:
    """InputError unless both answered the same questions."""
    same = first.count == second.count and first.problem == second.problem
    if same and first.truth is not None and second.truth is not None:
        same = bool(np.array_equal(first.truth, second.truth))
    if not same:
        raise InputError.one("compare", "the models answered different rows", "predict the same split with both")
