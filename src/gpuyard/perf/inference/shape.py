"""Shape of a served decoder, as the cost model needs it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.catalog.models import Transformer


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderShape:
    """A decoder-only transformer with full, sliding-window or linear attention layers."""

    layers: float
    hidden: float
    heads: float
    kv_heads: float
    head_dim: float  # value head dimension
    ffn: float  # of a dense layer
    vocab: float
    gated: bool = True
    tied: bool = False
    window_layers: float = 0.0
    window_tokens: float = 0.0
    linear_layers: float = 0.0  # linear attention: a state, no KV cache
    experts: float = 0.0
    experts_per_token: float = 0.0
    expert_ffn: float = 0.0
    shared_ffn: float = 0.0  # all shared experts together
    expert_layers: float = 0.0
    q_rank: float = 0.0
    kv_rank: float = 0.0  # above 0: multi-head latent attention
    rope_dim: float = 0.0
    nope_dim: float = 0.0
    sparse_tokens: float = 0.0  # tokens selected by sparse attention; 0: dense attention
    head_norms: bool = False  # norms of queries and keys
    joint_norms: bool = False  # over all heads: an all-reduce per norm

    @property
    def full_layers(self) -> float:
        return self.layers - self.window_layers - self.linear_layers

    @property
    def matrices(self) -> float:
        return 3.0 if self.gated else 2.0

    @property
    def attention_parameters(self) -> float:
        if self.kv_rank:
            queries = self.heads * (self.nope_dim + self.rope_dim)
            return self.layers * (
                (
                    self.hidden * self.q_rank + self.q_rank * queries
                    if self.q_rank
                    else self.hidden * queries
                )
                + self.hidden
                * (self.kv_rank + self.rope_dim)  # down to the latent and the rotary key
                + self.kv_rank
                * self.heads
                * (self.nope_dim + self.head_dim)  # up to keys and values
                + self.heads * self.head_dim * self.hidden  # output
            )
        plain = self.hidden * self.head_dim * 2.0 * (self.heads + self.kv_heads)
        return (
            self.layers - self.linear_layers
        ) * plain + self.linear_layers * LINEAR_MATRICES * self.hidden**2

    @property
    def mlp_parameters(self) -> float:
        """Weights of dense FFNs and shared experts."""
        return (
            self.matrices
            * self.hidden
            * ((self.layers - self.expert_layers) * self.ffn + self.expert_layers * self.shared_ffn)
        )

    @property
    def expert_parameters(self) -> float:
        return self.expert_layers * self.experts * self.matrices * self.hidden * self.expert_ffn

    @property
    def head_parameters(self) -> float:
        return self.vocab * self.hidden

    @property
    def parameters(self) -> float:
        """All weights without norms and routers."""
        table = 0.0 if self.tied else self.head_parameters
        return (
            self.attention_parameters
            + self.mlp_parameters
            + self.expert_parameters
            + self.head_parameters
            + table
        )


# Gated delta layers of Qwen3-Next (config.json: 16 key and 32 value heads of 128, hidden 2,048):
# queries and keys of half the hidden size, values and gate of twice the hidden size, output.
LINEAR_MATRICES = 7.0
LINEAR_STATE_WIDTH = 256.0  # state elements per hidden unit: 2 × hidden values × key dimension 128


def shape_of(model: Transformer) -> DecoderShape:
    """Return the catalog's shape as the cost model needs it."""
    moe, mla = model.moe, model.mla
    window = model.sliding_window_tokens
    every = model.full_attention_every
    full = float(model.layers) if window is None else float(model.layers // every) if every else 0.0
    return DecoderShape(
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.key_value_heads,
        head_dim=mla.value_dim if mla else model.head_width,
        ffn=model.ffn,
        vocab=model.vocab,
        gated=model.gated,
        tied=model.tied_embeddings,
        window_layers=model.layers - full,
        window_tokens=window or 0,
        experts=moe.experts if moe else 0,
        experts_per_token=moe.top_k if moe else 0,
        expert_ffn=moe.expert_ffn if moe else 0,
        shared_ffn=moe.shared_experts * (moe.shared_ffn or moe.expert_ffn) if moe else 0,
        expert_layers=model.expert_layers,
        head_norms=model.query_norms != "none",
        joint_norms=model.query_norms == "layer",
        q_rank=mla.q_rank if mla else 0,
        kv_rank=mla.kv_rank if mla else 0,
        rope_dim=mla.rope_dim if mla else 0,
        nope_dim=mla.nope_dim if mla else 0,
    )
