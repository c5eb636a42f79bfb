"""Matrix products and bytes of one transformer layer, per chip and micro-batch, from the architecture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.perf.layout import Architecture, Array, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """count matrix products of shape (m x k) @ (k x n) in the forward pass."""

    m: Array
    n: Array
    k: Array
    count: Array

    @property
    def flop(self) -> Array:
        """Floating-point operations of the forward pass."""
        return 2.0 * self.m * self.n * self.k * self.count


def micro_tokens(arch: Architecture, layout: Layout) -> Array:
    """Tokens one chip's tensor-parallel group works on per micro-batch."""
    return layout.micro_batch * arch.seq_tokens / layout.cp


def attention_products(arch: Architecture, layout: Layout) -> tuple[Product, ...]:
    """Query, key, value and output projections; low-rank ones for latent attention."""
    t, tp, one = micro_tokens(arch, layout), layout.tp, np.ones(())
    kv_local = np.maximum(arch.kv_heads / tp, 1.0)  # key-value heads are copied when tp exceeds them
    width = (arch.heads * arch.qk_head_dim) / tp + kv_local * (arch.qk_head_dim + arch.head_dim)
    mla = (arch.kv_rank > 0) * one
    out = Product(m=t, n=arch.hidden * one, k=arch.heads * arch.head_dim / tp, count=one)
    qkv = Product(m=t, n=width, k=arch.hidden * one, count=1.0 - mla)
    if not np.any(mla):
        return qkv, out
    rope = 64.0
    up = (arch.qk_head_dim - rope + arch.head_dim) * arch.heads / tp
    return (
        qkv,
        out,
        Product(m=t, n=np.maximum(arch.q_rank + arch.kv_rank + rope, 1.0), k=arch.hidden * one, count=mla),  # down
        Product(m=t, n=arch.heads * arch.qk_head_dim / tp, k=_query_width(arch), count=mla),  # query up
        Product(m=t, n=up, k=np.maximum(arch.kv_rank, 1.0), count=mla),  # key and value up
    )


def _query_width(arch: Architecture) -> Array:
    """What queries are made from in latent attention: their own latent, or the stream where there is none."""
    return np.where(arch.q_rank > 0, arch.q_rank, arch.hidden)


def dense_ffn_products(arch: Architecture, layout: Layout) -> tuple[Product, ...]:
    """Up (with gate) and down projections of a dense layer."""
    t, one = micro_tokens(arch, layout), np.ones(())
    f = np.maximum(arch.ffn, 1.0) / layout.tp
    return (
        Product(m=t, n=(1.0 + arch.gated) * f, k=arch.hidden * one, count=one),
        Product(m=t, n=arch.hidden * one, k=f, count=one),
    )


def routed_tokens(arch: Architecture, layout: Layout) -> Array:
    """Token copies a chip sends to experts per MoE layer and micro-batch."""
    return micro_tokens(arch, layout) / layout.tp * arch.experts_per_token


def moe_products(arch: Architecture, layout: Layout) -> tuple[Product, ...]:
    """Grouped products of the local experts, then the shared expert; etp chips share an expert and its tokens."""
    local = np.maximum(arch.experts / layout.ep, 1.0)
    m = routed_tokens(arch, layout) * arch.capacity * layout.etp / local
    f, t, one = np.maximum(arch.expert_ffn, 1.0) / layout.etp, micro_tokens(arch, layout), np.ones(())
    shared = np.maximum(arch.shared_ffn, 1.0) / layout.tp
    has = (arch.shared_ffn > 0) * one
    return (
        Product(m=m, n=(1.0 + arch.gated) * f, k=arch.hidden * one, count=local),
        Product(m=m, n=arch.hidden * one, k=f, count=local),
        Product(m=t, n=(1.0 + arch.gated) * shared, k=arch.hidden * one, count=has),
        Product(m=t, n=arch.hidden * one, k=shared, count=has),
    )


def logit_product(arch: Architecture, layout: Layout) -> Product:
    """Hidden to vocabulary."""
    one = np.ones(())
    return Product(m=micro_tokens(arch, layout), n=arch.vocab / layout.tp, k=arch.hidden * one, count=one)


def attention_pairs(arch: Architecture) -> Array:
    """Query-key pairs per token and head, causal, averaged over layers."""
    s = arch.sequence_tokens
    w = np.minimum(arch.window_tokens + 128.0, s)  # kernels work in blocks of 128 keys
    windowed = w - 0.5 * w * w / s  # pairs inside a causal band of width w
    return arch.full_attention_ratio * 0.5 * s + (1.0 - arch.full_attention_ratio) * windowed


def layer_parameters(arch: Architecture) -> tuple[Array, Array, Array, Array]:
    """Parameters of attention, dense feed-forward, routed experts and shared experts of one layer."""
    g = 2.0 + arch.gated
    plain = arch.hidden * (
        (arch.heads + arch.kv_heads) * arch.qk_head_dim + (arch.heads + arch.kv_heads) * arch.head_dim
    )
    rope = 64.0
    mla = (
        arch.hidden * (arch.q_rank + arch.kv_rank + rope)  # down projections
        + _query_width(arch) * arch.heads * arch.qk_head_dim  # query up
        + arch.kv_rank * arch.heads * (arch.qk_head_dim - rope + arch.head_dim)  # key, value up
        + arch.heads * arch.head_dim * arch.hidden  # output
    )
    attention = np.where(arch.kv_rank > 0, mla, plain)
    return (
        attention,
        g * arch.hidden * arch.ffn,
        g * arch.hidden * arch.expert_ffn * arch.experts,
        g * arch.hidden * arch.shared_ffn,
    )


def model_flop_per_token(arch: Architecture) -> float:
    """Useful operations of one token, forward and backward: matrix products and causal attention (PaLM's MFU,
    arXiv 2204.02311, appendix B, with causal attention); adapters need no gradients of the weights."""
    attention, ffn, experts, shared = layer_parameters(arch)
    active = np.where(arch.experts > 0, experts * arch.experts_per_token / np.maximum(arch.experts, 1.0), 0.0)
    weights = (
        arch.layers * attention  # projections
        + (arch.layers - arch.moe_layers) * ffn  # plain MLPs
        + arch.moe_layers * (active + shared + arch.hidden * arch.experts)  # the experts a token goes to, router
        + arch.vocab * arch.hidden  # logits
    )
    pairs = arch.layers * attention_pairs(arch) * arch.heads * (arch.qk_head_dim + arch.head_dim)
    passes = 2.0 + arch.trains_weights  # forward, input gradient, weight gradient
    return float(2.0 * weights * passes + 2.0 * pairs * 3.0)
