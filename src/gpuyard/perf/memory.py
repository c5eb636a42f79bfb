"""Training memory per chip: parameters, optimizer states, activations, buffers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.operators import layer_parameters, micro_tokens
from gpuyard.perf.pipeline_parallel import stage_layers

DEEPSPEED_BYTES = 5.0e9  # reduce and gather buckets (DeepSpeed's flat buffers)
CONTEXT_BYTES = 1.0e9  # CUDA context, NCCL and cuBLAS workspaces of the process
FIT_RATIO = 0.94  # share of HBM that can be filled before allocations fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Peak memory per chip, by part."""

    parameter_bytes: Array
    gradient_bytes: Array
    optimizer_bytes: Array
    activation_bytes: Array
    logit_bytes: Array
    buffer_bytes: Array

    @property
    def total_bytes(self) -> Array:
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


def stage_parameters(arch: Architecture, layout: Layout, layers: Array) -> tuple[Array, Array]:
    """Return parameters per chip of a stage with an embedding or LM head: dense, experts."""
    attention, ffn, experts, shared = layer_parameters(arch)
    moe = np.minimum(arch.moe_layers, layers)  # the largest stage has MoE layers only, if enough
    moe = np.where(layout.pp > 1, moe, arch.moe_layers)
    dense = attention * layers + (layers - moe) * ffn + moe * (shared + arch.hidden * arch.experts)
    embed = arch.vocab * arch.hidden * np.where(layout.pp > 1, 1.0, 2.0 - arch.tied_embedding)
    return (dense + embed) / layout.tp, moe * experts / (layout.ep * layout.expert_tensor_parallel)


def layer_activation_bytes(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software
) -> Array:
    """Return activations stored per layer and micro-batch (Korthikanti 2022, eq. 2 and 4)."""
    t = micro_tokens(arch, layout)
    sequence_ranks = np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    # Separate kernels store their inputs too.
    more = (1.0 - soft.fused) * (1.0 - layout.recompute_elementwise)
    low = 1.0 - chip.gemm_bytes / 2.0  # GEMM inputs are stored at the GEMM dtype
    # A frozen weight has no gradient, so its GEMM's input is not stored: norms' inputs remain.
    train = arch.trains_weights
    inputs = train * (2.0 - 2.0 * low)
    residual = 2.0 * (2.0 + 2.0 * more + inputs) * t * arch.hidden / sequence_ranks
    kv = np.maximum(arch.kv_heads, layout.tp)
    qkv = arch.heads * arch.qk_head_dim + kv * (arch.qk_head_dim + arch.head_dim)
    qkv = 2.0 * (1.0 + more) * t * qkv / layout.tp  # unfused: also before RoPE
    out = 2.0 * t * arch.heads * arch.head_dim / layout.tp
    moe = arch.moe_layers / arch.layers
    # Up (and gate) and activation; with frozen weights only up and gate, at the GEMM dtype.
    frozen = (1.0 + arch.gated) * (1.0 - low) + more
    width = np.where(train > 0, 2.0 + arch.gated + more - low, frozen)
    dense = 2.0 * t * width * arch.ffn_hidden / layout.tp
    routed = (
        2.0
        * t
        / layout.tp
        * arch.experts_per_token
        * (width * arch.expert_ffn_hidden + arch.hidden)
    )
    shared = 2.0 * t * width * arch.shared_ffn_hidden / layout.tp
    latent = 2.0 * t * 2.0 * (arch.q_rank + arch.kv_rank)
    # Softmax and dropout of unfused attention.
    unfused = 5.0 * t * arch.packed_sequence_tokens * arch.heads / layout.tp
    scores = np.where(soft.flash > 0, 0.0, unfused) * (1.0 - layout.recompute_attention)
    return residual + qkv + out + latent + (1.0 - moe) * dense + moe * (routed + shared) + scores


def activation_bytes(
    arch: Architecture,
    layout: Layout,
    chip: TrainingChip,
    soft: Software,
    layers: Array,
    in_flight: Array,
) -> Array:
    """Return the activation memory of a stage with `in_flight` micro-batches."""
    layer = layer_activation_bytes(arch, layout, chip, soft)
    t = micro_tokens(arch, layout)
    sequence_ranks = np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    checkpoint = 2.0 * t * arch.hidden / sequence_ranks  # input of a recomputed layer
    in_flight = np.minimum(in_flight, np.maximum(layout.grad_accum, 1.0))
    pipes = 2.0 * (layout.pp > 1) * soft.pipe_buffers  # received input, sent output
    full = layout.recompute_gemm >= 0.99
    partly = layer * (1.0 - layout.recompute_gemm) + checkpoint * layout.recompute_gemm
    gathered = 4.0 * 2.0 * t * arch.hidden * (layout.tp > 1)  # all-gathered sequences in use
    stored = np.where(
        full, in_flight * (layers + pipes) * checkpoint + layer, in_flight * layers * partly
    )
    # Two layers stay on the chip while the rest is offloaded.
    local = np.maximum(stored * (1.0 - layout.offload_activation), np.minimum(stored, 2.0 * layer))
    return local + gathered


def state_bytes(
    arch: Architecture, layout: Layout, soft: Software, layers: Array, operand_bytes: Array
) -> tuple[Array, Array, Array]:
    """Return parameters, gradients and optimizer state of a stage."""
    dense, experts = stage_parameters(arch, layout, layers)
    eranks = np.maximum(
        layout.dp * layout.cp * layout.tp / (layout.ep * layout.expert_tensor_parallel), 1.0
    )
    shard = np.maximum(layout.shard_ranks, 1.0)
    fsdp = layout.fsdp > 0
    eshard = np.where(fsdp, shard, np.minimum(shard, eranks))
    local, split = dense + experts, dense / shard + experts / eshard
    train = arch.trains_weights
    # Pipelines keep the whole stage gathered, FSDP alone two layers.
    gathered = np.where(layout.pp > 1, local, 2.0 * local / layers)
    frozen_bytes = np.where(arch.frozen_bytes > 0, arch.frozen_bytes, operand_bytes)
    frozen = np.where(train > 0, 2.0, frozen_bytes)
    parameters = np.where(fsdp, (frozen + 2.0 * train) * split + frozen * gathered, frozen * local)
    gradients = np.where(
        fsdp,
        4.0 * split + np.where(layout.pp > 1, 4.0, 2.0) * gathered,
        soft.grad_state_bytes * local,
    )
    optimizer = np.where(fsdp, 8.0, soft.optimizer_bytes) * split
    return parameters, gradients * train, optimizer * train * (1.0 - layout.offload_optimizer)


def memory(arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software) -> Memory:
    """Return peak memory per chip: first stage (most micro-batches in flight) or last (logits)."""
    largest, last = stage_layers(arch, layout)
    padded = (arch.layers % layout.pp != 0) & ((arch.layers + 2.0) % layout.pp == 0)
    first = np.where(padded, largest - 1.0, largest)  # the embedding counts as a layer
    deep = np.where(layout.virtual_pipeline > 1, (layout.pp - 1.0) / layout.virtual_pipeline, 0.0)
    logits = soft.logit_bytes * micro_tokens(arch, layout) * arch.vocab / layout.tp
    ends = []
    for layers, in_flight, head in (
        (first, layout.pp + deep, np.where(layout.pp > 1, 0.0, 1.0)),
        (last, layout.pp - (layout.pp - 1.0) / layout.virtual_pipeline, np.ones(())),
    ):
        states = state_bytes(arch, layout, soft, layers, chip.gemm_bytes)
        ends.append(
            (*states, activation_bytes(arch, layout, chip, soft, layers, in_flight), head * logits)
        )
    fuller = sum(ends[0]) >= sum(ends[1])
    p, g, o, a, h = (np.where(fuller, x, y) for x, y in zip(*ends, strict=True))
    fragments = (
        p + g + o + a + h
    ) * soft.fragment_ratio  # fragmentation: free blocks of the allocator
    buffers = CONTEXT_BYTES + DEEPSPEED_BYTES * soft.pipe_buffers + fragments
    return Memory(
        parameter_bytes=p,
        gradient_bytes=g,
        optimizer_bytes=o,
        activation_bytes=a,
        logit_bytes=h,
        buffer_bytes=buffers * np.ones(np.shape(p)),
    )


def min_recompute(arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software) -> Array:
    """Return the smallest share of layers to recompute so that the layout fits, within 15 %."""
    zero = np.zeros(np.shape(layout.recompute_gemm))
    bare = replace(layout, recompute_gemm=zero, recompute_attention=zero)
    full = replace(layout, recompute_gemm=zero + 1.0, recompute_attention=zero + 1.0)
    need = memory(arch, bare, chip, soft).total_bytes
    minimum = memory(arch, full, chip, soft).total_bytes
    share = (need - chip.hbm_bytes) / np.maximum(need - minimum, 1.0)
    return np.where(need > 1.15 * chip.hbm_bytes, np.clip(share, 0.0, 1.0), 0.0)
