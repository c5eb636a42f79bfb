"""The layer of a mixture of experts: grouped products, permutation of tokens, dispatch and combine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuyard.perf.collectives import Group, NetworkModel
from gpuyard.perf.constants import Constants
from gpuyard.perf.kernels import cast_s, products_s
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Machine, Software
from gpuyard.perf.operators import moe_products, routed_tokens

__all__ = ["ExpertLayer", "expert_layer"]

PERMUTE_PASSES = 8.0  # over routed tokens: permute, sort by local expert, and both undone, each read and write
FLEX_PASSES = 4.0  # a fused dispatcher only permutes on arrival and before it sends back


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLayer:
    """Seconds of one layer of experts and one micro-batch, attention not counted."""

    forward: Array
    dgrad: Array
    wgrad: Array
    cast_forward: Array
    cast_backward: Array
    permute: Array  # forward; the backward takes twice as long
    exchange: Array  # forward and backward, what is not hidden
    launch: Array  # of the host


def expert_layer(
    arch: Architecture, layout: Layout, chip: Machine, soft: Software, net: NetworkModel, c: Constants
) -> ExpertLayer:
    """The parts of one layer of experts."""
    products = moe_products(arch, layout)
    routed, shared = products[:2], products[2:]
    gpu = chip.generation != GENERATIONS.index("tpu")  # one batched product there
    ratio = np.where(chip.gemm_bytes < 2.0, c.grouped_low_ratio, 1.0)
    ratio = np.where(soft.fused_experts > 0, c.grouped_fused_ratio, ratio)
    own = replace(chip, gemm_ratio=chip.gemm_ratio * np.where(gpu, ratio, 1.0))
    sums = np.where(gpu, 2.0 * soft.grad_state_bytes, 8.0)  # read and written per weight to add its gradient
    rf, rd, rw = products_s(routed, own, c, sums, gpu)
    sf, sd, sw = products_s(shared, chip, c)
    separate = np.where(soft.fused_experts > 0, 0.0, 1.0)  # a fused kernel quantises as it goes
    (qf, qb), (uf, ub) = cast_s(shared, chip, c), cast_s(routed, chip, c)
    each = c.launch_moe_s + c.launch_expert_s * routed[0].count
    return ExpertLayer(
        forward=rf + sf,
        dgrad=rd + sd,
        wgrad=rw + sw,
        cast_forward=qf + separate * uf,
        cast_backward=qb + separate * ub,
        permute=permute_s(arch, layout, chip, soft, c),
        exchange=expert_comm_s(arch, layout, soft, net, c),
        launch=each * np.where(soft.moe_overlap > 0, c.launch_overlap_ratio, 1.0),
    )


def permute_s(arch: Architecture, layout: Layout, chip: Machine, soft: Software, c: Constants) -> Array:
    """Forward seconds of moving routed tokens in memory, and of the activation between the two products."""
    routed = 2.0 * routed_tokens(arch, layout)
    separate = np.where(soft.fused_experts > 0, 0.0, 1.0)
    flex = np.where(soft.fused_experts > 0, 0.5, 1.0) * FLEX_PASSES
    passes = c.moe_pass_ratio * np.where(soft.deepep > 0, flex, PERMUTE_PASSES)
    bytes_ = (
        passes * routed * arch.hidden  # tokens in and out of the experts' order
        + routed * (2.0 + arch.gated) * arch.expert_ffn * separate  # activation (and gate)
        + c.expert_bias_passes * arch.expert_bias * routed * arch.expert_ffn  # biases
    )
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio * chip.speed)


def expert_comm_s(arch: Architecture, layout: Layout, soft: Software, net: NetworkModel, c: Constants) -> Array:
    """Dispatch and combine, forward and backward, of one MoE layer; gathers over the chips that share an expert."""
    size = 2.0 * routed_tokens(arch, layout) * arch.hidden
    group = Group(stride=layout.etp, copies=arch.experts_per_token, once=soft.deepep)
    once = 4.0 * net.time_s("all-to-all", size, layout.ep, group)
    hides = soft.moe_overlap * ((layout.vpp > 1) | (layout.pp == 1))  # behind another micro-batch's compute
    shared = 4.0 * net.time_s("all-gather", size * layout.etp, layout.etp)
    return once * np.where(hides > 0, c.a2a_exposed, 1.0) * (layout.ep > 1) + shared * (layout.etp > 1)
