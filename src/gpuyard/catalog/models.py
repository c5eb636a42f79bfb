"""Model architectures: what a name such as `llama-3-70b` stands for, in the numbers that performance models need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document import AtLeast, Doc
from gpuyard.units import COUNT, TOKENS

__all__ = ["LatentAttention", "MixtureOfExperts", "Model", "ModelKind", "Transformer"]

ModelKind = Literal["decoder", "encoder", "encoder-decoder", "vision", "recommender", "trees"]
QueryNorms = Literal["none", "head", "layer"]
Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """Expert layers: each token goes to `top_k` of `experts`, and through every shared expert."""

    experts: Positive
    top_k: Positive
    expert_ffn: Annotated[int, AtLeast(1), Doc("inner width of one routed expert")]
    shared_experts: Annotated[int, AtLeast(0)] = 0
    shared_ffn: Annotated[int, AtLeast(0), Doc("inner width of one shared expert; 0: as a routed one")] = 0
    dense_layers: Annotated[int, AtLeast(0), Doc("first layers, which keep a plain MLP of width ffn")] = 0
    every: Annotated[int, AtLeast(1), Doc("every n-th layer has experts, the others a plain MLP")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values from a low-rank latent."""

    kv_rank: Positive
    rope_dim: Positive
    nope_dim: Positive
    value_dim: Positive
    q_rank: Annotated[int, AtLeast(0), Doc("0: queries are not compressed")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A transformer's shape; what is left out follows from the rest."""

    layers: Positive
    hidden: Positive
    heads: Positive
    ffn: Annotated[int, AtLeast(1), Doc("inner width of the MLP")]
    vocab: Positive
    kv_heads: Annotated[int | None, AtLeast(1), Doc("heads of keys and values; default: heads")] = None
    head_dim: Annotated[int | None, AtLeast(1), Doc("default: hidden / heads")] = None
    gated: Annotated[bool, Doc("the MLP has a gate (SwiGLU, GeGLU): three matrices, not two")] = True
    tied_embeddings: Annotated[bool, Doc("the output layer shares the embedding's weights")] = False
    learned_positions: Annotated[int, AtLeast(0), Doc("rows of a learned position table; 0: none")] = 0
    max_context_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    sliding_window_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    full_attention_every: Annotated[
        int | None, AtLeast(1), Doc("with a window: every n-th layer sees the whole context; left out: none does")
    ] = None
    query_norms: Annotated[
        QueryNorms, Doc("queries and keys are normalised, within each head or over all heads of a layer")
    ] = "none"
    moe: MixtureOfExperts | None = None
    mla: LatentAttention | None = None

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values, given or not."""
        return self.kv_heads or self.heads

    @property
    def head_width(self) -> int:
        """Width of one head, given or not."""
        return self.head_dim or self.hidden // self.heads

    @property
    def expert_layers(self) -> int:
        """Layers whose MLP is a mixture of experts."""
        return (self.layers - self.moe.dense_layers) // self.moe.every if self.moe else 0

    def parameters(self) -> int:
        """All the weights; biases, the norms' biases and the norms inside attention are left out (below 0.2 %)."""
        return self._counted(routed=self.moe.experts if self.moe else 0)

    def active_parameters(self) -> int:
        """The weights that one token uses: all but the experts that it is not sent to."""
        return self._counted(routed=self.moe.top_k if self.moe else 0)

    def _counted(self, routed: int) -> int:
        """The weights, with `routed` experts in every expert layer."""
        return (
            self.vocab * self.hidden  # token embedding
            + (0 if self.tied_embeddings else self.vocab * self.hidden)  # output layer
            + self.learned_positions * self.hidden  # position table
            + self.layers * self._attention()  # projections of attention
            + (self.layers - self.expert_layers) * self._mlp(self.ffn)  # plain MLPs
            + self.expert_layers * self._experts(routed)  # routed and shared experts, router
            + 2 * self.layers * self.hidden  # norm before attention and before the MLP
            + self.hidden  # last norm
        )

    def _attention(self) -> int:
        """One layer's projections."""
        if self.mla:
            return self._latent_attention(self.mla)
        queries = self.heads * self.head_width
        keys = self.key_value_heads * self.head_width
        return (
            self.hidden * queries  # queries
            + 2 * self.hidden * keys  # keys and values, shared by groups of heads
            + queries * self.hidden  # output
        )

    def _latent_attention(self, mla: LatentAttention) -> int:
        """One layer's projections through low-rank latents."""
        queries = self.heads * (mla.nope_dim + mla.rope_dim)
        return (
            (self.hidden * mla.q_rank + mla.q_rank * queries if mla.q_rank else self.hidden * queries)  # queries
            + self.hidden * (mla.kv_rank + mla.rope_dim)  # down to the latent, and the shared rotary key
            + mla.kv_rank * self.heads * (mla.nope_dim + mla.value_dim)  # up to keys and values
            + self.heads * mla.value_dim * self.hidden  # output
        )

    def _mlp(self, width: int) -> int:
        """One MLP of that inner width: up and down, and the gate."""
        return (3 if self.gated else 2) * self.hidden * width

    def _experts(self, routed: int) -> int:
        """One layer's experts; nothing where it has none."""
        if not self.moe:
            return 0
        return (
            routed * self._mlp(self.moe.expert_ffn)  # routed experts
            + self.moe.shared_experts * self._mlp(self.moe.shared_ffn or self.moe.expert_ffn)  # shared experts
            + self.hidden * self.moe.experts  # router
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that users name: its kind, its size, and its shape where it is a transformer."""

    name: str
    label: str
    kind: ModelKind
    parameters_count: Annotated[float, COUNT]
    source: SourceNames
    active_parameters_count: Annotated[float | None, COUNT, Doc("used by one token, where fewer than all")] = None
    other_parameters_count: Annotated[
        float, COUNT, Doc("of parameters_count, those outside the transformer: a vision encoder")
    ] = 0
    forward_flop_per_sample: Annotated[
        float | None, Doc("for models that are not transformers; a multiply-add is two")
    ] = None
    transformer: Transformer | None = None
    aliases: Annotated[tuple[str, ...], Doc("other names, such as the one on Hugging Face")] = ()
    note: str = ""
