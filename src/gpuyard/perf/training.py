"""Optimizer step time and its terms.

Idea: the time of one layer and micro-batch is a sum of rooflines, exposed communication and kernel
launch overhead; a pipeline repeats its slowest stage, plus the bubble; data parallelism and the
optimizer follow once per step.
Invariant: the terms of `StepTime` add up to the step time exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from gpuyard.perf.collectives import ClosedForm, NetworkModel, RankGroup
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.data_parallel import (
    accumulate_s,
    data_parallel_s,
    local_parameters,
    optimizer_s,
)
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.moe import expert_layer
from gpuyard.perf.operators import (
    attention_gemms,
    ffn_gemms,
    lm_head_gemm,
    micro_tokens,
)
from gpuyard.perf.pipeline_parallel import (
    bubble_s,
    slowest_stage_s,
    stage_layers,
    stage_sends_s,
)
from gpuyard.perf.roofline import (
    cast_s,
    elementwise_s,
    flash_attention_s,
    training_gemms_s,
    unfused_attention_s,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Terms of an optimizer step; they add up to the step time."""

    matmul_s: Array
    attention_s: Array
    elementwise_s: Array
    cast_s: Array
    recompute_s: Array
    launch_s: Array  # kernel launch overhead: the chip waits for the host
    tensor_parallel_s: Array
    context_parallel_s: Array
    expert_parallel_s: Array
    lm_head_s: Array  # logits and loss, as far as the last stage becomes the slowest
    pipeline_bubble_s: Array
    pipeline_send_s: Array
    data_parallel_s: Array
    optimizer_s: Array
    offload_s: Array  # exposed transfers to and from host memory
    overhead_s: Array  # step bookkeeping and stragglers

    @property
    def total_s(self) -> Array:
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Terms of the mean layer, one micro-batch, forward and backward."""

    matmul_s: Array
    attention_s: Array
    elementwise_s: Array
    cast_s: Array
    recompute_s: Array
    tensor_parallel_s: Array
    context_parallel_s: Array
    expert_parallel_s: Array
    launch_s: Array

    @property
    def total_s(self) -> Array:
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


def _attention(
    arch: Architecture, layout: Layout, chip: TrainingChip, soft: Software, c: TrainingConstants
) -> tuple[Array, Array]:
    ff, fb = flash_attention_s(arch, layout, chip, soft, c)
    if np.all(soft.flash > 0):
        return ff, fb
    sf, sb = unfused_attention_s(arch, layout, chip, c)
    return np.where(soft.flash > 0, ff, sf), np.where(soft.flash > 0, fb, sb)


def adapter_s(
    arch: Architecture, layout: Layout, chip: TrainingChip, c: TrainingConstants
) -> Array:
    """Return the forward seconds of LoRA adapters (memory-bound)."""
    t = micro_tokens(arch, layout)
    read = arch.hidden + arch.heads * arch.head_dim
    written = (arch.heads + 2.0 * arch.kv_heads) * arch.head_dim + arch.hidden
    read = read + arch.adapts_ffn * (arch.hidden + arch.ffn_hidden)
    written = written + arch.adapts_ffn * (arch.hidden + (1.0 + arch.gated) * arch.ffn_hidden)
    bytes_ = 2.0 * t * (read + 3.0 * written) / layout.tp
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio) * (1.0 - arch.trains_weights)


def tensor_comm_s(
    arch: Architecture, layout: Layout, soft: Software, net: NetworkModel, c: TrainingConstants
) -> Array:
    """Return exposed tensor-parallel seconds of a layer: 2 + 2 all-reduces (Shoeybi 2019)."""
    size = 2.0 * micro_tokens(arch, layout) * arch.hidden
    once = 2.0 * net.time_s("all-reduce", size, layout.tp, RankGroup(innermost=True))
    exposed = np.where(soft.tp_overlap > 0, c.tp_exposed, 1.0)
    return once * exposed * (2.0 + layout.recompute_comm) * (layout.tp > 1)


def context_comm_s(
    arch: Architecture, layout: Layout, attention_s: Array, net: NetworkModel, c: TrainingConstants
) -> Array:
    """Return exposed seconds of the KV ring of context parallelism, overlapped with attention."""
    kv = np.maximum(arch.kv_heads / layout.tp, 1.0) * (arch.qk_head_dim + arch.head_dim)
    size = 2.0 * micro_tokens(arch, layout) * layout.cp * kv
    # One message per rank, for keys and for values.
    group = RankGroup(stride=layout.tp, calls=2.0 * (layout.cp - 1.0))
    comm = 3.0 * net.time_s("all-gather", size, layout.cp, group)
    exposed = np.maximum(comm - attention_s, 0.0)
    contention = c.contention * np.minimum(comm, attention_s)
    return (exposed + contention) * (layout.cp > 1)


def layer_time(
    arch: Architecture,
    layout: Layout,
    chip: TrainingChip,
    soft: Software,
    net: NetworkModel,
    c: TrainingConstants,
) -> LayerTime:
    """Return the terms of the mean layer: dense and MoE layers in proportion.

    Names are two letters. First: p projections, f FFN, c casts, e elementwise, a attention, x
    experts. Second: f forward, b backward, d dgrad, w wgrad.
    """
    moe = arch.moe_layers / arch.layers
    proj = attention_gemms(arch, layout)
    ffn = ffn_gemms(arch, layout)
    pf, pd, pw = training_gemms_s(proj, chip, c)
    ff, fd, fw = training_gemms_s(ffn, chip, c)
    cf, cb = cast_s((*proj, *ffn), chip, c)
    # Frozen weights need no column copy of an operand: that of the weight gradient.
    copies = 1.0 - 0.25 * (1.0 - arch.trains_weights)
    cf, cb = cf * copies, cb * copies
    unfused = 1.0 - soft.fused
    ef, eb = elementwise_s(arch, layout, chip, unfused, c)
    expert: Array = np.zeros(())
    launch = c.launch_s * np.ones(())
    if np.any(moe > 0):
        x = expert_layer(arch, layout, chip, soft, net, c)
        ff = (1 - moe) * ff + moe * x.forward
        fd = (1 - moe) * fd + moe * x.dgrad
        fw = (1 - moe) * fw + moe * x.wgrad
        xf, xb = cast_s(proj, chip, c)
        cf = (1 - moe) * cf + moe * (xf + x.cast_forward)
        cb = (1 - moe) * cb + moe * (xb + x.cast_backward)
        ef, eb = ef + moe * x.permute, eb + 2.0 * moe * x.permute
        expert = moe * x.exchange
        launch = launch + moe * x.launch
    lora = adapter_s(arch, layout, chip, c)
    ef, eb = ef + lora, eb + 2.0 * lora
    af, ab = _attention(arch, layout, chip, soft, c)
    gemm = pf + ff + pd + fd + (pw + fw) * arch.trains_weights
    recomputed = (
        layout.recompute_gemm * (pf + ff + cf)
        + layout.recompute_attention * af
        + layout.recompute_elementwise * ef
    )
    tensor = tensor_comm_s(arch, layout, soft, net, c)
    context = context_comm_s(arch, layout, af + ab, net, c)
    busy = gemm + af + ab + ef + eb + cf + cb + recomputed + tensor + context + expert
    host = launch * (1.0 + layout.recompute_gemm / 3.0) * (1.0 - soft.graphs)
    host = host / soft.scalar  # the scalar applies to device time only
    return LayerTime(
        matmul_s=gemm,
        attention_s=af + ab,
        elementwise_s=ef + eb,
        cast_s=cf + cb,
        recompute_s=recomputed,
        tensor_parallel_s=tensor,
        context_parallel_s=context,
        expert_parallel_s=expert,
        launch_s=np.maximum(host - busy, 0.0),
    )


def head_s(arch: Architecture, layout: Layout, chip: TrainingChip, c: TrainingConstants) -> Array:
    """Return the seconds of LM head and loss per micro-batch; 16 bytes per logit through HBM."""
    gemm = lm_head_gemm(arch, layout)
    plain = replace(
        chip,
        gemm_flop_per_s=chip.bf16_flop_per_s,
        gemm_ratio=chip.bf16_ratio,
        gemm_bytes=np.full((), 2.0),
    )
    f, d, w = training_gemms_s((gemm,), plain, c)  # in bf16, whatever the layers use
    loss = 16.0 * gemm.m * gemm.n / (chip.hbm_bytes_per_s * c.hbm_ratio)
    return (f + d + w * arch.trains_weights + loss) * (1.0 + arch.mtp)


def offload_s(arch: Architecture, layout: Layout, chip: TrainingChip, micro_s: Array) -> Array:
    """Return exposed seconds of optimizer state and activations in host memory.

    The state is streamed in and out, full duplex, after the backward pass: nothing overlaps.
    Activations are sent in the forward pass and fetched in the backward pass; the part beyond the
    time of a micro-batch is exposed.
    """
    rate = np.maximum(chip.host_bytes_per_s, 1e-30)  # unknown link: the step never ends
    dense, experts = local_parameters(arch, layout)
    state = (
        12.0  # bytes per parameter
        * (dense + experts)
        / np.maximum(layout.shard_ranks, 1.0)
        * layout.offload_optimizer
        / rate
    )
    state = state * arch.trains_weights
    ffn = np.maximum(arch.ffn_hidden, arch.expert_ffn_hidden * arch.experts_per_token)
    inner = 2.0 * (2.0 + arch.gated) * ffn / layout.tp
    # Inputs and outputs of norms, 2 bytes each.
    residual = 8.0 * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)
    sent = (
        micro_tokens(arch, layout)
        * (inner + residual)  # bytes per token and layer
        * arch.layers
        / layout.pp
        * layout.offload_activation
        / rate
    )
    return state + layout.grad_accum * np.maximum(2.0 * sent - micro_s, 0.0)


def step_time(
    arch: Architecture,
    layout: Layout,
    chip: TrainingChip,
    soft: Software,
    c: TrainingConstants,
    network: NetworkModel | None = None,
) -> StepTime:
    """Return the terms of an optimizer step; without `network`, collectives are closed forms."""
    net = network or ClosedForm(chip=chip, constants=c)
    layer = layer_time(arch, layout, chip, soft, net, c)
    layer_s = layer.total_s
    head = head_s(arch, layout, chip, c)
    largest, _ = stage_layers(arch, layout)
    stage = slowest_stage_s(arch, layout, layer_s, head)
    sends = stage_sends_s(arch, layout, soft, net, c)
    n = layout.grad_accum * largest
    bubble = bubble_s(arch, layout, layer_s, head, stage)
    data = data_parallel_s(arch, layout, soft, stage, net, c)
    update = optimizer_s(arch, layout, chip, c) + layout.grad_accum * accumulate_s(
        arch, layout, chip, soft, c
    )
    s = soft.scalar
    busy = layout.grad_accum * stage + bubble + sends + data + update
    slices = np.log2(np.maximum(layout.chips / chip.scaleup_chips, 1.0))
    tpu = chip.generation == GENERATIONS.index("tpu")
    straggler = np.where(tpu, c.slice_straggler, c.straggler) * slices * busy
    return StepTime(
        matmul_s=s * n * layer.matmul_s,
        attention_s=s * n * layer.attention_s,
        elementwise_s=s * n * layer.elementwise_s,
        cast_s=s * n * layer.cast_s,
        recompute_s=s * n * layer.recompute_s,
        launch_s=s * n * layer.launch_s,
        tensor_parallel_s=s * n * layer.tensor_parallel_s,
        context_parallel_s=s * n * layer.context_parallel_s,
        expert_parallel_s=s * n * layer.expert_parallel_s,
        lm_head_s=s * layout.grad_accum * (stage - largest * layer_s),
        pipeline_bubble_s=s * bubble,
        pipeline_send_s=s * sends,
        data_parallel_s=s * data,
        optimizer_s=s * update,
        offload_s=offload_s(arch, layout, chip, s * (stage + data / layout.grad_accum)),
        overhead_s=s * (straggler + c.step_s * (1.0 - soft.graphs)),
    )
