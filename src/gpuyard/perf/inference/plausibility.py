"""Published measurements that exceed what the chip's memory bandwidth or peak allows.

The performance model is not used, only sizes and peaks. The bounds are loose: full bandwidth and
the smallest KV-cache dtype, or the FLOPs of the stated tokens alone.
"""

from __future__ import annotations

from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import weight_bytes
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision
from gpuyard.perf.inference.shape import DecoderShape


def kv_read_bytes(shape: DecoderShape, tokens: float, kv_bytes: float) -> float:
    """Return KV-cache bytes read per decoded token of a sequence; 0 for sparse attention."""
    if shape.sparse_tokens:
        return 0.0
    wide = (
        shape.kv_rank + shape.rope_dim if shape.kv_rank else 2.0 * shape.kv_heads * shape.head_dim
    )
    near = min(tokens, shape.window_tokens) if shape.window_layers else 0.0
    return kv_bytes * wide * (shape.full_layers * tokens + shape.window_layers * near)


def min_tpot_s(
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    stated_kv: bool,
    chips: int,
    batch: float,
    tokens: float,
) -> float:
    """Return a lower bound of TPOT: weights and KV cache read at full memory bandwidth.

    0 where the batch does not fit in memory.
    """
    kv = KV_BYTES[precision.kv] if stated_kv else min(KV_BYTES.values())
    # A step reads one row of the embeddings only.
    weights = weight_bytes(shape, precision, ReplicaLayout()) - 2.0 * shape.head_parameters
    if shape.experts:
        missed = (1.0 - shape.experts_per_token / shape.experts) ** batch
        weights -= missed * shape.expert_parameters * FORMATS[precision.weights].weight_bytes
    needed = weights + batch * kv_read_bytes(shape, tokens, kv)
    stored = weights + batch * kv_read_bytes(shape, tokens, KV_BYTES[precision.kv])
    return (
        0.0
        if stored > 0.9 * chips * chip.memory_bytes
        else needed / (chips * chip.memory_bytes_per_s)
    )


def max_tokens_per_s(
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    stated_kv: bool,
    chips: int,
    tokens: float,
) -> float:
    """Return an upper bound of throughput: all memory bandwidth spent on KV-cache reads."""
    kv = KV_BYTES[precision.kv] if stated_kv else min(KV_BYTES.values())
    token_bytes = kv_read_bytes(shape, tokens, kv)
    return chips * chip.memory_bytes_per_s / token_bytes if token_bytes else float("inf")


def peak_share(
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    chips: int,
    requests_per_s: float,
    tokens: float,
) -> float:
    """Return the model FLOP/s of these requests over the chips' peak."""
    active = shape.attention_parameters + shape.mlp_parameters
    if shape.experts:
        active += shape.expert_parameters * shape.experts_per_token / shape.experts
    peak = max(chip.peak_flop_per_s(name) for name in FORMATS[precision.weights].peaks)
    return 2.0 * active * tokens * requests_per_s / (chips * peak)
