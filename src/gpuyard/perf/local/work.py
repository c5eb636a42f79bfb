"""What one optimiser step computes and moves: matrix products by their shapes, activations and weights in bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Transformer

__all__ = ["Product", "Work", "mlp_work", "transformer_work", "trees_work"]

FLOAT_BYTES = 4
BINS, BIN_BYTES = 255, 16  # of a feature's histogram in LightGBM: sums of gradients and of their squares, doubles
ADAM_PASSES = 7  # weights, gradient and two moments are read; weights and two moments are written (arXiv 1711.05101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Matrix products of one shape: [m, k] by [k, n], `count` times in a step."""

    m: int
    k: int
    n: int
    count: float = 1.0

    @property
    def flop(self) -> float:
        """Operations of all of them."""
        return 2.0 * self.m * self.k * self.n * self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One optimiser step."""

    products: tuple[Product, ...]
    activation_bytes: float  # written forward, read and written backward
    optimizer_bytes: float
    layers: int  # kernels are started layer by layer

    @property
    def flop(self) -> float:
        """Operations of its matrix products."""
        return sum(product.flop for product in self.products)


def _linear(rows: int, inputs: int, outputs: int, count: float, *, first: bool = False) -> Iterator[Product]:
    """A linear layer forward, the gradient of its weights, and, but for the first, of its input."""
    yield Product(m=rows, k=inputs, n=outputs, count=count)
    yield Product(m=inputs, k=rows, n=outputs, count=count)
    if not first:
        yield Product(m=rows, k=outputs, n=inputs, count=count)


def mlp_work(widths: tuple[int, ...], rows: int) -> Work:
    """A perceptron on a batch of rows."""
    pairs = list(itertools.pairwise(widths))
    products = [
        product
        for number, (inputs, outputs) in enumerate(pairs)
        for product in _linear(rows, inputs, outputs, 1.0, first=number == 0)
    ]
    weights = sum(inputs * outputs + outputs for inputs, outputs in pairs)
    return Work(
        products=tuple(products),
        activation_bytes=3.0 * FLOAT_BYTES * rows * sum(widths),
        optimizer_bytes=float(ADAM_PASSES * FLOAT_BYTES * weights),
        layers=len(pairs),
    )


def transformer_work(shape: Transformer, sequences: int, sequence_tokens: int) -> Work:
    """A decoder-only transformer on a batch of sequences; the last token of each is only an answer."""
    tokens = sequence_tokens - 1
    rows, width = sequences * tokens, shape.head_width
    queries, keys = shape.heads * width, shape.key_value_heads * width
    layers = float(shape.layers)
    products = [
        *_linear(rows, shape.hidden, queries, layers),
        *_linear(rows, shape.hidden, keys, 2 * layers),  # keys and values
        *_linear(rows, queries, shape.hidden, layers),
        *_linear(rows, shape.hidden, shape.ffn, 2 * layers),  # gate and up
        *_linear(rows, shape.ffn, shape.hidden, layers),
        *_linear(rows, shape.hidden, shape.vocab, 1.0),  # logits
        *_attention(tokens, width, layers * sequences * shape.heads),
    ]
    per_layer = rows * (8 * shape.hidden + 4 * shape.ffn + 3 * (queries + 2 * keys))  # norms, projections, gate
    scores = 3 * sequences * shape.heads * tokens * tokens  # scores, their softmax, and its gradient
    return Work(
        products=tuple(products),
        activation_bytes=3.0 * FLOAT_BYTES * (layers * (per_layer + scores) + 3 * rows * shape.vocab),
        optimizer_bytes=float(ADAM_PASSES * FLOAT_BYTES * shape.parameters()),
        layers=shape.layers,
    )


def _attention(tokens: int, width: int, count: float) -> Iterator[Product]:
    """Scores and values of one head, forward, and the four products of their gradients."""
    yield Product(m=tokens, k=width, n=tokens, count=3 * count)
    yield Product(m=tokens, k=tokens, n=width, count=3 * count)


def trees_work(rows: int, features: int, leaves: int, outputs: int = 1) -> Work:
    """One round of boosted trees: binned features, a byte each, are read at every level into histograms of leaves."""
    levels = max(1.0, math.log2(leaves))
    return Work(
        products=(),
        activation_bytes=float(outputs * rows * features * levels),
        optimizer_bytes=float(outputs * leaves * features * BINS * BIN_BYTES),  # a histogram of each leaf is searched
        layers=outputs * leaves,  # splits, one after another
    )
