"""Language-model metrics from nats per token; weights are per sequence: [b, n]."""

from __future__ import annotations

import math

import numpy as np

from gpuyard.learn.evaluate.predictions import AnyArray, Array, Predictions


def perplexity(predictions: Predictions, weights: Array) -> Array:
    """Exponential of the mean nats per token."""
    nats = _counted(predictions, predictions.outputs)
    return np.asarray(np.exp(weights @ nats / (weights @ _counts(predictions))))


def bits_per_byte(predictions: Predictions, weights: Array) -> Array:
    """Bits per byte of text, comparable between tokenizers."""
    assert predictions.text_bytes is not None
    nats = _counted(predictions, predictions.outputs)
    return np.asarray(weights @ nats / math.log(2.0) / (weights @ predictions.text_bytes))


def token_accuracy(predictions: Predictions, weights: Array) -> Array:
    """Share of tokens that were the model's top prediction."""
    assert predictions.hits is not None
    hits = _counted(predictions, predictions.hits)
    return np.asarray(weights @ hits / (weights @ _counts(predictions)))


def _counts(predictions: Predictions) -> Array:
    """Return the number of tokens of every row that count."""
    if predictions.learned is None:
        return np.full(predictions.count, predictions.outputs.shape[1], dtype=np.float64)
    return np.asarray(predictions.learned.sum(axis=1), dtype=np.float64)


def _counted(predictions: Predictions, values: AnyArray) -> Array:
    """Return the sum per row over the tokens that count."""
    floats: Array = values.astype(np.float64)
    if predictions.learned is not None:
        floats = np.where(predictions.learned, floats, 0.0)
    return np.asarray(floats.sum(axis=1))
