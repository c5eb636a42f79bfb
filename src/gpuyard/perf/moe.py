"""MoE layers: grouped GEMMs, token permutation, all-to-all dispatch and combine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuyard.perf.collectives import NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.operators import moe_gemms, routed_tokens
from gpuyard.perf.roofline import cast_s, training_gemms_s

# Over routed tokens: permute, sort by local expert, and both reversed, read and write.
PERMUTE_PASSES = 8.0
FLEX_PASSES = 4.0  # a fused dispatcher permutes only on arrival and before combine


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLayer:
    """Seconds of the expert part of one MoE layer and micro-batch."""

    forward: Array
    dgrad: Array
    wgrad: Array
    cast_forward: Array
    cast_backward: Array
    permute: Array  # forward; the backward takes twice as long
    exchange: Array  # exposed all-to-alls, forward and backward
    launch: Array  # kernel launches of the host


def expert_layer(
    arch: Architecture,
    layout: Layout,
    chip: TrainingChip,
    soft: Software,
    net: NetworkModel,
    c: TrainingConstants,
) -> ExpertLayer:
    """Return the terms of the expert part of one MoE layer."""
    gemms = moe_gemms(arch, layout)
    routed, shared = gemms[:2], gemms[2:]
    gpu = chip.generation != GENERATIONS.index("tpu")  # TPUs: one batched GEMM
    ratio = np.where(chip.gemm_bytes < 2.0, c.grouped_low_ratio, 1.0)
    ratio = np.where(soft.fused_experts > 0, c.grouped_fused_ratio, ratio)
    own = replace(chip, gemm_ratio=chip.gemm_ratio * np.where(gpu, ratio, 1.0))
    # Read and written per weight to accumulate its gradient.
    sums = np.where(gpu, 2.0 * soft.grad_state_bytes, 8.0)
    rf, rd, rw = training_gemms_s(routed, own, c, sums, gpu)
    sf, sd, sw = training_gemms_s(shared, chip, c)
    separate = np.where(soft.fused_experts > 0, 0.0, 1.0)  # fused kernels quantise in the GEMM
    (qf, qb), (uf, ub) = cast_s(shared, chip, c), cast_s(routed, chip, c)
    launch_s = c.launch_moe_s + c.launch_expert_s * routed[0].count
    return ExpertLayer(
        forward=rf + sf,
        dgrad=rd + sd,
        wgrad=rw + sw,
        cast_forward=qf + separate * uf,
        cast_backward=qb + separate * ub,
        permute=permute_s(arch, layout, chip, soft, c),
        exchange=expert_comm_s(arch, layout, soft, net, c),
        launch=launch_s * np.where(soft.moe_overlap > 0, c.launch_overlap_ratio, 1.0),
    )


def permute_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software, c: TrainingConstants
) -> Array:
    """Return forward seconds of token permutation and of the experts' activation function."""
    routed = 2.0 * routed_tokens(arch, layout)
    separate = np.where(soft.fused_experts > 0, 0.0, 1.0)
    flex = np.where(soft.fused_experts > 0, 0.5, 1.0) * FLEX_PASSES
    passes = c.moe_pass_ratio * np.where(soft.deepep > 0, flex, PERMUTE_PASSES)
    bytes_ = (
        passes * routed * arch.hidden  # tokens into and out of expert order
        + routed * (2.0 + arch.gated) * arch.expert_ffn_hidden * separate  # activation (and gate)
        + c.expert_bias_passes * arch.expert_bias * routed * arch.expert_ffn_hidden  # biases
    )
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio * chip.elementwise_speed_ratio)


def expert_comm_s(
    arch: Architecture, layout: Layout, soft: Software, net: NetworkModel, c: TrainingConstants
) -> Array:
    """Return exposed seconds of dispatch and combine per MoE layer, forward and backward.

    With expert tensor parallelism, tokens are also all-gathered over the ranks of an expert.
    """
    size = 2.0 * routed_tokens(arch, layout) * arch.hidden
    sharing = layout.expert_tensor_parallel
    group = RankGroup(stride=sharing, copies=arch.experts_per_token, once=soft.deepep)
    dispatch = 4.0 * net.time_s("all-to-all", size, layout.ep, group)
    # Overlapped with another micro-batch's compute.
    overlaps = soft.moe_overlap * ((layout.virtual_pipeline > 1) | (layout.pp == 1))
    gather = 4.0 * net.time_s("all-gather", size * sharing, sharing)
    return dispatch * np.where(overlaps > 0, c.a2a_exposed, 1.0) * (layout.ep > 1) + gather * (
        sharing > 1
    )
