"""Data parallelism and optimizer: DDP, distributed optimizer (ZeRO-1), FSDP (ZeRO-3), Adam."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuyard.perf.collectives import NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.operators import layer_parameters


def local_parameters(arch: Architecture, layout: Layout) -> tuple[Array, Array]:
    """Return parameters per chip before data-parallel sharding: dense, experts."""
    attention, ffn, experts, shared = layer_parameters(arch)
    moe = arch.moe_layers / arch.layers
    dense = (attention + (1.0 - moe) * ffn + moe * shared) * arch.layers / layout.pp
    embed = arch.vocab * arch.hidden * np.where(layout.pp > 1, 1.0, 2.0 - arch.tied_embedding)
    expert_ranks = layout.pp * layout.ep * layout.expert_tensor_parallel
    return (dense + embed) / layout.tp, moe * experts * arch.layers / expert_ranks


def data_parallel_s(
    arch: Architecture,
    layout: Layout,
    soft: Software,
    micro_s: Array,
    net: NetworkModel,
    c: TrainingConstants,
) -> Array:
    """Return exposed seconds of gradient reduction and parameter gathering per step."""
    return np.where(
        layout.fsdp > 0,
        _fsdp_s(arch, layout, soft, micro_s, net, c),
        _ddp_s(arch, layout, soft, micro_s, net, c),
    )


def _ddp_s(
    arch: Architecture,
    layout: Layout,
    soft: Software,
    micro_s: Array,
    net: NetworkModel,
    c: TrainingConstants,
) -> Array:
    """Exposed seconds of replicated parameters or a distributed optimizer (ZeRO-1)."""
    dense, experts = local_parameters(arch, layout)
    ranks = layout.dp * layout.cp
    expert_ranks = np.maximum(ranks * layout.tp / (layout.ep * layout.expert_tensor_parallel), 1.0)
    shard = np.minimum(layout.shard_ranks, ranks)
    group = RankGroup(stride=layout.tp, calls=arch.layers / layout.pp)
    gradients = net.time_s("reduce-scatter", soft.grad_bytes * dense, ranks, group)
    parameters = net.time_s("all-gather", 2.0 * dense, shard, group)
    # Replicas gather the reduced gradients, shards the updated parameters.
    gathered = np.where(shard < ranks, gradients, 0.0) + np.where(shard > 1, parameters, 0.0)
    expert_group = replace(group, stride=layout.ep * layout.expert_tensor_parallel)
    expert_bytes = (soft.grad_bytes + 2.0) * experts
    expert_s = net.time_s("all-gather", expert_bytes, expert_ranks, expert_group)
    comm = (gradients + gathered + expert_s) * (ranks > 1)
    hidden = np.minimum(comm, micro_s)  # overlapped with the last micro-batch
    exposed = np.where(soft.dp_overlap > 0, comm - hidden + c.dp_exposed * hidden, comm)
    broadcast = soft.shard_broadcast * c.broadcast_s * np.where(shard > 1, shard, 0.0)
    total: Array = (exposed + broadcast) * arch.trains_weights
    return total


def _fsdp_s(
    arch: Architecture,
    layout: Layout,
    soft: Software,
    micro_s: Array,
    net: NetworkModel,
    c: TrainingConstants,
) -> Array:
    """Exposed seconds of FSDP (ZeRO-3), overlapped with each micro-batch; HSDP with replicas."""
    dense, experts = local_parameters(arch, layout)
    ranks = layout.dp * layout.cp
    shard = np.minimum(layout.shard_ranks, ranks)
    group = RankGroup(stride=layout.tp, calls=arch.layers / layout.pp, one_port=soft.one_port)
    gather = net.time_s("all-gather", 2.0 * (dense + experts), shard, group)
    gradient_bytes = soft.grad_bytes * (dense + experts)
    scatter = net.time_s("reduce-scatter", gradient_bytes, shard, group) * arch.trains_weights
    replicas = RankGroup(stride=layout.tp * shard)
    reduce_bytes = soft.grad_bytes * dense / shard
    reduce = net.time_s("all-reduce", reduce_bytes, ranks / shard, replicas) * arch.trains_weights
    comm = 2.0 * gather + scatter  # parameters forward and backward, gradients
    return (
        layout.grad_accum
        * (np.maximum(comm - micro_s, 0.0) + c.contention * np.minimum(comm, micro_s))
        + np.maximum(reduce - 0.5 * micro_s, 0.0)  # replicas, behind half a backward pass
        + c.dp_exposed * np.minimum(reduce, 0.5 * micro_s)
    )


def accumulate_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software, c: TrainingConstants
) -> Array:
    """Return seconds of a separate gradient accumulation kernel: 12 bytes per parameter."""
    dense, experts = local_parameters(arch, layout)
    kernel_s = 12.0 * (dense + experts) / (chip.hbm_bytes_per_s * c.hbm_ratio)
    separate = np.where((layout.fsdp == 0) & (soft.dist_opt == 0), 1.0, 0.0)
    return kernel_s * separate * arch.trains_weights


def optimizer_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, c: TrainingConstants
) -> Array:
    """Return seconds of Adam in fp32 (memory-bound).

    30 bytes per sharded parameter, 8 per local parameter (gradient zeroing and norm).
    """
    dense, experts = local_parameters(arch, layout)
    shard = np.maximum(layout.shard_ranks, 1.0)
    expert_ranks = layout.dp * layout.cp * layout.tp / (layout.ep * layout.expert_tensor_parallel)
    eshard = np.maximum(np.minimum(shard, expert_ranks), 1.0)
    local = np.where(layout.fsdp > 0, 1.0 / shard, 1.0)
    bytes_ = 30.0 * (dense / shard + experts / eshard) + 8.0 * (dense + experts) * local
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio) * arch.trains_weights
