"""Classification metrics; each takes weights [b, n] and returns [b] values.

With one row of weights per bootstrap sample, a thousand resamples are one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuyard.learn.evaluate.predictions import Array, Predictions

CALIBRATION_BINS = 15  # Guo et al. 2017, "On Calibration of Modern Neural Networks"
Area: TypeAlias = Callable[[Array, npt.NDArray[np.bool_], Array], Array]


def _truth(predictions: Predictions) -> npt.NDArray[np.intp]:
    assert predictions.truth is not None
    return predictions.truth.astype(np.intp)


def _mean(values: Array, weights: Array) -> Array:
    return np.asarray(weights @ values / weights.sum(axis=1))


def _ratio(numerator: Array, denominator: Array) -> Array:
    # 0 where the denominator is 0.
    zero = np.zeros_like(numerator)
    return np.divide(numerator, denominator, out=zero, where=denominator != 0)


def confusion(predictions: Predictions, weights: Array) -> Array:
    """Confusion matrix: weight per true class (rows) and predicted class (columns), [b, c, c]."""
    classes = predictions.outputs.shape[1]
    codes = _truth(predictions) * classes + predictions.labels
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    table = np.zeros((len(weights), classes * classes))
    table[:, present] = np.add.reduceat(weights[:, order], starts, axis=1)
    return table.reshape(-1, classes, classes)


def accuracy(predictions: Predictions, weights: Array) -> Array:
    """Share of rows whose most likely class is the true one."""
    return _mean((predictions.labels == _truth(predictions)).astype(np.float64), weights)


def balanced_accuracy(predictions: Predictions, weights: Array) -> Array:
    """Mean recall over the classes that occur."""
    table = confusion(predictions, weights)
    occurs = table.sum(axis=2)
    recalls = _ratio(np.einsum("bii->bi", table), occurs)
    return np.asarray(recalls.sum(axis=1) / (occurs > 0).sum(axis=1))


def _per_class(predictions: Predictions, weights: Array) -> tuple[Array, Array, Array, Array]:
    # Precision, recall, F1, and whether the class occurs in truth or predictions: each [b, c].
    table = confusion(predictions, weights)
    correct = np.einsum("bii->bi", table)
    true = table.sum(axis=2)
    predicted = table.sum(axis=1)
    return (
        _ratio(correct, predicted),
        _ratio(correct, true),
        _ratio(2 * correct, true + predicted),
        (true + predicted) > 0,
    )


def _averaged(values: Array, occurs: Array) -> Array:
    # Two classes: the second, positive one. More: the mean over those that occur.
    return values[:, 1] if values.shape[1] == 2 else _macro(values, occurs)


def _macro(values: Array, occurs: Array) -> Array:
    return np.asarray((values * occurs).sum(axis=1) / occurs.sum(axis=1))


def precision(predictions: Predictions, weights: Array) -> Array:
    """Precision of the positive class; with more than two classes, the mean over them."""
    values, _, _, occurs = _per_class(predictions, weights)
    return _averaged(values, occurs)


def recall(predictions: Predictions, weights: Array) -> Array:
    """Recall of the positive class; with more than two classes, the mean over them."""
    _, values, _, occurs = _per_class(predictions, weights)
    return _averaged(values, occurs)


def f1(predictions: Predictions, weights: Array) -> Array:
    """F1 of the positive class; with more than two classes, the mean over them."""
    _, _, values, occurs = _per_class(predictions, weights)
    return _averaged(values, occurs)


def f1_macro(predictions: Predictions, weights: Array) -> Array:
    """Mean of the F1 of all classes."""
    _, _, values, occurs = _per_class(predictions, weights)
    return _macro(values, occurs)


def f1_micro(predictions: Predictions, weights: Array) -> Array:
    """F1 over all decisions; equal to the accuracy when each row has one class."""
    return accuracy(predictions, weights)


def mcc(predictions: Predictions, weights: Array) -> Array:
    """Matthews correlation coefficient (Gorodkin 2004 for more than two classes)."""
    table = confusion(predictions, weights)
    true = table.sum(axis=2)
    predicted = table.sum(axis=1)
    total = table.sum(axis=(1, 2))
    correct = np.einsum("bii->b", table)
    covariance = correct * total - (true * predicted).sum(axis=1)
    variance = (total**2 - (true**2).sum(axis=1)) * (total**2 - (predicted**2).sum(axis=1))
    return _ratio(covariance, np.sqrt(np.maximum(variance, 0.0)))


def _ranked(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> tuple[Array, Array]:
    # Weight of positives and of negatives at each distinct score, highest first: [b, g] each.
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    sorted_weights = weights[:, order]
    is_positive = positive[order]
    return (
        np.add.reduceat(sorted_weights * is_positive, starts, axis=1),
        np.add.reduceat(sorted_weights * ~is_positive, starts, axis=1),
    )


def _area_roc(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> Array:
    # Probability that a positive scores above a negative; ties count half. NaN without both.
    positives, negatives = _ranked(scores, positive, weights)
    above = np.cumsum(positives, axis=1) - 0.5 * positives
    pairs = positives.sum(axis=1) * negatives.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((negatives * above).sum(axis=1) / pairs)


def _area_pr(scores: Array, positive: npt.NDArray[np.bool_], weights: Array) -> Array:
    # Average precision: precision at each score, weighted by the recall it adds.
    positives, negatives = _ranked(scores, positive, weights)
    true_positives = np.cumsum(positives, axis=1)
    precisions = _ratio(true_positives, true_positives + np.cumsum(negatives, axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((precisions * positives).sum(axis=1) / positives.sum(axis=1))


def _one_vs_rest(area: Area, predictions: Predictions, weights: Array) -> Array:
    truth = _truth(predictions)
    outputs = predictions.outputs.astype(np.float64)
    if outputs.shape[1] == 2:
        return area(outputs[:, 1], truth == 1, weights)
    areas = [area(outputs[:, index], truth == index, weights) for index in range(outputs.shape[1])]
    return np.asarray(np.mean(areas, axis=0))


def roc_auc(predictions: Predictions, weights: Array) -> Array:
    """Area under the ROC curve; with more than two classes, the one-vs-rest mean."""
    return _one_vs_rest(_area_roc, predictions, weights)


def pr_auc(predictions: Predictions, weights: Array) -> Array:
    """Average precision; with more than two classes, the one-vs-rest mean."""
    return _one_vs_rest(_area_pr, predictions, weights)


def log_loss(predictions: Predictions, weights: Array) -> Array:
    """Mean negative log probability of the true class."""
    outputs = predictions.outputs
    epsilon = np.finfo(outputs.dtype if outputs.dtype.kind == "f" else np.float64).eps
    true_class = outputs[np.arange(predictions.count), _truth(predictions)]
    clipped = np.clip(true_class, epsilon, 1.0 - epsilon)
    return _mean(-np.log(clipped.astype(np.float64)), weights)


def brier(predictions: Predictions, weights: Array) -> Array:
    """Brier score: mean squared error of the probabilities (two classes: of the positive one)."""
    outputs, truth = predictions.outputs.astype(np.float64), _truth(predictions)
    if outputs.shape[1] == 2:
        return _mean((outputs[:, 1] - (truth == 1)) ** 2, weights)
    one_hot = truth[:, None] == np.arange(outputs.shape[1])
    return _mean(((outputs - one_hot) ** 2).sum(axis=1), weights)


def calibration_bins(
    predictions: Predictions, bins: int = CALIBRATION_BINS
) -> npt.NDArray[np.intp]:
    """Return the bin of each row by top probability; bins have equal width, closed above."""
    index = np.ceil(predictions.outputs.max(axis=1).astype(np.float64) * bins) - 1
    return np.asarray(np.clip(index, 0, bins - 1), dtype=np.intp)


def ece(predictions: Predictions, weights: Array) -> Array:
    """Expected calibration error: mean gap between confidence and accuracy over 15 bins."""
    confidence = predictions.outputs.max(axis=1).astype(np.float64)
    correct = predictions.labels == _truth(predictions)
    bins = calibration_bins(predictions)
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.concatenate(([True], np.diff(bins[order]) > 0)))
    gap = np.add.reduceat(weights[:, order] * (confidence - correct)[order], starts, axis=1)
    return np.asarray(np.abs(gap).sum(axis=1) / weights.sum(axis=1))
