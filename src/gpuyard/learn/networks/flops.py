"""Model operations of one optimiser step: what the mathematics needs, forward and backward."""

from __future__ import annotations

import itertools

from gpuyard.catalog import Transformer
from gpuyard.perf import architecture, model_flop_per_token

__all__ = ["mlp_flop", "transformer_flop"]


def mlp_flop(widths: tuple[int, ...], rows: int) -> float:
    """A perceptron's matrix products for `rows` rows."""
    products = [2.0 * inputs * outputs for inputs, outputs in itertools.pairwise(widths)]
    return (
        rows
        * (
            sum(products)  # forward
            + sum(products)  # gradients of the weights
            + sum(products[1:])  # gradients of the inputs; the data needs none
        )
    )


def transformer_flop(shape: Transformer, sequences: int, sequence_tokens: int, *, adapters: bool = False) -> float:
    """A transformer's operations for a batch; with `adapters` the weights get no gradients."""
    inputs = sequence_tokens - 1  # the last token is only an answer
    return sequences * inputs * model_flop_per_token(architecture(shape, inputs, adapters))
