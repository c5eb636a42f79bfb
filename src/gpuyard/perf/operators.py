"""GEMMs and bytes of one transformer layer, per chip and micro-batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.perf.layout import Architecture, Array, Layout

ROPE_DIM = 64.0  # rotary part of a query or key in MLA (DeepSeek-V2/V3 config.json)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """`count` GEMMs of shape (m × k) @ (k × n) in the forward pass."""

    m: Array
    n: Array
    k: Array
    count: Array

    @property
    def flop(self) -> Array:
        return 2.0 * self.m * self.n * self.k * self.count


def micro_tokens(arch: Architecture, layout: Layout) -> Array:
    """Return the tokens per micro-batch of one tensor-parallel group."""
    return layout.micro_batch * arch.packed_sequence_tokens / layout.cp


def attention_gemms(arch: Architecture, layout: Layout) -> tuple[Gemm, ...]:
    """Return the QKV and output projections; low-rank ones for multi-head latent attention."""
    t, tp, one = micro_tokens(arch, layout), layout.tp, np.ones(())
    kv_local = np.maximum(arch.kv_heads / tp, 1.0)  # KV heads are replicated where tp exceeds them
    width = (arch.heads * arch.qk_head_dim) / tp + kv_local * (arch.qk_head_dim + arch.head_dim)
    share = arch.attention_ratio * one
    mla = (arch.kv_rank > 0) * share
    out = Gemm(m=t, n=arch.hidden * one, k=arch.heads * arch.head_dim / tp, count=share)
    qkv = Gemm(m=t, n=width, k=arch.hidden * one, count=share - mla)
    linear: tuple[Gemm, ...] = ()
    if np.any(arch.linear_ratio > 0):
        count = arch.linear_ratio * one
        linear = (
            Gemm(m=t, n=arch.linear_in / tp, k=arch.hidden * one, count=count),
            Gemm(m=t, n=arch.hidden * one, k=arch.linear_out / tp, count=count),
        )
    if not np.any(mla):
        return (qkv, out, *linear)
    down = np.maximum(arch.q_rank + arch.kv_rank + ROPE_DIM, 1.0)  # to latents, RoPE key
    query = arch.heads * arch.qk_head_dim / tp  # from the query latent
    up = (arch.qk_head_dim - ROPE_DIM + arch.head_dim) * arch.heads / tp  # keys and values
    return (
        qkv,
        out,
        Gemm(m=t, n=down, k=arch.hidden * one, count=mla),
        Gemm(m=t, n=query, k=_query_width(arch), count=mla),
        Gemm(m=t, n=up, k=np.maximum(arch.kv_rank, 1.0), count=mla),
        *linear,
    )


def _query_width(arch: Architecture) -> Array:
    """Return the input width of MLA's query projection: the query latent, or the hidden state."""
    return np.where(arch.q_rank > 0, arch.q_rank, arch.hidden)


def ffn_gemms(arch: Architecture, layout: Layout) -> tuple[Gemm, ...]:
    """Return the up (and gate) and down projections of a dense layer."""
    t, one = micro_tokens(arch, layout), np.ones(())
    f = np.maximum(arch.ffn_hidden, 1.0) / layout.tp
    return (
        Gemm(m=t, n=(1.0 + arch.gated) * f, k=arch.hidden * one, count=one),
        Gemm(m=t, n=arch.hidden * one, k=f, count=one),
    )


def routed_tokens(arch: Architecture, layout: Layout) -> Array:
    """Return the token copies per chip, MoE layer and micro-batch that are routed to experts."""
    return micro_tokens(arch, layout) / layout.tp * arch.experts_per_token


def moe_gemms(arch: Architecture, layout: Layout) -> tuple[Gemm, ...]:
    """Return the grouped GEMMs of the local experts, then the GEMMs of the shared expert."""
    local = np.maximum(arch.experts / layout.ep, 1.0)
    m = routed_tokens(arch, layout) * arch.capacity * layout.expert_tensor_parallel / local
    f = np.maximum(arch.expert_ffn_hidden, 1.0) / layout.expert_tensor_parallel
    t, one = micro_tokens(arch, layout), np.ones(())
    shared = np.maximum(arch.shared_ffn_hidden, 1.0) / layout.tp
    has = (arch.shared_ffn_hidden > 0) * one
    return (
        Gemm(m=m, n=(1.0 + arch.gated) * f, k=arch.hidden * one, count=local),
        Gemm(m=m, n=arch.hidden * one, k=f, count=local),
        Gemm(m=t, n=(1.0 + arch.gated) * shared, k=arch.hidden * one, count=has),
        Gemm(m=t, n=arch.hidden * one, k=shared, count=has),
    )


def lm_head_gemm(arch: Architecture, layout: Layout) -> Gemm:
    """Return the LM head: hidden to vocabulary."""
    one = np.ones(())
    return Gemm(
        m=micro_tokens(arch, layout), n=arch.vocab / layout.tp, k=arch.hidden * one, count=one
    )


def attention_pairs(arch: Architecture) -> Array:
    """Return the causal query-key pairs per token and head, averaged over layers.

    Linear attention updates and reads its state per token: as the pairs of equal FLOPs.
    """
    s = arch.attention_tokens
    w = np.minimum(arch.window_tokens + 128.0, s)  # kernels process blocks of 128 keys
    windowed = w - 0.5 * w * w / s  # pairs inside a causal band of width w
    pairs = arch.full_attention_ratio * 0.5 * s + (1.0 - arch.full_attention_ratio) * windowed
    states = 2.0 * arch.linear_state / (arch.heads * (arch.qk_head_dim + arch.head_dim))
    return arch.attention_ratio * pairs + arch.linear_ratio * states


def layer_parameters(arch: Architecture) -> tuple[Array, Array, Array, Array]:
    """Return parameters per layer: attention, dense FFN, routed experts, shared experts."""
    g = 2.0 + arch.gated
    plain = arch.hidden * (
        (arch.heads + arch.kv_heads) * arch.qk_head_dim
        + (arch.heads + arch.kv_heads) * arch.head_dim
    )
    mla = (
        arch.hidden * (arch.q_rank + arch.kv_rank + ROPE_DIM)  # down projections
        + _query_width(arch) * arch.heads * arch.qk_head_dim  # query up
        + arch.kv_rank * arch.heads * (arch.qk_head_dim - ROPE_DIM + arch.head_dim)  # key, value up
        + arch.heads * arch.head_dim * arch.hidden  # output
    )
    linear = arch.hidden * (arch.linear_in + arch.linear_out)
    softmax = np.where(arch.kv_rank > 0, mla, plain)
    attention = arch.attention_ratio * softmax + arch.linear_ratio * linear
    return (
        attention,
        g * arch.hidden * arch.ffn_hidden,
        g * arch.hidden * arch.expert_ffn_hidden * arch.experts,
        g * arch.hidden * arch.shared_ffn_hidden,
    )


def model_flop_per_token(arch: Architecture) -> float:
    """Return the model FLOPs per token, forward and backward: GEMMs and causal attention.

    As in PaLM's MFU (arXiv 2204.02311, appendix B) but with causal attention; adapters (LoRA) need
    no weight gradients.
    """
    attention, ffn, experts, shared = layer_parameters(arch)
    active = np.where(
        arch.experts > 0, experts * arch.experts_per_token / np.maximum(arch.experts, 1.0), 0.0
    )
    weights = (
        arch.layers * attention  # projections
        + (arch.layers - arch.moe_layers) * ffn  # plain MLPs
        + arch.moe_layers
        * (active + shared + arch.hidden * arch.experts)  # the experts a token goes to, router
        + arch.vocab * arch.hidden  # logits
    )
    pairs = arch.layers * attention_pairs(arch) * arch.heads * (arch.qk_head_dim + arch.head_dim)
    passes = 2.0 + arch.trains_weights  # forward, input gradient, weight gradient
    return float(2.0 * weights * passes + 2.0 * pairs * 3.0)
