"""Memory of one chip of a replica, and the cached tokens and sequences that the rest of it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuyard.perf.inference.calibration import Calibration
from gpuyard.perf.inference.chip import ServingChip
from gpuyard.perf.inference.engine import Engine
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.precision import FORMATS, KV_BYTES, Precision
from gpuyard.perf.inference.shape import LINEAR_STATE_WIDTH, Shape
from gpuyard.perf.inference.step import largest_listed

__all__ = ["Limits", "Room", "limits", "room", "weight_bytes", "with_graphs"]


LOGIT_SEQUENCES = 2048  # rows of the sampler's buffers, at most
TUNED_RATIO = 0.95  # of memory beside the weights that trtllm-bench counts on


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one step may hold."""

    sequences: int
    budget_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes of the fullest chip by use, and what its cache holds; `blocks` below 1: the model does not fit."""

    weight_bytes: float
    spare_bytes: float  # beside the weights
    reserve_bytes: float  # activations, graphs, communication buffers, the driver
    cache_bytes: float
    token_bytes: float  # of one cached token in layers that attend to the whole context
    sequence_bytes: float  # of one sequence whatever its length: windows, linear states
    block_tokens: int
    blocks: int

    @property
    def cache_tokens(self) -> int:
        """Tokens that the cache holds."""
        return self.blocks * self.block_tokens

    def sequences(self, tokens: float) -> int:
        """Sequences of that length which fit together."""
        each = math.ceil(tokens / self.block_tokens) + self.extra_blocks
        return max(0, self.blocks // max(each, 1))

    @property
    def extra_blocks(self) -> int:
        """Blocks that a sequence takes beside those of its length."""
        return math.ceil(self.sequence_bytes / (self.token_bytes * self.block_tokens)) if self.sequence_bytes else 0


def weight_bytes(shape: Shape, precision: Precision, layout: ReplicaLayout) -> float:
    """Weights of one chip; embeddings and the output layer stay in 16 bits."""
    tp, pp = layout.tp, layout.pp
    form, attention = FORMATS[precision.weights].weight_bytes, FORMATS[precision.projections].weight_bytes
    plain = 2.0 if precision.weights == "mxfp4" else form
    table = shape.head_parameters * (1.0 if shape.tied else 2.0)
    return (
        shape.attention_parameters * attention / (tp * pp)
        + shape.mlp_parameters * plain / (tp * pp)
        + shape.expert_parameters * form / (tp * pp * layout.attention_dp)
        + 2.0 * table / (tp * (1.0 if pp == 1 else 2.0))
    )


def room(
    shape: Shape,
    chip: ServingChip,
    precision: Precision,
    layout: ReplicaLayout,
    engine: Engine,
    calibration: Calibration,
    step: Limits | None = None,
) -> Room:
    """How a chip's memory is used, and what is left for the cache; `step` gives the size of the engine's buffers."""
    step = step or Limits(sequences=min(engine.sequence_count, LOGIT_SEQUENCES), budget_tokens=engine.budget_tokens)
    weights = weight_bytes(shape, precision, layout)
    widest = max(shape.ffn, shape.shared_ffn + shape.experts_per_token * shape.expert_ffn)
    activations = step.budget_tokens * 2.0 * (4.0 * shape.hidden + 3.0 * widest / layout.tp)
    ranks = layout.chips > 1
    reserve = (
        calibration["memory.driver_gb"] * 1e9  # context, libraries, graphs
        + calibration["memory.ranks_gb"] * 1e9 * ranks  # NCCL and all-reduce buffers
        + calibration["memory.activation_ratio"] * activations
        + (calibration["memory.logit_copies"] + engine.spare_logits) * 4.0 * shape.vocab * step.sequences
    )
    if engine.memory == "free":
        cache = engine.memory_ratio * (chip.memory_bytes - weights - reserve)
    elif engine.memory == "static":  # the reserve is outside the share, and has to fit there
        cache = min(engine.memory_ratio * chip.memory_bytes, chip.memory_bytes - reserve) - weights
    else:
        cache = engine.memory_ratio * chip.memory_bytes - weights - reserve
    token, fixed = _cached_bytes(shape, precision, layout, engine.windows)
    return Room(
        weight_bytes=weights,
        spare_bytes=max(0.0, chip.memory_bytes - weights),
        reserve_bytes=reserve,
        cache_bytes=max(0.0, cache),
        token_bytes=token,
        sequence_bytes=fixed,
        block_tokens=engine.block_tokens,
        blocks=int(max(0.0, cache) // (token * engine.block_tokens)),
    )


def _cached_bytes(shape: Shape, precision: Precision, layout: ReplicaLayout, windows: bool) -> tuple[float, float]:
    """Bytes of one cached token, and of one sequence whatever its length."""
    kv = KV_BYTES[precision.kv]
    if shape.kv_rank:
        layer = (shape.kv_rank + shape.rope_dim) * kv
    else:
        layer = 2.0 * max(shape.kv_heads / layout.tp, 1.0) * shape.head_dim * kv
    token, near = shape.full_layers * layer, shape.window_layers * layer
    state = shape.linear_layers * 2.0 * LINEAR_STATE_WIDTH * shape.hidden / layout.tp
    if windows and shape.full_layers:
        return token / layout.pp, (near * shape.window_tokens + state) / layout.pp
    return (token + near) / layout.pp, state / layout.pp if shape.full_layers else 0.0


def limits(engine: Engine, held: Room, input_tokens: float, output_tokens: float, stages: int = 1) -> Limits:
    """Sequences and tokens of a step; a tuned engine sets them from what the cache holds.

    Rounding and bounds are those of trtllm-bench (tensorrt_llm/bench/build/tuning.py).
    """
    if not engine.tuned:
        return Limits(sequences=engine.sequence_count, budget_tokens=engine.budget_tokens)
    fits = TUNED_RATIO * held.spare_bytes / (held.token_bytes * (input_tokens + output_tokens) + held.sequence_bytes)
    raw = min(max(fits, 1.0), engine.sequence_count) / stages
    tokens = min(raw * (1.0 + input_tokens / max(output_tokens, 1.0)), 32768.0)
    step = 32 if raw < 256 else 128 if raw < 1024 else 256
    token_step = 256 if tokens < 4096 else 512 if tokens < 8192 else 1024
    return Limits(
        sequences=max(64, step * math.ceil(raw / step)) * stages,
        budget_tokens=max(2048, token_step * math.ceil(tokens / token_step)) * stages,
    )


def with_graphs(engine: Engine, allowed: Limits, stages: int = 1) -> Engine:
    """The engine with the largest graph of its decode steps: of the most sequences, or the largest listed below."""
    if not engine.pads:
        return engine
    most = max(1, allowed.sequences // stages)
    return replace(engine, graph_sequences=largest_listed(most) if engine.graphs_listed else most)
