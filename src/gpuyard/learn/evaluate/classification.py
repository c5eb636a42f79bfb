"""Metrics of classes. Each takes weights [b, n] and gives [b] values, so a thousand resamples are one call."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = [
    "CALIBRATION_BINS", "accuracy", "balanced_accuracy", "brier", "calibration_bins", "confusion", "ece", "f1",
    "f1_macro", "f1_micro", "log_loss", "mcc", "pr_auc", "precision", "recall", "roc_auc",
]  # fmt: skip

CALIBRATION_BINS = 15  # Guo et al. 2017, "On Calibration of Modern Neural Networks"


def _truth(given: Predictions) -> npt.NDArray[np.intp]:
    """The true class of each row."""
    assert given.truth is not None
    return given.truth.astype(np.intp)


def _mean(values: Array, weights: Array) -> Array:
    """The weighted mean over rows, for every row of weights."""
    return np.asarray(weights @ values / weights.sum(axis=1))


def _ratio(above: Array, below: Array) -> Array:
    """The quotient, nothing where there is nothing below."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def confusion(given: Predictions, weights: Array) -> Array:
    """Weight of every true class (rows) and predicted class (columns): [b, c, c]."""
    classes = given.outputs.shape[1]
    codes = _truth(given) * classes + given.labels
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    table = np.zeros((len(weights), classes * classes))
    table[:, present] = np.add.reduceat(weights[:, order], starts, axis=1)
    return table.reshape(-1, classes, classes)


def accuracy(given: Predictions, weights: Array) -> Array:
    """Share of rows whose likeliest class is the true one."""
    return _mean((given.labels == _truth(given)).astype(np.float64), weights)


def balanced_accuracy(given: Predictions, weights: Array) -> Array:
    """Mean recall over the classes that occur."""
    table = confusion(given, weights)
    occurs = table.sum(axis=2)
    found = _ratio(np.einsum("bii->bi", table), occurs)
    return np.asarray(found.sum(axis=1) / (occurs > 0).sum(axis=1))


def _per_class(given: Predictions, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Precision, recall, F1 of every class, and whether it occurs in truth or answer: each [b, c]."""
    table = confusion(given, weights)
    right, true, said = np.einsum("bii->bi", table), table.sum(axis=2), table.sum(axis=1)
    return _ratio(right, said), _ratio(right, true), _ratio(2 * right, true + said), (true + said) > 0


def _averaged(values: Array, occurs: Array) -> Array:
    """The second of two classes (the positive one), or the mean over those that occur."""
    return values[:, 1] if values.shape[1] == 2 else _over(values, occurs)


def _over(values: Array, occurs: Array) -> Array:
    """The mean over the classes that occur."""
    return np.asarray((values * occurs).sum(axis=1) / occurs.sum(axis=1))


def precision(given: Predictions, weights: Array) -> Array:
    """Of the rows called positive, those that are; more than two classes: the mean over them."""
    values, _, _, occurs = _per_class(given, weights)
    return _averaged(values, occurs)


def recall(given: Predictions, weights: Array) -> Array:
    """Of the positive rows, those that were found; more than two classes: the mean over them."""
    _, values, _, occurs = _per_class(given, weights)
    return _averaged(values, occurs)


def f1(given: Predictions, weights: Array) -> Array:
    """Harmonic mean of precision and recall of the positive class; more than two: the mean over them."""
    _, _, values, occurs = _per_class(given, weights)
    return _averaged(values, occurs)


def f1_macro(given: Predictions, weights: Array) -> Array:
    """Mean of the F1 of all classes."""
    _, _, values, occurs = _per_class(given, weights)
    return _over(values, occurs)


def f1_micro(given: Predictions, weights: Array) -> Array:
    """F1 over all decisions; where each row has one class, it is the accuracy."""
    return accuracy(given, weights)


def mcc(given: Predictions, weights: Array) -> Array:
    """Matthews correlation of truth and answer (Gorodkin 2004 for several classes)."""
    table = confusion(given, weights)
    true, said, total = table.sum(axis=2), table.sum(axis=1), table.sum(axis=(1, 2))
    right = np.einsum("bii->b", table)
    both = right * total - (true * said).sum(axis=1)
    spread = (total**2 - (true**2).sum(axis=1)) * (total**2 - (said**2).sum(axis=1))
    return _ratio(both, np.sqrt(np.maximum(spread, 0.0)))


def _ranked(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> tuple[Array, Array]:
    """Weight of positives and of negatives at each distinct score, highest first: [b, g] each."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    heavy, yes = weights[:, order], positive[order]
    return (
        np.add.reduceat(heavy * yes, starts, axis=1),
        np.add.reduceat(heavy * ~yes, starts, axis=1),
    )


def _area_roc(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> Array:
    """Chance that a positive row scores above a negative one, half where they tie; NaN without either."""
    yes, no = _ranked(scores, positive, weights)
    above = np.cumsum(yes, axis=1) - 0.5 * yes
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((no * above).sum(axis=1) / (yes.sum(axis=1) * no.sum(axis=1)))


def _area_pr(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> Array:
    """Average precision: precision at every score, weighted by the recall that it adds; NaN without a positive."""
    yes, no = _ranked(scores, positive, weights)
    found = np.cumsum(yes, axis=1)
    exact = _ratio(found, found + np.cumsum(no, axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((exact * yes).sum(axis=1) / yes.sum(axis=1))


def roc_auc(given: Predictions, weights: Array) -> Array:
    """Area under the ROC curve; more than two classes: the mean of each against the rest."""
    truth, outputs = _truth(given), given.outputs.astype(np.float64)
    if outputs.shape[1] == 2:
        return _area_roc(outputs[:, 1], truth == 1, weights)
    areas = [_area_roc(outputs[:, index], truth == index, weights) for index in range(outputs.shape[1])]
    return np.asarray(np.mean(areas, axis=0))


def pr_auc(given: Predictions, weights: Array) -> Array:
    """Average precision; more than two classes: the mean of each against the rest."""
    truth, outputs = _truth(given), given.outputs.astype(np.float64)
    if outputs.shape[1] == 2:
        return _area_pr(outputs[:, 1], truth == 1, weights)
    areas = [_area_pr(outputs[:, index], truth == index, weights) for index in range(outputs.shape[1])]
    return np.asarray(np.mean(areas, axis=0))


def log_loss(given: Predictions, weights: Array) -> Array:
    """Mean negative logarithm of the true class's probability."""
    least = np.finfo(given.outputs.dtype).eps if given.outputs.dtype.kind == "f" else np.finfo(np.float64).eps
    own = np.clip(given.outputs[np.arange(given.count), _truth(given)], least, 1.0 - least)
    return _mean(-np.log(own.astype(np.float64)), weights)


def brier(given: Predictions, weights: Array) -> Array:
    """Mean squared distance of the probabilities from the truth; of two classes, that of the positive one."""
    outputs, truth = given.outputs.astype(np.float64), _truth(given)
    if outputs.shape[1] == 2:
        return _mean((outputs[:, 1] - (truth == 1)) ** 2, weights)
    wanted = truth[:, None] == np.arange(outputs.shape[1])
    return _mean(((outputs - wanted) ** 2).sum(axis=1), weights)


def calibration_bins(given: Predictions, bins: int = CALIBRATION_BINS) -> npt.NDArray[np.intp]:
    """The bin of each row, by the probability of its likeliest class; bins are of equal width, closed above."""
    high = np.ceil(given.outputs.max(axis=1).astype(np.float64) * bins) - 1
    return np.asarray(np.clip(high, 0, bins - 1), dtype=np.intp)


def ece(given: Predictions, weights: Array) -> Array:
    """Expected calibration error: mean distance between confidence and accuracy over 15 bins of confidence."""
    sure, right = given.outputs.max(axis=1).astype(np.float64), given.labels == _truth(given)
    bins = calibration_bins(given)
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(bins[order]) > 0)))
    gap = np.add.reduceat(weights[:, order] * (sure - right)[order], starts, axis=1)
    return np.asarray(np.abs(gap).sum(axis=1) / weights.sum(axis=1))
