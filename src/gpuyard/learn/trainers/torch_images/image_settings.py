"""Settings of image networks in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.learn.trainers.network_settings import (
    Device,
    GradientTrainingSpec,
    NotNegative,
    Parallel,
)

Augmentation = Literal["flip", "shift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageNetworkSpec(GradientTrainingSpec):
    """A network on images, for classification."""

    epochs: Annotated[
        int, AtLeast(1), Doc("passes over the training rows; ignored when steps is set")
    ] = 20
    weight_decay: NotNegative = 1e-4
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N epochs without improvement on the validation rows"),
    ] = None
    augment: Annotated[
        tuple[Augmentation, ...],
        Doc("random changes of training images: flip (left-right), shift (by up to an eighth)"),
    ] = ()
    base: Annotated[
        str | None,
        Doc("folder of an exported bundle of the same network: transfer learning, new classes"),
    ] = None
    freeze: Annotated[bool, Doc("train the last layer only; with base")] = False
    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchCnnSpec(ImageNetworkSpec):
    """A residual convolutional network on images (ResNet v2, arXiv 1603.05027) in PyTorch."""

    channels: Annotated[
        int, AtLeast(1), Doc("channels of the first stage; each further stage has twice as many")
    ] = 32
    stages: Annotated[
        int, AtLeast(1), Doc("stages; each further stage halves height and width")
    ] = 3
    blocks: Annotated[int, AtLeast(1), Doc("residual blocks per stage")] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchVitSpec(ImageNetworkSpec):
    """A vision transformer on patches of images (ViT, arXiv 2010.11929) in PyTorch."""

    patch: Annotated[int, AtLeast(1), Doc("pixels per side of a patch")] = 8
    hidden: Annotated[int, AtLeast(1), Doc("width of the embedding")] = 128
    layers: Annotated[int, AtLeast(1), Doc("transformer layers")] = 4
    heads: Annotated[int, AtLeast(1), Doc("attention heads; a divisor of hidden")] = 4
