"""Metrics of values. Each takes weights [b, n] and gives [b] values."""

from __future__ import annotations

import functools
import math

import numpy as np

from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = ["mae", "mape", "pinball", "r2", "rmse"]


def _truth(given: Predictions) -> Array:
    """The true values."""
    assert given.truth is not None
    return given.truth.astype(np.float64)


def _errors(given: Predictions) -> Array:
    """Truth less answer."""
    return np.asarray(_truth(given) - given.outputs.astype(np.float64))


def _mean(values: Array, weights: Array) -> Array:
    """The weighted mean over rows, for every row of weights."""
    return np.asarray(weights @ values / weights.sum(axis=1))


def mae(given: Predictions, weights: Array) -> Array:
    """Mean absolute error."""
    return _mean(np.abs(_errors(given)), weights)


def rmse(given: Predictions, weights: Array) -> Array:
    """Root of the mean squared error."""
    return np.asarray(np.sqrt(_mean(_errors(given) ** 2, weights)))


def mape(given: Predictions, weights: Array) -> Array:
    """Mean absolute error as a share of the true value; a true value of nothing counts as the least float."""
    truth = np.maximum(np.abs(_truth(given)), np.finfo(np.float64).eps)
    return _mean(np.abs(_errors(given)) / truth, weights)


def r2(given: Predictions, weights: Array) -> Array:
    """Share of the variance that is explained; NaN where the truth does not vary."""
    truth = _truth(given)
    unexplained = weights @ _errors(given) ** 2
    centre = _mean(truth, weights)
    spread = (weights * (truth[None, :] - centre[:, None]) ** 2).sum(axis=1)
    flat = spread <= 1e-12 * weights.sum(axis=1) * np.maximum(1.0, centre**2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(flat, np.nan, 1.0 - unexplained / spread)


def pinball(share: float) -> functools.partial[Array]:
    """The pinball loss of that quantile: misses below cost `share`, misses above the rest."""
    assert math.isfinite(share)
    return functools.partial(_pinball, share)


def _pinball(share: float, given: Predictions, weights: Array) -> Array:
    """The mean pinball loss."""
    errors = _errors(given)
    return _mean(np.maximum(share * errors, (share - 1.0) * errors), weights)
