"""Language-model metrics from nats per token; weights are per sequence: [b, n]."""

from __future__ import annotations

import math

import numpy as np

from gpuyard.learn.evaluate.predictions import Array, Predictions


def perplexity(predictions: Predictions, weights: Array) -> Array:
    """Exponential of the mean nats per token."""
    nats = predictions.outputs.astype(np.float64).mean(axis=1)
    return np.asarray(np.exp(weights @ nats / weights.sum(axis=1)))


def bits_per_byte(predictions: Predictions, weights: Array) -> Array:
    """Bits per byte of text, comparable between tokenizers."""
    assert predictions.text_bytes is not None
    nats = predictions.outputs.astype(np.float64).sum(axis=1)
    return np.asarray(weights @ nats / math.log(2.0) / (weights @ predictions.text_bytes))


def token_accuracy(predictions: Predictions, weights: Array) -> Array:
    """Share of tokens that were the model's top prediction."""
    assert predictions.hits is not None
    return np.asarray(weights @ predictions.hits.mean(axis=1) / weights.sum(axis=1))
