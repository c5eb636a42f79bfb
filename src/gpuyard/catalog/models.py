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


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA; DeepSeek-V2, arXiv 2405.04434)."""

    kv_rank: Positive
    rope_dim: Positive
    nope_dim: Positive
    value_dim: Positive
    q_rank: Annotated[int, AtLeast(0), Doc("0: queries are not compressed")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer's shape; optional fields follow from the rest."""

    layers: Positive
    hidden: Positive
    heads: Positive
    ffn: Annotated[int, AtLeast(1), Doc("FFN hidden size")]
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
    moe: MixtureOfExperts | None = None
    mla: LatentAttention | None = None

    @property
    def key_value_heads(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head_width(self) -> int:
        return self.head_dim or self.hidden // self.heads

    @property
    def expert_layers(self) -> int:
        return (self.layers - self.moe.dense_layers) // self.moe.every if self.moe else 0

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
            + self.layers * self._attention()  # attention projections
            + (self.layers - self.expert_layers) * self._mlp(self.ffn)  # dense MLPs
            + self.expert_layers * self._experts(routed)  # routed and shared experts, router
            + 2 * self.layers * self.hidden  # norm before attention and before the MLP
            + self.hidden  # last norm
        )

    def _attention(self) -> int:
        if self.mla:
            return self._latent_attention(self.mla)
        queries = self.heads * self.head_width
        keys = self.key_value_heads * self.head_width
        return (
            self.hidden * queries  # queries
            + 2 * self.hidden * keys  # keys and values (GQA)
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
    aliases: Annotated[tuple[str, ...], Doc("other names, such as on Hugging Face")] = ()
    note: str = ""
