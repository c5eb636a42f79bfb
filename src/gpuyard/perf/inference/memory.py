"""Memory per chip of a replica, and the KV-cache capacity it leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.perf.inference.shape import DecoderShape

LOGIT_SEQUENCES = 2048  # maximum rows of the sampler's buffers
STATE_TOKENS = 1e6  # models without a KV cache: tokens per block unit of a sequence's state
TUNED_RATIO = 0.95  # share of the memory without weights that trtllm-bench gives to the KV cache


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLimits:
    """Limits of one scheduler iteration."""

    sequences: int
    budget_tokens: int  # max batched tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheCapacity:
    """Memory of the most-loaded chip by use, and KV-cache capacity; 0 blocks: does not fit."""

    weight_bytes: float
    spare_bytes: float  # memory without weights
    reserve_bytes: float  # activations, graphs, communication buffers, the driver
    cache_bytes: float
    token_bytes: float  # per cached token, layers with full attention
    sequence_bytes: float  # per sequence, any length: windows, linear states
    block_tokens: int
    blocks: int

    @property
    def cache_tokens(self) -> int:
        return self.blocks * self.block_tokens

    def sequences(self, tokens: float) -> int:
        """Return how many sequences of `tokens` tokens fit."""
        blocks = math.ceil(tokens / self.block_tokens) + self.extra_blocks
        return max(0, self.blocks // max(blocks, 1))

    @property
    def extra_blocks(self) -> int:
        """Blocks of a sequence in addition to those of its length."""
        return math.ceil(self.sequence_bytes / (self.token_bytes * self.block_tokens))


def weight_bytes(shape: DecoderShape, precision: Precision, layout: ReplicaLayout) -> float:
    """Return the weights per chip; embeddings and LM head are 16-bit."""
    tp, pp = layout.tp, layout.pp
    form = FORMATS[precision.weights].weight_bytes
    attention = FORMATS[precision.projections].weight_bytes
    plain = 2.0 if precision.weights == "mxfp4" else form
    table = shape.head_parameters * (1.0 if shape.tied else 2.0)
    return (
        shape.attention_parameters * attention / (tp * pp)
        + shape.mlp_parameters * plain / (tp * pp)
        + shape.expert_parameters * form / (tp * pp * layout.attention_dp)
        + 2.0 * table / (tp * (1.0 if pp == 1 else 2.0))
        + 2.0 * shape.other_parameters / tp
    )


def kv_cache_capacity(
    shape: DecoderShape,
    chip: ServingChip,
    precision: Precision,
    layout: ReplicaLayout,
    engine: ServingEngine,
    calibration: ServingCalibration,
    step: StepLimits | None = None,
) -> KvCacheCapacity:
    """Return the memory use of a chip and its KV-cache capacity; `step` sizes the buffers."""
    step = step or StepLimits(
        sequences=min(engine.sequence_count, LOGIT_SEQUENCES), budget_tokens=engine.budget_tokens
    )
    weights = weight_bytes(shape, precision, layout)
    widest_ffn = max(shape.ffn, shape.shared_ffn + shape.experts_per_token * shape.expert_ffn)
    activations = step.budget_tokens * 2.0 * (4.0 * shape.hidden + 3.0 * widest_ffn / layout.tp)
    ranks = layout.chips > 1
    reserve = (
        calibration["memory.driver_gb"] * 1e9  # context, libraries, graphs
        + calibration["memory.ranks_gb"] * 1e9 * ranks  # NCCL and all-reduce buffers
        + calibration["memory.activation_ratio"] * activations
        + (calibration["memory.logit_copies"] + engine.spare_logits)
        * 4.0
        * shape.vocab
        * step.sequences
    )
    if engine.memory == "free":
        cache = engine.memory_ratio * (chip.memory_bytes - weights - reserve)
    elif engine.memory == "static":  # the reserve is outside the share
        cache = min(engine.memory_ratio * chip.memory_bytes, chip.memory_bytes - reserve) - weights
    else:
        cache = engine.memory_ratio * chip.memory_bytes - weights - reserve
    token, fixed = _cached_bytes(shape, precision, layout, engine.windows)
    return KvCacheCapacity(
        weight_bytes=weights,
        spare_bytes=max(0.0, chip.memory_bytes - weights),
        reserve_bytes=reserve,
        cache_bytes=max(0.0, cache),
        token_bytes=token,
        sequence_bytes=fixed,
        block_tokens=engine.block_tokens,
        blocks=int(max(0.0, cache) // (token * engine.block_tokens)),
    )


def _cached_bytes(
    shape: DecoderShape, precision: Precision, layout: ReplicaLayout, windows: bool
) -> tuple[float, float]:
    """Return KV-cache bytes per token, and per sequence of any length."""
    kv = KV_BYTES[precision.kv]
    if shape.kv_rank:
        layer = (shape.kv_rank + shape.rope_dim) * kv
    else:
        layer = 2.0 * max(shape.kv_heads / layout.tp, 1.0) * shape.head_dim * kv
    layer *= shape.stored_kv_ratio
    token, near = shape.full_layers * layer, shape.window_layers * layer
    state = shape.linear_layers * 2.0 * shape.linear_state / layout.tp
    if not token and not near:  # only linear-attention states; a block still needs a size
        return state / STATE_TOKENS / layout.pp, state / layout.pp
    if windows and shape.full_layers:
        return token / layout.pp, (near * shape.window_tokens + state) / layout.pp
    return (token + near) / layout.pp, state / layout.pp


def limits(
    engine: ServingEngine,
    kv_cache: KvCacheCapacity,
    input_tokens: float,
    output_tokens: float,
    stages: int = 1,
) -> StepLimits:
    """Return the limits of a step; trtllm-bench derives them from the KV-cache capacity.

    Rounding and bounds are those of trtllm-bench (tensorrt_llm/bench/build/tuning.py).
    """
    if not engine.tuned:
        return StepLimits(sequences=engine.sequence_count, budget_tokens=engine.budget_tokens)
    fitting = (
        TUNED_RATIO
        * kv_cache.spare_bytes
        / (kv_cache.token_bytes * (input_tokens + output_tokens) + kv_cache.sequence_bytes)
    )
    raw = min(max(fitting, 1.0), engine.sequence_count) / stages
    tokens = min(raw * (1.0 + input_tokens / max(output_tokens, 1.0)), 32768.0)
    step = 32 if raw < 256 else 128 if raw < 1024 else 256
    token_step = 256 if tokens < 4096 else 512 if tokens < 8192 else 1024
    return StepLimits(
        sequences=max(64, step * math.ceil(raw / step)) * stages,
        budget_tokens=max(2048, token_step * math.ceil(tokens / token_step)) * stages,
    )


def with_graphs(engine: ServingEngine, step_limits: StepLimits, stages: int = 1) -> ServingEngine:
    """Return the engine with its largest CUDA graph: max sequences, or the largest listed size."""
    if not engine.pads:
        return engine
    sequences = max(1, step_limits.sequences // stages)
    size = _largest_listed(sequences) if engine.graphs_listed else sequences
    return replace(engine, graph_sequences=size)


def _largest_listed(sequences: int) -> int:
    """Return the largest CUDA graph size of `step.padded` up to `sequences`."""
    return 384 if 384 <= sequences < 512 else 2 ** (sequences.bit_length() - 1)
