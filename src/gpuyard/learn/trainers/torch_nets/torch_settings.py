"""Settings of networks in PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.learn.trainers.network_settings import Device, MlpSpec, Parallel, TransformerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchMlpSpec(MlpSpec):
    """The same perceptron in PyTorch."""

    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTransformerSpec(TransformerSpec):
    """The same transformer in PyTorch."""

    parallel: Annotated[
        Parallel, Doc("ddp: weights replicated per process; fsdp: weights sharded")
    ] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA if available, else CPU; xla: PyTorch/XLA")] = "auto"
