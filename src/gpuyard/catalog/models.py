"""Model architectures: the numbers behind a name such as `llama-3-70b`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import COUNT, TOKENS

ModelKind = Literal["decoder", "encoder", "encoder-decoder", "vision", "recommender", "trees"]
QueryNorms = Literal["none", "head", "layer"]
Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """MoE layers: each token goes to `top_k` of `experts` and to every shared expert."""

    experts: Positive
    top_k: Positive
    expert_ffn: Annotated[int, AtLeast(1), Doc("FFN hidden size of a routed expert")]
    shared_experts: Annotated[int, AtLeast(0)] = 0
    shared_ffn: Annotated[
        int, AtLeast(0), Doc("FFN hidden size of a shared expert; 0: same as a routed one")
    ] = 0
    dense_layers: Annotated[int, AtLeast(0), Doc("leading layers with a dense MLP of size ffn")] = 0
    every: Annotated[int, AtLeast(1), Doc("every n-th layer is MoE, the others are dense")] = 1
    layers: Annotated[
        int | None, AtLeast(0), Doc("MoE layers; default: from dense_layers and every")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA; DeepSeek-V2, arXiv 2405.04434)."""

    kv_rank: Positive
    rope_dim: Positive
    nope_dim: Positive
    value_dim: Positive
    q_rank: Annotated[int, AtLeast(0), Doc("0: queries are not compressed")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Layers with a state of fixed size in place of a KV cache: Mamba, gated delta nets, RWKV.

    In the terms of Mamba: value_dim is the inner width, key_dim groups × state size, and the gate
    z. In the terms of attention: the widths of all heads, and state_dim of the keys of one head.
    """

    layers: Positive
    value_dim: Annotated[int, AtLeast(1), Doc("width of the values of all heads")]
    key_dim: Annotated[int, AtLeast(0), Doc("width of the keys of all heads; as wide: queries")] = 0
    state_dim: Annotated[int, AtLeast(0), Doc("state elements per value; 0: short convolution")] = 0
    gated: Annotated[bool, Doc("an output gate as wide as the values")] = True
    other_weights: Annotated[
        int, AtLeast(0), Doc("weights per layer besides queries, keys, values, gate and output")
    ] = 0

    def parameters(self, hidden: int) -> int:
        """Count the weights of one layer."""
        inputs = 2 * self.key_dim + (2 if self.gated else 1) * self.value_dim
        return hidden * (inputs + self.value_dim) + self.other_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseAttention:
    """An indexer that selects the tokens attention reads (DeepSeek-V3.2, DSA)."""

    top_k_tokens: Annotated[int, TOKENS, AtLeast(1)]
    heads: Positive
    head_dim: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """The encoder of an encoder-decoder; the decoder has cross-attention in every layer."""

    layers: Positive
    heads: Positive
    ffn: Positive
    tokens: Annotated[
        int | None, AtLeast(1), Doc("inputs of the encoder if their number is fixed")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer's shape; optional fields follow from the rest."""

    layers: Positive
    hidden: Positive
    heads: Positive
    ffn: Annotated[int, AtLeast(0), Doc("FFN hidden size; 0: no dense FFN")]
    vocab: Positive
    kv_heads: Annotated[int | None, AtLeast(1), Doc("key/value heads; default: heads")] = None
    head_dim: Annotated[int | None, AtLeast(1), Doc("default: hidden / heads")] = None
    gated: Annotated[bool, Doc("the MLP has a gate (SwiGLU, GeGLU): three matrices, not two")] = (
        True
    )
    tied_embeddings: Annotated[bool, Doc("the output layer shares the embedding's weights")] = False
    learned_positions: Annotated[
        int, AtLeast(0), Doc("rows of the learned position embedding; 0: none")
    ] = 0
    max_context_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    sliding_window_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    full_attention_every: Annotated[
        int | None,
        AtLeast(1),
        Doc("with a window: every n-th layer has full attention; null: none"),
    ] = None
    query_norms: Annotated[
        QueryNorms,
        Doc("QK norm: none, per head, or over all heads of a layer"),
    ] = "none"
    full_attention_layers: Annotated[
        int | None, AtLeast(0), Doc("with a window: layers with full attention, if not every n-th")
    ] = None
    attention_layers: Annotated[
        int | None, AtLeast(0), Doc("layers with attention; default: all that are not linear")
    ] = None
    ffn_layers: Annotated[
        int | None, AtLeast(0), Doc("layers with an FFN or experts; default: all")
    ] = None
    shared_kv_layers: Annotated[
        int, AtLeast(0), Doc("layers that read the keys and values of an earlier layer")
    ] = 0
    attention_gate: Annotated[bool, Doc("an output gate as wide as the queries")] = False
    keys_are_values: Annotated[bool, Doc("full attention has no projection of values")] = False
    full_head_dim: Annotated[
        int | None, AtLeast(1), Doc("head_dim of full attention, if windows have another")
    ] = None
    full_kv_heads: Annotated[
        int | None, AtLeast(1), Doc("kv_heads of full attention, if windows have others")
    ] = None
    moe: MixtureOfExperts | None = None
    mla: LatentAttention | None = None
    linear: LinearAttention | None = None
    sparse: SparseAttention | None = None
    encoder: Encoder | None = None

    @property
    def key_value_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head_width(self) -> int:
        return self.head_dim or self.hidden // self.heads

    @property
    def expert_layers(self) -> int:
        if self.moe is None:
            return 0
        if self.moe.layers is not None:
            return self.moe.layers
        return (self.mlp_layers - self.moe.dense_layers) // self.moe.every

    @property
    def mlp_layers(self) -> int:
        """Layers with an FFN or experts."""
        return self.layers if self.ffn_layers is None else self.ffn_layers

    @property
    def linear_layers(self) -> int:
        return self.linear.layers if self.linear else 0

    @property
    def softmax_layers(self) -> int:
        """Layers with a KV cache: full and sliding-window attention."""
        rest = self.layers - self.linear_layers
        return rest if self.attention_layers is None else self.attention_layers

    @property
    def full_layers(self) -> int:
        """Layers with full attention."""
        if self.sliding_window_tokens is None:
            return self.softmax_layers
        if self.full_attention_layers is not None:
            return self.full_attention_layers
        every = self.full_attention_every
        return self.softmax_layers // every if every else 0

    def parameters(self) -> int:
        """Count all weights except biases and the norms inside attention (below 0.2 %)."""
        return self._count(routed=self.moe.experts if self.moe else 0)

    def active_parameters(self) -> int:
        """Count the weights that one token uses."""
        return self._count(routed=self.moe.top_k if self.moe else 0)

    def _count(self, routed: int) -> int:
        return (
            self.vocab * self.hidden  # token embedding
            + (0 if self.tied_embeddings else self.vocab * self.hidden)  # output layer
            + self.learned_positions * self.hidden  # position table
            + self.attention_parameters()  # attention projections
            + (self.linear.layers * self.linear.parameters(self.hidden) if self.linear else 0)
            + (self.mlp_layers - self.expert_layers) * self._mlp(self.ffn)  # dense MLPs
            + self.expert_layers * self._experts(routed)  # routed and shared experts, router
            + 2 * self.layers * self.hidden  # norm before attention and before the MLP
            + self.hidden  # last norm
            + self.encoder_parameters()  # encoder and cross-attention
        )

    def encoder_parameters(self) -> int:
        """Count the encoder, and the decoder's cross-attention with its norm."""
        if self.encoder is None:
            return 0
        attention = self._attention(self.head_width, self.key_value_heads)
        layer = attention + self._mlp(self.encoder.ffn) + 2 * self.hidden
        return self.encoder.layers * layer + self.layers * (attention + self.hidden) + self.hidden

    def attention_parameters(self) -> int:
        """Count the projections of every layer with softmax attention."""
        indexer = 0
        if self.sparse:
            queries = (self.mla.q_rank if self.mla else 0) or self.hidden
            indexer = (
                queries * self.sparse.heads * self.sparse.head_dim  # queries of the indexer
                + self.hidden * (self.sparse.head_dim + self.sparse.heads)  # keys, head weights
            )
        if self.mla:
            return self.softmax_layers * (self._latent_attention(self.mla) + indexer)
        full = self._attention(
            self.full_head_dim or self.head_width,
            self.full_kv_heads or self.key_value_heads,
            self.keys_are_values,
        )
        near = self._attention(self.head_width, self.key_value_heads)
        shared = 2 * self.hidden * self.key_value_heads * self.head_width
        return (
            self.full_layers * (full + indexer)
            + (self.softmax_layers - self.full_layers) * near
            - min(self.shared_kv_layers, self.softmax_layers) * shared
        )

    def _attention(self, head_dim: int, kv_heads: int, keys_are_values: bool = False) -> int:
        queries = self.heads * head_dim
        return (
            self.hidden * queries * (2 if self.attention_gate else 1)  # queries, gate
            + (1 if keys_are_values else 2) * self.hidden * kv_heads * head_dim  # keys, values
            + queries * self.hidden  # output
        )

    def _latent_attention(self, mla: LatentAttention) -> int:
        query_width = self.heads * (mla.nope_dim + mla.rope_dim)
        if mla.q_rank:
            queries = self.hidden * mla.q_rank + mla.q_rank * query_width
        else:
            queries = self.hidden * query_width
        latent_width = mla.kv_rank + mla.rope_dim  # the latent, and the shared rotary key
        return (
            queries
            + self.hidden * latent_width  # down-projection
            + mla.kv_rank * self.heads * (mla.nope_dim + mla.value_dim)  # up to keys and values
            + self.heads * mla.value_dim * self.hidden  # output
        )

    def _mlp(self, width: int) -> int:
        return (3 if self.gated else 2) * self.hidden * width

    def _experts(self, routed: int) -> int:
        if not self.moe:
            return 0
        shared_ffn = self.moe.shared_ffn or self.moe.expert_ffn
        return (
            routed * self._mlp(self.moe.expert_ffn)  # routed experts
            + self.moe.shared_experts * self._mlp(shared_ffn)  # shared experts
            + self.hidden * self.moe.experts  # router
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model: its kind, its size, and its shape if it is a transformer."""

    name: str
    label: str
    kind: ModelKind
    parameters_count: Annotated[float, COUNT]
    source: SourceNames
    active_parameters_count: Annotated[
        float | None, COUNT, Doc("parameters used per token, if fewer than all")
    ] = None
    other_parameters_count: Annotated[
        float, COUNT, Doc("parameters outside the transformer, such as a vision encoder")
    ] = 0
    forward_flop_per_sample: Annotated[
        float | None, Doc("for models that are not transformers; a multiply-add counts as two")
    ] = None
    transformer: Transformer | None = None
    shape_is_estimated: Annotated[
        bool, Doc("read without knowledge of the architecture: wider error bars")
    ] = False
    aliases: Annotated[tuple[str, ...], Doc("other names, such as on Hugging Face")] = ()
    note: str = ""
