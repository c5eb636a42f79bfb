"""What is served: the shape of a decoder as the step's costs need it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyard.catalog import Transformer

__all__ = ["Shape", "shape_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A decoder-only transformer; its layers attend to the whole context, to a window, or carry a linear state."""

    layers: float
    hidden: float
    heads: float
    kv_heads: float
    head_dim: float  # of values; MLA has widths of its own
    ffn: float  # of a dense layer
    vocab: float
    gated: bool = True
    tied: bool = False
    window_layers: float = 0.0
    window_tokens: float = 0.0
    linear_layers: float = 0.0  # linear attention: no cache that grows
    experts: float = 0.0
    experts_per_token: float = 0.0
    expert_ffn: float = 0.0
    shared_ffn: float = 0.0  # all shared experts together
    expert_layers: float = 0.0
    q_rank: float = 0.0
    kv_rank: float = 0.0  # above 0: multi-head latent attention
    rope_dim: float = 0.0
    nope_dim: float = 0.0
    sparse_tokens: float = 0.0  # tokens that sparse attention picks; 0: it reads all
    head_norms: bool = False  # queries and keys are normalised
    joint_norms: bool = False  # and that over all heads, so that ranks have to add up

    @property
    def full_layers(self) -> float:
        """Layers that attend to the whole context."""
        return self.layers - self.window_layers - self.linear_layers

    @property
    def matrices(self) -> float:
        """Matrices of an MLP."""
        return 3.0 if self.gated else 2.0

    @property
    def attention_parameters(self) -> float:
        """Weights of attention in all layers."""
        if self.kv_rank:
            queries = self.heads * (self.nope_dim + self.rope_dim)
            return self.layers * (
                (self.hidden * self.q_rank + self.q_rank * queries if self.q_rank else self.hidden * queries)
                + self.hidden * (self.kv_rank + self.rope_dim)  # down to the latent and the rotary key
                + self.kv_rank * self.heads * (self.nope_dim + self.head_dim)  # up to keys and values
                + self.heads * self.head_dim * self.hidden  # output
            )
        plain = self.hidden * self.head_dim * 2.0 * (self.heads + self.kv_heads)
        return (self.layers - self.linear_layers) * plain + self.linear_layers * LINEAR_MATRICES * self.hidden**2

    @property
    def mlp_parameters(self) -> float:
        """Weights of plain MLPs and shared experts."""
        return (
            self.matrices
            * self.hidden
            * ((self.layers - self.expert_layers) * self.ffn + self.expert_layers * self.shared_ffn)
        )

    @property
    def expert_parameters(self) -> float:
        """Weights of the routed experts."""
        return self.expert_layers * self.experts * self.matrices * self.hidden * self.expert_ffn

    @property
    def head_parameters(self) -> float:
        """Weights of the output layer."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> float:
        """All weights; norms and the router are left out."""
        table = 0.0 if self.tied else self.head_parameters
        return self.attention_parameters + self.mlp_parameters + self.expert_parameters + self.head_parameters + table


# Gated delta layers: queries, keys (half the hidden size each), values, gate (twice it each) and the output of
# Qwen3-Next (config.json: 16 key and 32 value heads of 128 at hidden 2,048).
LINEAR_MATRICES = 7.0
LINEAR_STATE_WIDTH = 256.0  # elements of state a hidden unit: 2 x hidden values, each with a key of 128


def shape_of(model: Transformer) -> Shape:
    """The catalog's shape as the costs need it."""
    moe, mla = model.moe, model.mla
    window = model.sliding_window_tokens
    every = model.full_attention_every
    full = float(model.layers) if window is None else float(model.layers // every) if every else 0.0
    return Shape(
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
