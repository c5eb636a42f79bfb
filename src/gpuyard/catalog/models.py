"""Model architectures: what a name such as `llama-3-70b` stands for, in the numbers that performance models need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.rows import SourceNames
from gpuyard.document import AtLeast, Doc
from gpuyard.units import COUNT, TOKENS

__all__ = ["LatentAttention", "MixtureOfExperts", "Model", "ModelKind", "Transformer"]

ModelKind = Literal["decoder", "encoder", "encoder-decoder", "vision", "recommender", "trees"]
Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    """Expert layers: each token goes to `top_k` of `experts`, and through every shared expert."""

    experts: Positive
    top_k: Positive
    expert_ffn: Annotated[int, AtLeast(1), Doc("inner width of one routed expert")]
    shared_experts: Annotated[int, AtLeast(0)] = 0
    shared_ffn: Annotated[int, AtLeast(0), Doc("inner width of one shared expert; 0: as a routed one")] = 0
    dense_layers: Annotated[int, AtLeast(0), Doc("layers that keep a plain MLP of width ffn")] = 0
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
    max_context_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    sliding_window_tokens: Annotated[int | None, TOKENS, AtLeast(1)] = None
    moe: MixtureOfExperts | None = None
    mla: LatentAttention | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that users name: its kind, its size, and its shape where it is a transformer."""

    name: str
    label: str
    kind: ModelKind
    parameters_count: Annotated[float, COUNT]
    source: SourceNames
    active_parameters_count: Annotated[float | None, COUNT, Doc("used by one token, where fewer than all")] = None
    forward_flop_per_sample: Annotated[float | None, Doc("for models that are not transformers")] = None
    transformer: Transformer | None = None
    note: str = ""
