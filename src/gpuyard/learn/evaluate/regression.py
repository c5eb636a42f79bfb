"""Regression metrics; each takes weights [b, n] and returns [b] values."""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuyard.learn.evaluate.predictions import Array, Predictions


def _truth(predictions: Predictions) -> Array:
    assert predictions.truth is not None
    return predictions.truth.astype(np.float64)


def _errors(predictions: Predictions) -> Array:
    return np.asarray(_truth(predictions) - predictions.outputs.astype(np.float64))


def _mean(values: Array, weights: Array) -> Array:
    return np.asarray(weights @ values / weights.sum(axis=1))


def mae(predictions: Predictions, weights: Array) -> Array:
    """Mean absolute error."""
    return _mean(np.abs(_errors(predictions)), weights)


def rmse(predictions: Predictions, weights: Array) -> Array:
    """Root mean squared error."""
    return np.asarray(np.sqrt(_mean(_errors(predictions) ** 2, weights)))


def mape(predictions: Predictions, weights: Array) -> Array:
    """Mean absolute percentage error; a true value of 0 counts as the machine epsilon."""
    truth = np.maximum(np.abs(_truth(predictions)), np.finfo(np.float64).eps)
    return _mean(np.abs(_errors(predictions)) / truth, weights)


def r2(predictions: Predictions, weights: Array) -> Array:
    """Coefficient of determination; NaN if the labels are constant."""
    truth = _truth(predictions)
    unexplained = weights @ _errors(predictions) ** 2
    centre = _mean(truth, weights)
    spread = (weights * (truth[None, :] - centre[:, None]) ** 2).sum(axis=1)
    flat = spread <= 1e-12 * weights.sum(axis=1) * np.maximum(1.0, centre**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(flat, np.nan, 1.0 - unexplained / spread)


def pinball(quantile: float) -> functools.partial[Array]:
    """Return the pinball loss of a quantile."""
    assert math.isfinite(quantile)
    return functools.partial(_pinball, quantile)


def _pinball(quantile: float, predictions: Predictions, weights: Array) -> Array:
    errors = _errors(predictions)
    return _mean(np.maximum(quantile * errors, (quantile - 1.0) * errors), weights)
