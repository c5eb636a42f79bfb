"""Measurements that no chip can have made as they are described: they beat what its memory can deliver.

Nothing of the model is used but sizes and peaks. The bounds are low: all bandwidth, the smallest cache format; or the
arithmetic of the stated tokens alone.
"""

from __future__ import annotations

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import weight_bytes
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision
from gpuyard.perf.inference.shape import Shape

__all__ = ["cache_bytes", "least_token_s", "most_tokens_per_s", "peak_share"]


def cache_bytes(shape: Shape, tokens: float, kv_bytes: float) -> float:
    """Bytes that one sequence of that length reads to decode a token; nothing where attention is sparse."""
    if shape.sparse_tokens:
        return 0.0
    wide = shape.kv_rank + shape.rope_dim if shape.kv_rank else 2.0 * shape.kv_heads * shape.head_dim
    near = min(tokens, shape.window_tokens) if shape.window_layers else 0.0
    return kv_bytes * wide * (shape.full_layers * tokens + shape.window_layers * near)


def least_token_s(
    shape: Shape, chip: ServingChip, precision: Precision, stated_kv: bool, chips: int, batch: float, tokens: float
) -> float:
    """Seconds in which a batch's step can read its weights and cache; 0 where memory does not hold the batch."""
    kv = KV_BYTES[precision.kv] if stated_kv else min(KV_BYTES.values())
    weights = weight_bytes(shape, precision, ReplicaLayout()) - 2.0 * shape.head_parameters  # one row of the embeddings
    if shape.experts:
        missed = (1.0 - shape.experts_per_token / shape.experts) ** batch
        weights -= missed * shape.expert_parameters * FORMATS[precision.weights].weight_bytes
    needed = weights + batch * cache_bytes(shape, tokens, kv)
    held = weights + batch * cache_bytes(shape, tokens, KV_BYTES[precision.kv])
    return 0.0 if held > 0.9 * chips * chip.memory_bytes else needed / (chips * chip.memory_bytes_per_s)


def most_tokens_per_s(
    shape: Shape, chip: ServingChip, precision: Precision, stated_kv: bool, chips: int, tokens: float
) -> float:
    """Output tokens a second at which sequences of that mean length read nothing but their own cache."""
    kv = KV_BYTES[precision.kv] if stated_kv else min(KV_BYTES.values())
    each = cache_bytes(shape, tokens, kv)
    return chips * chip.memory_bytes_per_s / each if each else float("inf")


def peak_share(
    shape: Shape, chip: ServingChip, precision: Precision, chips: int, requests_per_s: float, tokens: float
) -> float:
    """Share of the chips' peak that the products of so many requests of that length take."""
    active = shape.attention_parameters + shape.mlp_parameters
    if shape.experts:
        active += shape.expert_parameters * shape.experts_per_token / shape.experts
    peak = max(chip.peak_flop_per_s(name) for name in FORMATS[precision.weights].peaks)
    return 2.0 * active * tokens * requests_per_s / (chips * peak)
