"""Shape of a served decoder, as the cost model needs it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuyard.catalog.models import Model, Transformer


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
    linear_in: float = 0.0  # width of their input projections: queries, keys, values, gates
    linear_out: float = 0.0  # width of their output projection
    linear_state: float = 0.0  # state elements of such a layer
    attention_layers: float | None = None  # with a KV cache; None: all that are not linear
    ffn_layers: float | None = None  # with an FFN or experts; None: all
    stored_kv_ratio: float = 1.0  # KV-cache layers that store keys and values
    attention_gate: bool = False  # an output gate as wide as the queries
    experts: float = 0.0
    experts_per_token: float = 0.0
    expert_ffn: float = 0.0
    shared_ffn: float = 0.0  # total width of the shared experts
    expert_layers: float = 0.0
    q_rank: float = 0.0
    kv_rank: float = 0.0  # above 0: multi-head latent attention
    rope_dim: float = 0.0
    nope_dim: float = 0.0
    sparse_tokens: float = 0.0  # tokens selected by sparse attention; 0: dense attention
    other_parameters: float = 0.0  # outside the decoder, such as a vision encoder
    unmeasured: str = ""  # why no published run resembles it; empty: some do
    head_norms: bool = False  # norms of queries and keys
    joint_norms: bool = False  # over all heads: an all-reduce per norm

    @property
    def kind(self) -> str:
        """`moe` or `dense`: the architecture kind that prediction intervals know."""
        return "moe" if self.experts else "dense"

    @property
    def full_layers(self) -> float:
        return self.softmax_layers - self.window_layers

    @property
    def softmax_layers(self) -> float:
        """Layers with a KV cache."""
        if self.attention_layers is None:
            return self.layers - self.linear_layers
        return self.attention_layers

    @property
    def mlp_layers(self) -> float:
        """Layers with an FFN or experts."""
        return self.layers if self.ffn_layers is None else self.ffn_layers

    @property
    def linear_parameters(self) -> float:
        """Weights of a layer with linear attention."""
        return self.hidden * (self.linear_in + self.linear_out)

    @property
    def matrices(self) -> float:
        return 3.0 if self.gated else 2.0

    @property
    def attention_parameters(self) -> float:
        if self.kv_rank:
            queries = self.heads * (self.nope_dim + self.rope_dim)
            return self.linear_layers * self.linear_parameters + self.softmax_layers * (
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
        plain = (
            self.hidden
            * self.head_dim
            * ((2.0 + self.attention_gate) * self.heads + 2.0 * self.kv_heads)
        )
        return self.softmax_layers * plain + self.linear_layers * self.linear_parameters

    @property
    def mlp_parameters(self) -> float:
        """Weights of dense FFNs and shared experts."""
        return (
            self.matrices
            * self.hidden
            * (
                (self.mlp_layers - self.expert_layers) * self.ffn
                + self.expert_layers * self.shared_ffn
            )
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


def shape_of(model: Transformer) -> DecoderShape:
    """Return a catalog architecture as a decoder shape.

    A layer is a mixer and an FFN: where blocks are one of both (Nemotron-H) or a mixer alone
    (Mamba), two blocks are a layer. An encoder-decoder is a decoder of its size: its encoder
    runs once per request and never decodes, which is less work than predicted here.
    """
    moe, mla, linear, encoder = model.moe, model.mla, model.linear, model.encoder
    softmax, ffn_layers = float(model.softmax_layers), float(model.mlp_layers)
    linear_layers = float(model.linear_layers)
    if encoder:  # cross-attention is one more layer of attention
        softmax, ffn_layers = 2.0 * softmax + encoder.layers, ffn_layers + encoder.layers
    mixers = softmax + linear_layers
    layers = max(0.5 * (mixers + ffn_layers), 1.0)
    window = model.sliding_window_tokens
    width: float = mla.value_dim if mla else model.head_width
    if model.full_head_dim and not mla:  # mean over the layers with a KV cache
        full = model.full_layers / max(model.softmax_layers, 1)
        width = full * model.full_head_dim + (1.0 - full) * width
    return DecoderShape(
        layers=layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.key_value_heads,
        head_dim=width,
        ffn=model.ffn,
        vocab=model.vocab,
        gated=model.gated,
        tied=model.tied_embeddings,
        window_layers=model.softmax_layers - float(model.full_layers) if window else 0.0,
        window_tokens=window or 0,
        linear_layers=linear_layers,
        linear_in=linear.parameters(model.hidden) / model.hidden - linear.value_dim
        if linear
        else 0.0,
        linear_out=linear.value_dim if linear else 0.0,
        linear_state=linear.value_dim * linear.state_dim if linear else 0.0,
        attention_layers=softmax,
        ffn_layers=ffn_layers,
        stored_kv_ratio=1.0 - model.shared_kv_layers / max(model.softmax_layers, 1),
        attention_gate=model.attention_gate,
        sparse_tokens=model.sparse.top_k_tokens if model.sparse else 0.0,
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


def decoder_of(model: Model) -> DecoderShape:
    """Return a catalog model as a decoder shape, with weights outside the decoder."""
    assert model.transformer is not None, "callers check"
    return replace(
        shape_of(model.transformer),
        other_parameters=model.other_parameters_count,
        unmeasured=unmeasured(model),
    )


def unmeasured(model: Model) -> str:
    """Return why no published run resembles the model; empty: some do."""
    shape = model.transformer
    if model.shape_is_estimated:
        return "the architecture is unknown and was read from generic config keys"
    if shape is None:
        return ""
    if shape.encoder:
        return "planned as a decoder of its size: no published run of an encoder-decoder"
    if shape.linear and (not shape.linear.key_dim or not shape.softmax_layers):
        return "no published run of state-space layers"
    return ""
