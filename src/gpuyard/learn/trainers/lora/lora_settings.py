"""Settings of LoRA adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.learn.trainers.network_settings import Device, GradientTrainingSpec, NotNegative
from gpuyard.units import RATIO

Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DpoSpec:
    """Direct preference optimisation (arXiv 2305.18290); the reference is the base model."""

    beta: Annotated[
        float, AtLeast(0), Doc("how strongly the model is held at the reference; larger: closer")
    ] = 0.1
    label_smoothing: Annotated[
        float, RATIO, Doc("assumed share of pairs that are labelled the wrong way round")
    ] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraSpec(GradientTrainingSpec):
    """Low-rank adapters (LoRA, arXiv 2106.09685) on a causal language model from local weights."""

    base: Annotated[str, Doc("folder with config.json and weights, in Hugging Face's layout")]
    rank: Positive = 8
    alpha: Annotated[float, AtLeast(0), Doc("adapter output is scaled by alpha / rank")] = 16.0
    targets: Annotated[
        tuple[str, ...], Doc("linear layers to adapt, by the last part of their name")
    ] = (
        "q_proj",
        "v_proj",
    )
    learning_rate: NotNegative = 2e-4
    batch: Annotated[int, AtLeast(1), Doc("sequences per optimizer step, over all processes")] = 8
    dpo: Annotated[
        DpoSpec | None, Doc("learn from pairs of replies (data: preferences) instead of texts")
    ] = None
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU")] = "auto"
