"""GEMMs and bytes moved by one optimizer step of a local training run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.catalog.models import Transformer

FLOAT_BYTES = 4
BINS = 255  # bins per feature histogram (LightGBM's max_bin)
BIN_BYTES = 16  # sums of gradients and Hessians, doubles (LightGBM)
BIN_ROWS = 3  # minimum rows per bin (LightGBM's min_data_in_bin)
PACKED_RATIO = 0.7476  # of the maximum leaves, with random splits (Rényi's parking constant, 1958)
GATHER_BYTES = 12  # per row in a leaf: index, gradient and Hessian
ROUND_BYTES = 36  # per row in a round: read score, label; write score, gradient, Hessian
# Reads weights, gradient and two moments; writes weights and two moments (arXiv 1711.05101).
ADAM_PASSES = 7

# GEMMs of a linear layer: forward, dgrad ("input"), wgrad ("weight"; "token-weight" where rows are
# tokens of sequences, which some frameworks compute differently); causal attention, both passes.
GemmKind = Literal["forward", "input", "weight", "token-weight", "attention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGemm:
    """GEMMs of one kind and shape, `count` times per step.

    Of a linear layer: rows, inputs and outputs. Of attention: tokens, head dimension, and heads of
    all sequences.
    """

    kind: GemmKind
    rows: int
    inputs: int
    outputs: int
    count: float = 1.0

    @property
    def flop(self) -> float:
        if self.kind == "attention":  # two GEMMs per head forward, four backward
            return 12.0 * self.rows**2 * self.inputs * self.outputs * self.count
        return 2.0 * self.rows * self.inputs * self.outputs * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStepWork:
    """Work of one optimizer step."""

    gemms: tuple[StepGemm, ...]
    activation_bytes: float  # written forward, read and written backward
    optimizer_bytes: float
    layers: int  # kernels are launched layer by layer

    @property
    def flop(self) -> float:
        return sum(gemm.flop for gemm in self.gemms)


def _linear(
    rows: int,
    inputs: int,
    outputs: int,
    count: float = 1.0,
    *,
    first: bool = False,
    tokens: bool = False,
) -> Iterator[StepGemm]:
    """Yield forward, wgrad and (except for the first layer) dgrad of a linear layer."""
    kinds: tuple[GemmKind, ...] = ("forward", "token-weight" if tokens else "weight", "input")
    for kind in kinds[:2] if first else kinds:
        yield StepGemm(kind=kind, rows=rows, inputs=inputs, outputs=outputs, count=count)


def mlp_step_work(widths: tuple[int, ...], rows: int) -> LocalStepWork:
    """Return the work of a step of a multi-layer perceptron."""
    pairs = list(itertools.pairwise(widths))
    gemms = [
        gemm
        for number, (inputs, outputs) in enumerate(pairs)
        for gemm in _linear(rows, inputs, outputs, first=number == 0)
    ]
    weights = sum(inputs * outputs + outputs for inputs, outputs in pairs)
    return LocalStepWork(
        gemms=tuple(gemms),
        activation_bytes=3.0 * FLOAT_BYTES * rows * sum(widths),
        optimizer_bytes=float(ADAM_PASSES * FLOAT_BYTES * weights),
        layers=len(pairs),
    )


def transformer_step_work(
    shape: Transformer, sequences: int, sequence_tokens: int
) -> LocalStepWork:
    """Return the work of a step of a decoder-only transformer; the last token is only a label."""
    tokens = sequence_tokens - 1
    rows, width = sequences * tokens, shape.head_width
    queries, keys = shape.heads * width, shape.key_value_heads * width
    layers = float(shape.layers)
    linears = (
        (shape.hidden, queries, layers),
        (shape.hidden, keys, 2 * layers),  # keys and values
        (queries, shape.hidden, layers),
        (shape.hidden, shape.ffn, 2 * layers),  # gate and up
        (shape.ffn, shape.hidden, layers),
        (shape.hidden, shape.vocab, 1.0),  # logits
    )
    gemms = [gemm for layer in linears for gemm in _linear(rows, *layer, tokens=True)]
    heads = sequences * shape.heads
    gemms.append(StepGemm(kind="attention", rows=tokens, inputs=width, outputs=heads, count=layers))
    # Norms, FFN with gate, projections.
    per_layer = rows * (8 * shape.hidden + 4 * shape.ffn + 3 * (queries + 2 * keys))
    return LocalStepWork(
        gemms=tuple(gemms),
        activation_bytes=3.0 * FLOAT_BYTES * (layers * per_layer + 3 * rows * shape.vocab),
        optimizer_bytes=float(ADAM_PASSES * FLOAT_BYTES * shape.parameters()),
        layers=shape.layers,
    )


def trees_step_work(
    rows: int, features: int, leaves: int, outputs: int = 1, min_rows: int = 20
) -> LocalStepWork:
    """Return the work of one round of boosted trees (Ke et al. 2017, LightGBM).

    Every level reads binned features, one byte each, into histograms of leaves: of the smaller leaf
    of a pair, the other is the difference, so half of the rows. A leaf is split while both sides
    have `min_rows`; the expected number of leaves is that of random parking (Rényi).
    """
    grown = max(1, min(leaves, round(PACKED_RATIO * rows / max(1, min_rows))))
    levels = math.log2(grown)
    bins = min(BINS, max(2, rows // BIN_ROWS))
    read = rows * (1.0 + levels / 2) * (features + GATHER_BYTES)
    return LocalStepWork(
        gemms=(),
        activation_bytes=float(outputs * (read + rows * ROUND_BYTES)),
        optimizer_bytes=float(outputs * grown * features * bins * BIN_BYTES),  # search histograms
        layers=outputs * grown,  # sequential splits
    )
