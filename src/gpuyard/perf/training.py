"""Seconds of one training step and its parts; the parts add up to the step exactly."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from gpuyard.perf.collectives import ClosedForm, Group, NetworkModel
from gpuyard.perf.constants import Constants
from gpuyard.perf.experts import expert_layer
from gpuyard.perf.kernels import (
    cast_s,
    elementwise_s,
    flash_attention_s,
    products_s,
    score_attention_s,
)
from gpuyard.perf.layout import GENERATIONS, Architecture, Array, Layout, Machine, Software
from gpuyard.perf.operators import (
    attention_products,
    dense_ffn_products,
    layer_parameters,
    logit_product,
    micro_tokens,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Parts of a step, in seconds."""

    products_s: Array
    attention_s: Array
    elementwise_s: Array
    cast_s: Array
    recompute_s: Array
    launch_s: Array  # time the chip waits for the host to launch kernels
    tensor_parallel_s: Array
    context_parallel_s: Array
    expert_parallel_s: Array
    head_s: Array  # logits and loss, beyond what the other stages do meanwhile
    bubble_s: Array
    pipeline_send_s: Array
    data_parallel_s: Array
    optimizer_s: Array
    offload_s: Array  # traffic with the host's memory that compute does not hide
    overhead_s: Array  # step bookkeeping and stragglers

    @property
    def total_s(self) -> Array:
        """The step."""
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTime:
    """Mean layer, one micro-batch, forward plus backward, seconds."""

    products: Array
    attention: Array
    elementwise: Array
    cast: Array
    recompute: Array
    tensor: Array
    context: Array
    expert: Array
    launch: Array

    @property
    def total(self) -> Array:
        """All of it."""
        total: Array = np.zeros(())
        for f in fields(self):
            total = total + getattr(self, f.name)
        return total


def _attention(arch: Architecture, layout: Layout, chip: Machine, soft: Software, c: Constants) -> tuple[Array, Array]:
    ff, fb = flash_attention_s(arch, layout, chip, soft, c)
    if np.all(soft.flash > 0):
        return ff, fb
    sf, sb = score_attention_s(arch, layout, chip, c)
    return np.where(soft.flash > 0, ff, sf), np.where(soft.flash > 0, fb, sb)


def adapter_s(arch: Architecture, layout: Layout, chip: Machine, c: Constants) -> Array:
    """Low-rank adapters on every projection: read its input, write and add its output (memory bound)."""
    t = micro_tokens(arch, layout)
    read = 2.0 * arch.hidden + arch.heads * arch.head_dim + arch.ffn
    written = (arch.heads + 2.0 * arch.kv_heads) * arch.head_dim + 2.0 * arch.hidden + (1.0 + arch.gated) * arch.ffn
    bytes_ = 2.0 * t * (read + 3.0 * written) / layout.tp
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio) * (1.0 - arch.trains_weights)


def tensor_comm_s(arch: Architecture, layout: Layout, soft: Software, net: NetworkModel, c: Constants) -> Array:
    """Exposed tensor-parallel seconds of a layer: 2 all-reduces forward, 2 backward (Shoeybi 2019)."""
    size = 2.0 * micro_tokens(arch, layout) * arch.hidden
    once = 2.0 * net.time_s("all-reduce", size, layout.tp, Group(innermost=True))
    exposed = np.where(soft.tp_overlap > 0, c.tp_exposed, 1.0)
    return once * exposed * (2.0 + layout.recompute_comm) * (layout.tp > 1)


def context_comm_s(arch: Architecture, layout: Layout, attention_s: Array, net: NetworkModel, c: Constants) -> Array:
    """Keys and values around the context-parallel ring, beyond what attention hides."""
    kv = np.maximum(arch.kv_heads / layout.tp, 1.0) * (arch.qk_head_dim + arch.head_dim)
    size = 2.0 * micro_tokens(arch, layout) * layout.cp * kv
    group = Group(stride=layout.tp, calls=2.0 * (layout.cp - 1.0))  # a step per rank, for keys and for values
    comm = 3.0 * net.time_s("all-gather", size, layout.cp, group)
    return (np.maximum(comm - attention_s, 0.0) + c.contention * np.minimum(comm, attention_s)) * (layout.cp > 1)


def layer_time(
    arch: Architecture, layout: Layout, chip: Machine, soft: Software, net: NetworkModel, c: Constants
) -> LayerTime:
    """The mean layer, from dense and MoE layers in their proportion."""
    moe = arch.moe_layers / arch.layers
    proj = attention_products(arch, layout)
    ffn = dense_ffn_products(arch, layout)
    pf, pd, pw = products_s(proj, chip, c)
    ff, fd, fw = products_s(ffn, chip, c)
    cf, cb = cast_s((*proj, *ffn), chip, c)
    unfused = 1.0 - soft.fused
    ef, eb = elementwise_s(arch, layout, chip, unfused, c)
    expert: Array = np.zeros(())
    launch = c.launch_s * np.ones(())
    if np.any(moe > 0):
        x = expert_layer(arch, layout, chip, soft, net, c)
        ff, fd, fw = (1 - moe) * ff + moe * x.forward, (1 - moe) * fd + moe * x.dgrad, (1 - moe) * fw + moe * x.wgrad
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
    again = layout.recompute_gemm * (pf + ff + cf) + layout.recompute_attention * af + layout.recompute_elementwise * ef
    tensor = tensor_comm_s(arch, layout, soft, net, c)
    context = context_comm_s(arch, layout, af + ab, net, c)
    busy = gemm + af + ab + ef + eb + cf + cb + again + tensor + context + expert
    host = launch * (1.0 + layout.recompute_gemm / 3.0) * (1.0 - soft.graphs)
    host = host / soft.scalar  # which is the device's
    return LayerTime(
        products=gemm,
        attention=af + ab,
        elementwise=ef + eb,
        cast=cf + cb,
        recompute=again,
        tensor=tensor,
        context=context,
        expert=expert,
        launch=np.maximum(host - busy, 0.0),
    )


def head_s(arch: Architecture, layout: Layout, chip: Machine, c: Constants) -> Array:
    """Logits and cross entropy of one micro-batch; about 16 bytes a logit pass through HBM."""
    product = logit_product(arch, layout)
    plain = replace(chip, gemm_flop_per_s=chip.bf16_flop_per_s, gemm_ratio=chip.bf16_ratio, gemm_bytes=np.full((), 2.0))
    f, d, w = products_s((product,), plain, c)  # in bf16 whatever the layers use
    loss = 16.0 * product.m * product.n / (chip.hbm_bytes_per_s * c.hbm_ratio)
    return (f + d + w * arch.trains_weights + loss) * (1.0 + arch.mtp)


def stage_layers(arch: Architecture, layout: Layout) -> tuple[Array, Array]:
    """Layers of the fullest stage and of the last one; embedding and head count as layers when that divides."""
    even = arch.layers % layout.pp == 0
    padded = ((arch.layers + 2.0) % layout.pp == 0) & ~even
    most = np.where(padded, (arch.layers + 2.0) / layout.pp, np.ceil(arch.layers / layout.pp))
    last = np.where(even, most, most - 1.0)
    return most, np.where(layout.pp > 1, last, most)


def local_parameters(arch: Architecture, layout: Layout) -> tuple[Array, Array]:
    """Parameters on one chip before sharding over data-parallel ranks: dense part, expert part."""
    attention, ffn, experts, shared = layer_parameters(arch)
    moe = arch.moe_layers / arch.layers
    dense = (attention + (1.0 - moe) * ffn + moe * shared) * arch.layers / layout.pp
    embed = arch.vocab * arch.hidden * np.where(layout.pp > 1, 1.0, 2.0 - arch.tied_embedding)
    return (dense + embed) / layout.tp, moe * experts * arch.layers / (layout.pp * layout.ep * layout.etp)


def data_parallel_s(
    arch: Architecture, layout: Layout, soft: Software, micro_s: Array, net: NetworkModel, c: Constants
) -> Array:
    """Exposed seconds of gradient reduction and parameter gathering in one step."""
    dense, experts = local_parameters(arch, layout)
    ranks = layout.dp * layout.cp
    expert_ranks = np.maximum(ranks * layout.tp / (layout.ep * layout.etp), 1.0)
    shard = np.minimum(layout.shard_ranks, ranks)
    near = Group(stride=layout.tp, calls=arch.layers / layout.pp)
    grad = net.time_s("reduce-scatter", soft.grad_bytes * dense, ranks, near)
    param = net.time_s("all-gather", 2.0 * dense, shard, near)
    rest = np.where(shard > 1, param, 0.0)
    rest = np.where(shard < ranks, grad, 0.0) + rest  # replicas gather what was scattered
    spread = replace(near, stride=layout.ep * layout.etp)
    egrad = net.time_s("all-gather", (soft.grad_bytes + 2.0) * experts, expert_ranks, spread)
    comm = (grad + rest + egrad) * (ranks > 1)
    window = micro_s
    hidden = np.minimum(comm, window)
    ddp = np.where(soft.dp_overlap > 0, comm - hidden + c.dp_exposed * hidden, comm)
    ddp = ddp + soft.shard_broadcast * c.broadcast_s * np.where(shard > 1, shard, 0.0)
    ports = replace(near, one_port=soft.one_port)
    gather = net.time_s("all-gather", 2.0 * (dense + experts), shard, ports)
    scatter = net.time_s("reduce-scatter", soft.grad_bytes * (dense + experts), shard, ports) * arch.trains_weights
    copies = Group(stride=layout.tp * shard)
    replica = net.time_s("all-reduce", soft.grad_bytes * dense / shard, ranks / shard, copies) * arch.trains_weights
    wire = 2.0 * gather + scatter
    fsdp = (
        layout.grad_accum * (np.maximum(wire - micro_s, 0.0) + c.contention * np.minimum(wire, micro_s))
        + np.maximum(replica - 0.5 * micro_s, 0.0)
        + c.dp_exposed * np.minimum(replica, 0.5 * micro_s)
    )
    return np.where(layout.fsdp > 0, fsdp, ddp * arch.trains_weights)


def accumulate_s(arch: Architecture, layout: Layout, chip: Machine, soft: Software, c: Constants) -> Array:
    """Adding one micro-batch's gradients to the buffer where that is a kernel of its own: 12 bytes a parameter."""
    dense, experts = local_parameters(arch, layout)
    each = 12.0 * (dense + experts) / (chip.hbm_bytes_per_s * c.hbm_ratio)
    own = np.where((layout.fsdp == 0) & (soft.dist_opt == 0), 1.0, 0.0)
    return each * own * arch.trains_weights


def optimizer_s(arch: Architecture, layout: Layout, chip: Machine, c: Constants) -> Array:
    """Adam in fp32: 30 bytes per sharded parameter, 8 per local one (gradient zeroing and norm)."""
    dense, experts = local_parameters(arch, layout)
    shard = np.maximum(layout.shard_ranks, 1.0)
    eshard = np.maximum(np.minimum(shard, layout.dp * layout.cp * layout.tp / (layout.ep * layout.etp)), 1.0)
    local = np.where(layout.fsdp > 0, 1.0 / shard, 1.0)
    bytes_ = 30.0 * (dense / shard + experts / eshard) + 8.0 * (dense + experts) * local
    return bytes_ / (chip.hbm_bytes_per_s * c.hbm_ratio) * arch.trains_weights


def offload_s(arch: Architecture, layout: Layout, chip: Machine, micro_s: Array) -> Array:
    """Exposed seconds of optimizer state and activations that live in the host's memory.

    The state is streamed in and out, both ways at once, after the gradients are known: nothing hides it. Activations
    leave during the forward pass and return during the backward: what exceeds a micro-batch's time is exposed.
    """
    rate = np.maximum(chip.host_bytes_per_s, 1e-30)  # a link that is not known carries nothing: the step never ends
    dense, experts = local_parameters(arch, layout)
    state = 12.0 * (dense + experts) / np.maximum(layout.shard_ranks, 1.0) * layout.offload_optimizer / rate
    state = state * arch.trains_weights
    wide = 2.0 * (2.0 + arch.gated) * np.maximum(arch.ffn, arch.expert_ffn * arch.experts_per_token) / layout.tp
    whole = 8.0 * arch.hidden / np.where(layout.seq_parallel > 0, layout.tp, 1.0)  # norms' inputs and outputs, 2 B each
    sent = micro_tokens(arch, layout) * (wide + whole) * arch.layers / layout.pp * layout.offload_activation / rate
    return state + layout.grad_accum * np.maximum(2.0 * sent - micro_s, 0.0)


def step_time(
    arch: Architecture,
    layout: Layout,
    chip: Machine,
    soft: Software,
    c: Constants,
    network: NetworkModel | None = None,
) -> StepTime:
    """One optimizer step; without a network model, collectives take what the closed forms say."""
    net = network or ClosedForm(chip=chip, constants=c)
    layer = layer_time(arch, layout, chip, soft, net, c)
    each = layer.total
    head = head_s(arch, layout, chip, c)
    most, last = stage_layers(arch, layout)
    stage = np.maximum(most * each, last * each + head)
    dealt = np.maximum(most * each, (arch.layers * each + head) / layout.pp)  # the head counted at its weight
    uneven = (arch.layers % layout.pp != 0) & ((arch.layers + 2.0) % layout.pp != 0)
    stage = np.where(uneven | (arch.mtp > 0), dealt, stage)
    whole = arch.layers * each + head
    carried = 2.0 * micro_tokens(arch, layout) * arch.hidden / layout.tp
    send = net.time_s("send", carried, layout.pp, Group(stride=layout.chips / layout.pp)) * (layout.pp > 1)
    exposed = np.where(soft.p2p_overlap * (layout.vpp > 1) > 0, c.p2p_exposed, 1.0)
    sends = send * (2.0 * layout.vpp * layout.grad_accum * exposed + 2.0 * (layout.pp - 1.0))
    n = layout.grad_accum * most
    bubble = np.maximum(whole - stage, 0.0) / layout.vpp * (layout.pp > 1)
    data = data_parallel_s(arch, layout, soft, stage, net, c)
    update = optimizer_s(arch, layout, chip, c) + layout.grad_accum * accumulate_s(arch, layout, chip, soft, c)
    s = soft.scalar
    busy = layout.grad_accum * stage + bubble + sends + data + update
    slices = np.log2(np.maximum(layout.chips / chip.scaleup_chips, 1.0))
    tpu = chip.generation == GENERATIONS.index("tpu")
    slow = np.where(tpu, c.slice_straggler, c.straggler) * slices * busy
    return StepTime(
        products_s=s * n * layer.products,
        attention_s=s * n * layer.attention,
        elementwise_s=s * n * layer.elementwise,
        cast_s=s * n * layer.cast,
        recompute_s=s * n * layer.recompute,
        launch_s=s * n * layer.launch,
        tensor_parallel_s=s * n * layer.tensor,
        context_parallel_s=s * n * layer.context,
        expert_parallel_s=s * n * layer.expert,
        head_s=s * layout.grad_accum * (stage - most * each),
        bubble_s=s * bubble,
        pipeline_send_s=s * sends,
        data_parallel_s=s * data,
        optimizer_s=s * update,
        offload_s=offload_s(arch, layout, chip, s * (stage + data / layout.grad_accum)),
        overhead_s=s * (slow + c.step_s * (1.0 - soft.graphs)),
    )
