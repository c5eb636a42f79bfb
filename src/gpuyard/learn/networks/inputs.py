"""Network inputs from tables: finite features, and labels as class indices or standardised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import ImageData, LearningData, TabularData, TokenData


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputHead:
    """The output layer: one logit per class, or a standardised value."""

    outputs: int
    mean: float = 0.0
    scale: float = 1.0

    def of(self, table: TabularData) -> Array:
        """Return the labels as the loss takes them."""
        assert table.y is not None
        if table.problem == "classification":
            return table.y.astype(np.int32)
        return ((table.y.astype(np.float64) - self.mean) / self.scale).astype(np.float32)

    def folded(self, weights: Weights) -> Weights:
        """Fold mean and scale into the last layer, so that it outputs the value itself."""
        last = len(weights) // 2 - 1
        weight, bias = f"layers.{last}.weight", f"layers.{last}.bias"
        scaled = {
            weight: (weights[weight].astype(np.float64) * self.scale).astype(np.float32),
            bias: (weights[bias].astype(np.float64) * self.scale + self.mean).astype(np.float32),
        }
        return weights | scaled


def table_of(data: LearningData, where: str) -> TabularData:
    """Return the data as a table with labels and no gaps; raise InputError if it is not one."""
    if not isinstance(data, TabularData):
        raise InputError.one(
            where, f"requires a table, but the data is {_kind(data)}", "use a trainer of that data"
        )
    if data.y is None:
        raise InputError.one(
            where, "the data has no label", "set the label column under data: label"
        )
    if data.problem == "ranking":
        raise InputError.one(where, "does not support ranking", "use trees with ranking: true")
    if not np.isfinite(data.x).all():
        column = data.names[int(np.flatnonzero(~np.isfinite(data.x).all(axis=0))[0])]
        raise InputError.one(
            where,
            f'column "{column}" has missing or infinite values',
            "add impute to data: steps, or use trees",
        )
    return data


def _kind(data: LearningData) -> str:
    if isinstance(data, TabularData):
        return "a table"
    return "tokens" if isinstance(data, TokenData) else "images"


def tokens_of(data: LearningData, where: str, *, pairs: bool = False) -> TokenData:
    """Return the data as tokens, or as pairs of replies; raise InputError if it is not."""
    if not isinstance(data, TokenData):
        raise InputError.one(
            where, f"requires tokens, but the data is {_kind(data)}", "use a trainer of that data"
        )
    if len(data) == 0:
        raise InputError.one(where, "the data has no sequences", "provide more text")
    if data.pairs and not pairs:
        raise InputError.one(
            where, "the data has pairs of replies", "use lora or transformers with dpo: {}"
        )
    if pairs and not data.pairs:
        raise InputError.one(
            f"{where}: dpo", "the data has no pairs of replies", "add preferences to data: steps"
        )
    if data.sequence_tokens < 2:
        raise InputError.one(
            where, "the sequences have fewer than two tokens", "pack longer sequences"
        )
    return data


def mean_label_loss(nats: Array, tokens: TokenData) -> float:
    """Return the mean nats per label of all sequences, [n, s - 1]."""
    learned = tokens.learned(np.arange(len(tokens)))
    return float(nats.mean() if learned is None else nats[learned].mean())


def images_of(data: LearningData, where: str) -> ImageData:
    """Return the data as images; raise InputError if it is not."""
    if not isinstance(data, ImageData):
        raise InputError.one(
            where, f"requires images, but the data is {_kind(data)}", "use a trainer of that data"
        )
    return data


def target_of(table: TabularData) -> OutputHead:
    """Return the output head for a table's labels."""
    assert table.y is not None
    if table.problem == "classification":
        return OutputHead(outputs=len(table.classes))
    deviation = float(np.std(table.y, dtype=np.float64))
    return OutputHead(
        outputs=1, mean=float(np.mean(table.y, dtype=np.float64)), scale=deviation or 1.0
    )


def predicted(outputs: npt.NDArray[np.float32], table: TabularData, head: OutputHead) -> Array:
    """Convert outputs of the last layer to probabilities [n, c] or values [n]."""
    if table.problem == "classification":
        shifted = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        shares: Array = shifted / shifted.sum(axis=1, keepdims=True)
        return shares
    return outputs[:, 0] * np.float32(head.scale) + np.float32(head.mean)
