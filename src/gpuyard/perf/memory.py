"""Memory of one chip in training: states, activations, buffers; and by how much a layout does not fit."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from gpuyard.perf.layout import Architecture, Array, Layout, Machine, Software
from gpuyard.perf.operators import layer_parameters, micro_tokens
from gpuyard.perf.training import stage_layers

DEEPSPEED_BYTES = 5.0e9  # reduce and gather buckets beside the context (DeepSpeed's flat buffers)
CONTEXT_BYTES = 1.0e9  # CUDA context, NCCL and cuBLAS workspaces held by the process
FIT_RATIO = 0.94  # share of the chip's memory that can be filled before allocations fail


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on the fullest chip."""

    parameter_bytes: Array
    gradient_bytes: Array
    optimizer_bytes: Array
    activation_bytes: Array
    logit_bytes: Array
    buffer_bytes: Array

    @property
    def total_bytes(self) -> Array:
        """All of it."""
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


def stage_parameters(arch: Architecture, layout: Layout, layers: Array) -> tuple[Array, Array]:
    """Parameters of a stage with an embedding or a head on one chip: dense part, expert part."""
    attention, ffn, experts, shared = layer_parameters(arch)
    moe = np.minimum(arch.moe_layers, layers)  # the fullest stage has MoE layers only, if there are enough
    moe = np.where(layout.pp > 1, moe, arch.moe_layers)
    dense = attention * layers + (layers - moe) * ffn + moe * (shared + arch.hidden * arch.experts)
    embed = arch.vocab * arch.hidden * np.where(layout.pp > 1, 1.0, 2.0 - arch.tied_embedding)
    return (dense + embed) / layout.tp, moe * experts / (layout.ep * layout.etp)


def layer_activation_bytes(arch: Architecture, layout: Layout, chip: Machine, soft: Software) -> Array:
    """What the backward pass of one layer needs, one micro-batch (Korthikanti 2022, eq. 2 and 4)."""
    t = micro_tokens(arch, layout)
    more = (1.0 - soft.fused) * (1.0 - layout.recompute_elementwise)  # separate kernels keep their inputs as well
    low = 1.0 - chip.gemm_bytes / 2.0  # inputs of products are kept at the products' precision
    whole = 2.0 * (4.0 + 2.0 * more - 2.0 * low) * t * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    kv = np.maximum(arch.kv_heads, layout.tp)
    qkv = arch.heads * arch.qk_head_dim + kv * (arch.qk_head_dim + arch.head_dim)
    qkv = 2.0 * (1.0 + more) * t * qkv / layout.tp  # and before the rotary embedding
    out = 2.0 * t * arch.heads * arch.head_dim / layout.tp
    moe = arch.moe_layers / arch.layers
    width = 2.0 + arch.gated + more - low  # up (and gate), activation; its parts
    dense = 2.0 * t * width * arch.ffn / layout.tp
    routed = 2.0 * t / layout.tp * arch.experts_per_token * (width * arch.expert_ffn + arch.hidden)
    shared = 2.0 * t * width * arch.shared_ffn / layout.tp
    latent = 2.0 * t * 2.0 * (arch.q_rank + arch.kv_rank)
    scores = np.where(soft.flash > 0, 0.0, 5.0 * t * arch.seq_tokens * arch.heads / layout.tp)  # softmax, dropout
    scores = scores * (1.0 - layout.recompute_attention)
    return whole + qkv + out + latent + (1.0 - moe) * dense + moe * (routed + shared) + scores


def activation_bytes(
    arch: Architecture, layout: Layout, chip: Machine, soft: Software, layers: Array, alive: Array
) -> Array:
    """Activations of a stage with so many micro-batches alive."""
    each = layer_activation_bytes(arch, layout, chip, soft)
    kept = 2.0 * micro_tokens(arch, layout) * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    alive = np.minimum(alive, np.maximum(layout.grad_accum, 1.0))
    pipes = 2.0 * (layout.pp > 1) * soft.pipe_buffers  # received input and sent output stay allocated
    full = layout.recompute_gemm >= 0.99
    partly = each * (1.0 - layout.recompute_gemm) + kept * layout.recompute_gemm
    gathered = 4.0 * 2.0 * micro_tokens(arch, layout) * arch.hidden * (layout.tp > 1)  # whole sequences at work
    held = np.where(full, alive * (layers + pipes) * kept + each, alive * layers * partly)
    return np.maximum(held * (1.0 - layout.offload_activation), np.minimum(held, 2.0 * each)) + gathered


def state_bytes(
    arch: Architecture, layout: Layout, soft: Software, layers: Array, operand_bytes: Array
) -> tuple[Array, Array, Array]:
    """Parameters, gradients and optimizer state of a stage."""
    dense, experts = stage_parameters(arch, layout, layers)
    eranks = np.maximum(layout.dp * layout.cp * layout.tp / (layout.ep * layout.etp), 1.0)
    shard = np.maximum(layout.shard_ranks, 1.0)
    fsdp = layout.fsdp > 0
    eshard = np.where(fsdp, shard, np.minimum(shard, eranks))
    local, split = dense + experts, dense / shard + experts / eshard
    train = arch.trains_weights
    gathered = np.where(layout.pp > 1, local, 2.0 * local / layers)  # pipelines keep the whole stage gathered
    kept = np.where(arch.frozen_bytes > 0, arch.frozen_bytes, operand_bytes)  # at the products' precision by default
    frozen = np.where(train > 0, 2.0, kept)
    parameters = np.where(fsdp, (frozen + 2.0 * train) * split + frozen * gathered, frozen * local)
    gradients = np.where(
        fsdp, 4.0 * split + np.where(layout.pp > 1, 4.0, 2.0) * gathered, soft.grad_state_bytes * local
    )
    optimizer = np.where(fsdp, 8.0, soft.optimizer_bytes) * split
    return parameters, gradients * train, optimizer * train * (1.0 - layout.offload_optimizer)


def memory(arch: Architecture, layout: Layout, chip: Machine, soft: Software) -> Memory:
    """Bytes on the fullest chip: of the first stage (most micro-batches alive) or the last (logits)."""
    most, last = stage_layers(arch, layout)
    dealt = (arch.layers % layout.pp != 0) & ((arch.layers + 2.0) % layout.pp == 0)
    first = np.where(dealt, most - 1.0, most)  # the embedding takes the place of a layer
    deep = np.where(layout.vpp > 1, (layout.pp - 1.0) / layout.vpp, 0.0)
    logits = soft.logit_bytes * micro_tokens(arch, layout) * arch.vocab / layout.tp
    ends = []
    for layers, alive, head in (
        (first, layout.pp + deep, np.where(layout.pp > 1, 0.0, 1.0)),
        (last, layout.pp - (layout.pp - 1.0) / layout.vpp, np.ones(())),
    ):
        states = state_bytes(arch, layout, soft, layers, chip.gemm_bytes)
        ends.append((*states, activation_bytes(arch, layout, chip, soft, layers, alive), head * logits))
    fuller = sum(ends[0]) >= sum(ends[1])
    p, g, o, a, h = (np.where(fuller, x, y) for x, y in zip(*ends, strict=True))
    held = (p + g + o + a + h) * soft.fragment_ratio  # free blocks the allocator keeps
    buffers = CONTEXT_BYTES + DEEPSPEED_BYTES * soft.pipe_buffers + held
    return Memory(
        parameter_bytes=p,
        gradient_bytes=g,
        optimizer_bytes=o,
        activation_bytes=a,
        logit_bytes=h,
        buffer_bytes=buffers * np.ones(np.shape(p)),
    )


def least_recompute(arch: Architecture, layout: Layout, chip: Machine, soft: Software) -> Array:
    """Share of layers to recompute so that the layout fits, 0 where it fits within the model's error."""
    zero = np.zeros(np.shape(layout.recompute_gemm))
    bare = replace(layout, recompute_gemm=zero, recompute_attention=zero)
    full = replace(layout, recompute_gemm=zero + 1.0, recompute_attention=zero + 1.0)
    need = memory(arch, bare, chip, soft).total_bytes
    least = memory(arch, full, chip, soft).total_bytes
    share = (need - chip.hbm_bytes) / np.maximum(need - least, 1.0)
    return np.where(need > 1.15 * chip.hbm_bytes, np.clip(share, 0.0, 1.0), 0.0)
