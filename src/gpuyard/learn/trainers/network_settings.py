"""Settings that networks of several frameworks share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog.models import Transformer
from gpuyard.document.field_types import AtLeast, Doc

Precision = Literal["float32", "bfloat16"]
Schedule = Literal["constant", "linear", "cosine"]
Parallel = Literal["ddp", "fsdp"]
Device = Literal["auto", "cpu", "cuda", "xla"]
NotNegative = Annotated[float, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientTrainingSpec:
    """Settings shared by all networks: duration, batches, AdamW and the learning-rate schedule."""

    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 1
    steps: Annotated[int | None, AtLeast(1), Doc("optimizer steps, instead of epochs")] = None
    batch: Annotated[
        int, AtLeast(1), Doc("rows or sequences per optimizer step, over all processes")
    ] = 32
    accumulate: Annotated[
        int, AtLeast(1), Doc("gradient accumulation: micro-batches per batch, to save memory")
    ] = 1
    learning_rate: NotNegative = 1e-3
    weight_decay: NotNegative = 0.0
    beta1: NotNegative = 0.9
    beta2: NotNegative = 0.999
    clip: Annotated[float | None, AtLeast(0), Doc("maximum gradient norm; default: no limit")] = (
        None
    )
    warmup: Annotated[
        int, AtLeast(0), Doc("steps over which the learning rate rises linearly from zero")
    ] = 0
    schedule: Annotated[
        Schedule, Doc("learning-rate schedule after warm-up; linear and cosine end at zero")
    ] = "constant"
    precision: Annotated[
        Precision, Doc("dtype of the matmuls; weights and optimizer state stay float32")
    ] = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class MlpSpec(GradientTrainingSpec):
    """A multi-layer perceptron on tabular data, for classification or regression."""

    hidden: Annotated[int, AtLeast(1), Doc("units per hidden layer")] = 64
    layers: Annotated[int, AtLeast(0), Doc("number of hidden layers")] = 2
    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 20
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N epochs without improvement on the validation rows"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerSpec(GradientTrainingSpec):
    """A decoder-only transformer on packed tokens: RMSNorm, RoPE, GQA, SwiGLU."""

    shape: Transformer
    learning_rate: NotNegative = 3e-4
    weight_decay: NotNegative = 0.1
    beta2: NotNegative = 0.95
    clip: Annotated[float | None, AtLeast(0), Doc("maximum gradient norm")] = 1.0
    schedule: Annotated[Schedule, Doc("learning-rate schedule after warm-up")] = "cosine"
    batch: Annotated[int, AtLeast(1), Doc("sequences per optimizer step, over all processes")] = 8
    recompute: Annotated[
        bool, Doc("activation checkpointing: recompute activations in the backward pass")
    ] = False
    rope_theta: Annotated[float, AtLeast(1), Doc("base of the RoPE frequencies")] = 10000.0
