"""Settings of the trainer that runs Hugging Face's libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.learn.trainers.network_settings import (
    Device,
    GradientTrainingSpec,
    NotNegative,
    Schedule,
)
from gpuyard.units import RATIO

ZeroStage = Literal["1", "2", "3"]
Positive = Annotated[int, AtLeast(1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeftSpec:
    """LoRA adapters of the package peft."""

    rank: Positive = 8
    alpha: Annotated[float, AtLeast(0), Doc("adapter output is scaled by alpha / rank")] = 16.0
    dropout: Annotated[float, RATIO, Doc("share of adapter inputs set to zero in training")] = 0.0
    targets: Annotated[
        tuple[str, ...],
        Doc("linear layers to adapt, by the last part of their name; default: all but the head"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformersSpec(GradientTrainingSpec):
    """Fine-tuning of a causal language model by the Trainer of Hugging Face's transformers."""

    base: Annotated[str, Doc("folder with config.json and weights, in Hugging Face's layout")]
    peft: Annotated[PeftSpec | None, Doc("train LoRA adapters only; default: all weights")] = None
    learning_rate: NotNegative = 2e-5
    clip: Annotated[float | None, AtLeast(0), Doc("maximum gradient norm")] = 1.0
    schedule: Annotated[Schedule, Doc("learning-rate schedule after warm-up")] = "linear"
    batch: Annotated[int, AtLeast(1), Doc("sequences per optimizer step, over all processes")] = 8
    recompute: Annotated[
        bool, Doc("activation checkpointing: recompute activations in the backward pass")
    ] = False
    parallel: Annotated[
        Literal["ddp", "fsdp", "deepspeed"],
        Doc("ddp: weights replicated per process; fsdp (FSDP2), deepspeed (ZeRO): sharded"),
    ] = "ddp"
    zero_stage: Annotated[
        ZeroStage,
        Doc("deepspeed: 1 shards the optimizer, 2 also gradients, 3 also weights"),
    ] = "2"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU")] = "auto"
