"""What one optimiser step computes and moves: layers by their shapes, activations and weights in bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpuyard.catalog import Transformer

__all__ = ["Product", "ProductKind", "Work", "mlp_work", "transformer_work", "trees_work"]

FLOAT_BYTES = 4
BINS, BIN_BYTES = 255, 16  # of a feature's histogram in LightGBM: sums of gradients and of their squares, doubles
BIN_ROWS = 3  # of the rows in a bin, at least (LightGBM's min_data_in_bin)
PACKED_RATIO = 0.7476  # of the most leaves, where cuts fall anywhere (Rényi's parking constant, 1958)
GATHER_BYTES = 12  # of a row in a leaf: its number, gradient and Hessian
ROUND_BYTES = 36  # of a row in a round: score and label are read, score, gradient and Hessian written
ADAM_PASSES = 7  # weights, gradient and two moments are read; weights and two moments are written (arXiv 1711.05101)

# A linear layer: forward, gradient of its input, gradient of its weights. The same with rows that are sequences of
# tokens, whose gradient of the weights some frameworks do in another way. Causal attention, forward and backward.
ProductKind = Literal["forward", "input", "weight", "token-weight", "attention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Products of one kind and shape, `count` times in a step.

    Of a linear layer its rows, inputs and outputs; of an attention its tokens, the width of a head, and the heads of
    all sequences.
    """

    kind: ProductKind
    rows: int
    inputs: int
    outputs: int
    count: float = 1.0

    @property
    def flop(self) -> float:
        """Operations of all of them."""
        if self.kind == "attention":  # two products of each head forward, four backward
            return 12.0 * self.rows**2 * self.inputs * self.outputs * self.count
        return 2.0 * self.rows * self.inputs * self.outputs * self.count


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


def _linear(
    rows: int, inputs: int, outputs: int, count: float = 1.0, *, first: bool = False, tokens: bool = False
) -> Iterator[Product]:
    """A linear layer forward, the gradient of its weights, and, but for the first, of its input."""
    kinds: tuple[ProductKind, ...] = ("forward", "token-weight" if tokens else "weight", "input")
    for kind in kinds[:2] if first else kinds:
        yield Product(kind=kind, rows=rows, inputs=inputs, outputs=outputs, count=count)


def mlp_work(widths: tuple[int, ...], rows: int) -> Work:
    """A perceptron on a batch of rows."""
    pairs = list(itertools.pairwise(widths))
    products = [
        product
        for number, (inputs, outputs) in enumerate(pairs)
        for product in _linear(rows, inputs, outputs, first=number == 0)
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
    linears = (
        (shape.hidden, queries, layers),
        (shape.hidden, keys, 2 * layers),  # keys and values
        (queries, shape.hidden, layers),
        (shape.hidden, shape.ffn, 2 * layers),  # gate and up
        (shape.ffn, shape.hidden, layers),
        (shape.hidden, shape.vocab, 1.0),  # logits
    )
    products = [product for layer in linears for product in _linear(rows, *layer, tokens=True)]
    heads = sequences * shape.heads
    products.append(Product(kind="attention", rows=tokens, inputs=width, outputs=heads, count=layers))
    per_layer = rows * (8 * shape.hidden + 4 * shape.ffn + 3 * (queries + 2 * keys))  # norms, projections, gate
    return Work(
        products=tuple(products),
        activation_bytes=3.0 * FLOAT_BYTES * (layers * per_layer + 3 * rows * shape.vocab),
        optimizer_bytes=float(ADAM_PASSES * FLOAT_BYTES * shape.parameters()),
        layers=shape.layers,
    )


def trees_work(rows: int, features: int, leaves: int, outputs: int = 1, min_rows: int = 20) -> Work:
    """One round of boosted trees: binned features, a byte each, are read at every level into histograms of leaves.

    Of two leaves the smaller is read and the other is the difference, so that every level reads half of the rows
    (Ke et al. 2017, LightGBM). A leaf is cut while both sides keep `min_rows`: cars that park along a kerb until no gap
    takes another.
    """
    grown = max(1, min(leaves, round(PACKED_RATIO * rows / max(1, min_rows))))
    levels = math.log2(grown)
    bins = min(BINS, max(2, rows // BIN_ROWS))
    read = rows * (1.0 + levels / 2) * (features + GATHER_BYTES)
    return Work(
        products=(),
        activation_bytes=float(outputs * (read + rows * ROUND_BYTES)),
        optimizer_bytes=float(outputs * grown * features * bins * BIN_BYTES),  # a histogram of each leaf is searched
        layers=outputs * grown,  # splits, one after another
    )
