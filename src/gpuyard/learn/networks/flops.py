"""Model FLOPs per optimizer step, forward and backward."""

from __future__ import annotations

import itertools

from gpuyard.catalog.models import Transformer
from gpuyard.perf.from_catalog import architecture
from gpuyard.perf.operators import model_flop_per_token


def mlp_flop(widths: tuple[int, ...], rows: int) -> float:
    """Return the GEMM FLOPs of a perceptron for `rows` rows."""
    gemms = [2.0 * inputs * outputs for inputs, outputs in itertools.pairwise(widths)]
    return (
        rows
        * (
            sum(gemms)  # forward
            + sum(gemms)  # gradients of the weights
            + sum(gemms[1:])  # gradients of the inputs; the data needs none
        )
    )


def transformer_flop(
    shape: Transformer, sequences: int, sequence_tokens: int, *, adapters: bool = False
) -> float:
    """Return the FLOPs of a transformer per batch; with `adapters`, weights get no gradients."""
    inputs = sequence_tokens - 1  # the last token is only a label
    return sequences * inputs * model_flop_per_token(architecture(shape, inputs, adapters))
