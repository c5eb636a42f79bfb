"""The inputs of the step-time model: what is trained, on which chip, how it is spread, by which software.

Every field is an array (or a number); fields of one value only need to broadcast together.
A planner gives each axis of its search its own dimension, and each term is then
evaluated only on the axes that it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def _one() -> Array:
    """One."""
    return np.ones(())


def _zero() -> Array:
    """Nothing."""
    return np.zeros(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A decoder-only transformer, dense or mixture of experts."""

    layers: Array
    hidden: Array
    heads: Array
    kv_heads: Array
    head_dim: Array  # of values; queries and keys use qk_head_dim
    qk_head_dim: Array
    ffn: Array  # of a dense layer
    gated: Array  # 1 with a gate matrix (SwiGLU), 0 without
    vocab: Array
    tied_embedding: Array  # 1 when the output matrix is the embedding
    seq_tokens: Array
    sequence_tokens: Array  # length attention really sees (packed samples are shorter than seq_tokens)
    full_attention_ratio: Array  # share of layers with global attention
    window_tokens: Array  # window of the other layers
    experts: Array  # 0 when dense
    experts_per_token: Array
    capacity: Array  # slots per routed token when experts drop tokens, else 1
    shared_ffn: Array  # width of the shared experts together
    expert_ffn: Array
    expert_bias: Array = field(default_factory=_zero)  # 1 where experts have biases, added in passes of their own
    mtp: Array = field(default_factory=_zero)  # extra heads of multi-token prediction (layers counts their layers)
    moe_layers: Array
    q_rank: Array  # low-rank query (multi-head latent attention), 0 without
    kv_rank: Array
    trains_weights: Array  # 1 full training, 0 adapters only (LoRA)
    frozen_bytes: Array = field(default_factory=_zero)  # of a weight that is not trained; 0: as the products' operands


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A chip, the precision it is used at, and its links."""

    gemm_flop_per_s: Array  # dense peak at the precision of the matrix products
    gemm_ratio: Array  # best measured matrix product over that peak
    bf16_flop_per_s: Array
    bf16_ratio: Array
    hbm_bytes_per_s: Array
    hbm_bytes: Array
    scaleup_bytes_per_s: Array  # one way, per chip
    scaleup_chips: Array  # chips in one NVLink domain or one ICI slice
    board_chips: Array  # chips joined directly; the rest of the domain is reached over PCIe
    torus_axes: Array  # axes over which the scale-up bandwidth is spread, 1 for a switch
    nic_bytes_per_s: Array  # one way, per chip, out of the scale-up domain
    sm_count: Array
    generation: npt.NDArray[np.int64]  # index into GENERATIONS
    gemm_bytes: Array  # bytes an operand takes at that precision
    speed: Array  # of attention and element-wise kernels, over what peak and bandwidth say
    cast_bytes: Array  # bytes moved to quantise one operand element
    host_bytes_per_s: Array = field(default_factory=_zero)  # to the host's memory, one way, per chip; 0: not known


GENERATIONS = ("ampere", "hopper", "blackwell", "cdna", "tpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the work is spread over the chips."""

    chips: Array
    tp: Array
    pp: Array
    dp: Array
    cp: Array
    ep: Array
    etp: Array = field(default_factory=_one)  # chips that share an expert (expert tensor parallelism)
    vpp: Array
    micro_batch: Array
    grad_accum: Array
    seq_parallel: Array
    fsdp: Array  # 1 when parameters are gathered layer by layer (ZeRO-3, FSDP)
    shard_ranks: Array  # ranks over which optimizer state (and FSDP parameters) are sharded
    recompute_gemm: Array  # share of the forward matrix products done again in the backward
    recompute_attention: Array
    recompute_elementwise: Array
    recompute_comm: Array
    offload_optimizer: Array = field(default_factory=_zero)  # share of the optimizer state kept in the host's memory
    offload_activation: Array = field(default_factory=_zero)  # share of the activations sent there and back


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """What the training framework does; scalar multiplies the whole step."""

    scalar: Array
    flash: Array  # fused attention, no scores in memory
    flash2: Array  # before it was tuned to Hopper
    shard_broadcast: Array  # sharded parameters are broadcast rank by rank
    fp32_reduce: Array
    one_port: Array  # gathers run as one ring, through one network port per node
    deepep: Array  # a token crosses the network once per domain
    fused: Array  # fused norms, biases, activations
    tp_overlap: Array
    dp_overlap: Array
    p2p_overlap: Array
    graphs: Array  # share of a layer's launches that CUDA graphs or a compiled step remove
    moe_overlap: Array  # all-to-all behind another micro-batch's compute
    fused_experts: Array = field(default_factory=_zero)  # expert products, activation and casts in one kernel
    dist_opt: Array
    grad_bytes: Array  # of one gradient element on the wire
    grad_state_bytes: Array  # of one gradient element in memory
    logit_bytes: Array  # kept per logit
    optimizer_bytes: Array  # of optimizer state per parameter
    fragment_ratio: Array  # of memory the allocator reserves beyond what is in use
    pipe_buffers: Array  # 1 where stage inputs and outputs stay allocated (DeepSpeed)
