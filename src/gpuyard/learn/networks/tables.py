"""Tables as networks take them: every number finite, answers as class numbers or in units of their spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.trainer import Table, Tokens

__all__ = ["Target", "predicted", "table_of", "target_of", "tokens_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the last layer gives: a number for each class, or a value less its mean over its spread."""

    outputs: int
    mean: float = 0.0
    scale: float = 1.0

    def of(self, table: Table) -> Array:
        """The answers as the loss takes them."""
        assert table.y is not None
        if table.problem == "classification":
            return table.y.astype(np.int32)
        return ((table.y.astype(np.float64) - self.mean) / self.scale).astype(np.float32)

    def folded(self, weights: Weights) -> Weights:
        """The weights with mean and spread folded into the last layer, so that it gives the value itself."""
        last = len(weights) // 2 - 1
        weight, bias = f"layers.{last}.weight", f"layers.{last}.bias"
        scaled = {
            weight: (weights[weight].astype(np.float64) * self.scale).astype(np.float32),
            bias: (weights[bias].astype(np.float64) * self.scale + self.mean).astype(np.float32),
        }
        return weights | scaled


def table_of(data: Table | Tokens, where: str) -> Table:
    """The data as a table with answers and no gaps; InputError when it is not one."""
    if not isinstance(data, Table):
        raise InputError.one(where, "learns from a table, and the data are tokens", "use a transformer or lora")
    if data.y is None:
        raise InputError.one(where, "the data have no label", "name the label column under data: label")
    if data.problem == "ranking":
        raise InputError.one(where, "does not learn rankings", "use trees with ranking: true")
    if not np.isfinite(data.x).all():
        column = data.names[int(np.flatnonzero(~np.isfinite(data.x).all(axis=0))[0])]
        raise InputError.one(
            where, f'column "{column}" has gaps or infinite numbers', "add impute to data: steps, or use trees"
        )
    return data


def tokens_of(data: Table | Tokens, where: str) -> Tokens:
    """The data as tokens; InputError when they are not."""
    if not isinstance(data, Tokens):
        raise InputError.one(where, "learns from tokens, and the data are a table", "use trees or a perceptron")
    if len(data) == 0:
        raise InputError.one(where, "the data have no sequence", "give more text")
    if data.sequence_tokens < 2:
        raise InputError.one(where, "the sequences have fewer than two tokens", "pack longer sequences")
    return data


def target_of(table: Table) -> Target:
    """The target of a table."""
    assert table.y is not None
    if table.problem == "classification":
        return Target(outputs=len(table.classes))
    spread = float(np.std(table.y, dtype=np.float64))
    return Target(outputs=1, mean=float(np.mean(table.y, dtype=np.float64)), scale=spread or 1.0)


def predicted(out: npt.NDArray[np.float32], table: Table, target: Target) -> Array:
    """The last layer's numbers as probabilities [n, c] or values [n]."""
    if table.problem == "classification":
        shifted = np.exp(out - out.max(axis=1, keepdims=True))
        shares: Array = shifted / shifted.sum(axis=1, keepdims=True)
        return shares
    return out[:, 0] * np.float32(target.scale) + np.float32(target.mean)
