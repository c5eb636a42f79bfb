"""Inputs of the training model: architecture, chip, parallelism layout, software.

Every field is an array (or a number) and the fields broadcast together. A search gives each of its
axes its own dimension, so each term is evaluated only on the axes that it depends on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def _one() -> Array:
    return np.ones(())


def _zero() -> Array:
    return np.zeros(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """A transformer, dense or MoE; the mean layer where layers differ."""

    layers: Array
    hidden: Array
    heads: Array
    kv_heads: Array
    head_dim: Array  # value head dimension; queries and keys have qk_head_dim
    qk_head_dim: Array
    ffn_hidden: Array  # of a dense layer
    gated: Array  # 1: FFN with a gate matrix (SwiGLU)
    vocab: Array
    tied_embedding: Array  # 1: the LM head shares the embedding's weights
    packed_sequence_tokens: Array  # length of a training sequence
    attention_tokens: Array  # length attention sees: shorter where samples are packed
    full_attention_ratio: Array  # share of layers with full (not sliding-window) attention
    window_tokens: Array  # sliding window of the other layers
    experts: Array  # routed experts per MoE layer; 0: dense
    experts_per_token: Array  # top-k
    capacity: Array  # capacity factor where experts drop tokens, else 1
    shared_ffn_hidden: Array  # all shared experts together
    expert_ffn_hidden: Array
    expert_bias: Array = field(default_factory=_zero)  # 1: expert biases in separate passes
    mtp: Array = field(default_factory=_zero)  # MTP heads; layers includes theirs
    moe_layers: Array
    q_rank: Array  # query LoRA rank of multi-head latent attention (MLA); 0: none
    kv_rank: Array  # KV latent width of MLA; 0: no MLA
    trains_weights: Array  # 1: full training; 0: adapters only (LoRA)
    adapts_ffn: Array = field(default_factory=_one)  # 0: adapters on attention projections only
    frozen_bytes: Array = field(default_factory=_zero)  # per frozen weight; 0: as GEMM operands
    attention_ratio: Array = field(default_factory=_one)  # softmax attention per layer
    linear_ratio: Array = field(default_factory=_zero)  # linear attention per layer
    linear_in: Array = field(default_factory=_zero)  # width of its input projections
    linear_out: Array = field(default_factory=_zero)  # width of its output projection
    linear_state: Array = field(default_factory=_zero)  # elements of its state


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingChip:
    """A chip, the precision it is used at, and its links."""

    gemm_flop_per_s: Array  # peak dense GEMM FLOP/s at the compute dtype
    gemm_ratio: Array  # best measured GEMM over that peak
    bf16_flop_per_s: Array
    bf16_ratio: Array
    hbm_bytes_per_s: Array
    hbm_bytes: Array
    scaleup_bytes_per_s: Array  # unidirectional, per chip
    scaleup_chips: Array  # chips per NVLink domain or ICI slice
    board_chips: Array  # directly connected chips; the rest of the domain is behind PCIe
    torus_axes: Array  # axes that share the scale-up bandwidth; 1: a switch
    nic_bytes_per_s: Array  # unidirectional, per chip, out of the scale-up domain
    sm_count: Array  # streaming multiprocessors; 0: not a GPU
    generation: npt.NDArray[np.int64]  # index into GENERATIONS
    gemm_bytes: Array  # per operand element at the compute dtype
    exponential_ratio: Array  # exponentials per clock, over the generation's
    elementwise_speed_ratio: Array  # attention and elementwise kernels, over peak and bandwidth
    cast_bytes: Array  # moved to quantise one operand element
    host_bytes_per_s: Array = field(default_factory=_zero)  # to host memory, per chip; 0: unknown


GENERATIONS = ("ampere", "hopper", "blackwell", "cdna", "tpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Parallelism layout, batching and recomputation of a training run."""

    chips: Array
    tp: Array
    pp: Array
    dp: Array
    cp: Array
    ep: Array
    expert_tensor_parallel: Array = field(default_factory=_one)
    virtual_pipeline: Array  # model chunks per stage (interleaved 1F1B)
    micro_batch: Array
    grad_accum: Array
    seq_parallel: Array
    fsdp: Array  # 1: parameters are all-gathered layer by layer (ZeRO-3, FSDP)
    shard_ranks: Array  # ranks that shard the optimizer state (and FSDP parameters)
    recompute_gemm: Array  # fraction of forward GEMMs recomputed in the backward pass
    recompute_attention: Array
    recompute_elementwise: Array
    recompute_comm: Array
    offload_optimizer: Array = field(default_factory=_zero)  # share of the state in host memory
    offload_activation: Array = field(default_factory=_zero)  # share of activations offloaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Features and buffer sizes of the training framework; flags are 0 or 1."""

    scalar: Array  # multiplies the device time of the step
    flash: Array  # fused attention: scores never reach HBM
    flash2: Array  # FlashAttention 2, before kernels were tuned for Hopper
    shard_broadcast: Array  # sharded parameters are broadcast rank by rank
    fp32_reduce: Array
    one_port: Array  # all-gathers run as one ring, through one NIC per node
    deepep: Array  # a token crosses the network once per scale-up domain (DeepEP)
    fused: Array  # fused norms, biases, activations
    tp_overlap: Array
    dp_overlap: Array
    p2p_overlap: Array
    graphs: Array  # share of kernel launches removed by CUDA graphs or a compiled step
    moe_overlap: Array  # all-to-all overlapped with another micro-batch's compute
    fused_experts: Array = field(default_factory=_zero)  # expert GEMMs, activation, casts fused
    dist_opt: Array  # distributed optimizer (ZeRO-1)
    grad_bytes: Array  # per gradient element on the network
    grad_state_bytes: Array  # per gradient element in memory
    logit_bytes: Array  # stored per logit
    optimizer_bytes: Array  # optimizer state per parameter
    fragment_ratio: Array  # memory that the allocator reserves beyond what is in use
    pipe_buffers: Array  # 1: stage inputs and outputs stay allocated (DeepSpeed)
