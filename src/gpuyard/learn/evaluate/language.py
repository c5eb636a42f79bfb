"""Metrics of language models, from the nats of every token. Weights are of sequences: [b, n]."""

from __future__ import annotations

import math

import numpy as np

from gpuyard.learn.evaluate.predictions import Array, Predictions

__all__ = ["bits_per_byte", "perplexity", "token_accuracy"]


def perplexity(given: Predictions, weights: Array) -> Array:
    """Exponential of the mean nats of a token."""
    nats = given.outputs.astype(np.float64).mean(axis=1)
    return np.asarray(np.exp(weights @ nats / weights.sum(axis=1)))


def bits_per_byte(given: Predictions, weights: Array) -> Array:
    """Bits that the model needs for a byte of text: comparable between tokenizers."""
    assert given.text_bytes is not None
    nats = given.outputs.astype(np.float64).sum(axis=1)
    return np.asarray(weights @ nats / math.log(2.0) / (weights @ given.text_bytes))


def token_accuracy(given: Predictions, weights: Array) -> Array:
    """Share of tokens that the model held for the likeliest."""
    assert given.hits is not None
    return np.asarray(weights @ given.hits.mean(axis=1) / weights.sum(axis=1))
