"""Trainers of image networks in PyTorch: a convolutional network and a vision transformer."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.images import (
    HEAD,
    augmented,
    check_image_shape,
    image_flop,
    image_shape,
    initial_weights,
)
from gpuyard.learn.networks.inputs import images_of
from gpuyard.learn.networks.loop import LoopConfig, run_steps
from gpuyard.learn.networks.onnx_images import export_images
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.weights import Weights
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    ImageData,
    LearningData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec
from gpuyard.learn.trainers.torch_images.networks import network
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice, place_of
from gpuyard.learn.trainers.torch_nets.stepper import TorchStepper

VALIDATE_IMAGES = 64  # at a time


class TorchImageTrainer:
    """Trains a network on images in PyTorch."""

    def __init__(self, train: TrainSpec, spec: TorchCnnSpec | TorchVitSpec, where: str) -> None:
        self.train, self.spec, self.where = train, spec, where

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedImageNetwork:
        with place_of(self.spec.device, run.ranks) as place:
            return self._fit(data, run, place)

    def _fit(
        self, data: TrainingInputs, run: TrainingContext, place: TorchDevice
    ) -> FittedImageNetwork:
        spec, images = self.spec, images_of(data.train, self.where)
        shape = image_shape(images)
        check_image_shape(spec, shape, self.where)
        if spec.freeze and spec.base is None:
            what = "freezes random weights"
            raise InputError.one(f"{self.where}: freeze", what, "name the base to start from")
        order = order_of(
            spec, rows=len(images), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world
        )
        first = initial_weights(spec, images, self.train.seed)
        model = network(spec, shape, first)
        for name, parameter in model.named_parameters():
            parameter.requires_grad = not spec.freeze or name.startswith(HEAD)

        def batch(rows: npt.NDArray[np.intp]) -> tuple[Array, ...]:
            key = (self.train.seed, rows)
            pixels = augmented(images.of(rows), spec.augment, key, images.channels_first)
            return pixels, images.y[rows].astype(np.int64)

        stepper = TorchStepper(
            model=model,
            rows=batch,
            validate=functools.partial(_mean_loss, model, data.validation, place.device),
            spec=spec,
            place=place,
            parallel=spec.parallel,
            blocks=tuple(model.blocks),
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                flop_per_step=image_flop(spec, shape, order.batch),
                parameters_count=float(sum(value.numel() for value in model.parameters())),
                device=place.kind,
                patience=spec.early_stopping,
                has_validation=data.validation is not None,
            ),
            run,
        )
        return FittedImageNetwork(spec, first | stepper.weights(), images, summary)


def _mean_loss(
    model: torch.nn.Module, held_out: LearningData | None, device: torch.device
) -> float:
    assert held_out is not None
    data = images_of(held_out, "train: validation")
    total = 0.0
    for start in range(0, len(data), VALIDATE_IMAGES):
        rows = np.arange(start, min(start + VALIDATE_IMAGES, len(data)))
        images, labels = torch.from_numpy(data.of(rows)), torch.from_numpy(data.y[rows])
        total += float(model(images.to(device), labels.to(device))) * len(rows)
    return total / len(data)


class FittedImageNetwork:
    """A trained network on images."""

    def __init__(
        self,
        spec: TorchCnnSpec | TorchVitSpec,
        weights: Weights,
        data: ImageData,
        summary: TrainingSummary,
    ) -> None:
        self.spec, self.weights, self.data, self.summary = spec, weights, data, summary
        self.model = network(spec, image_shape(data), weights).eval()

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c] of images [n, *shape]."""
        with torch.no_grad():
            logits = self.model.out(torch.from_numpy(np.ascontiguousarray(rows, np.float32)))
            answers: Array = torch.softmax(logits, dim=1).numpy()
        return answers

    def export(self, folder: Path) -> Exported:
        """Write model.onnx."""
        return export_images(
            self.spec, self.weights, self.data, folder, f"torch {torch.__version__}"
        )


def make(spec: TrainSpec) -> TorchImageTrainer:
    """Return the trainer of a spec."""
    if spec.torch_cnn is not None:
        return TorchImageTrainer(spec, spec.torch_cnn, "train: torch_cnn")
    assert spec.torch_vit is not None
    return TorchImageTrainer(spec, spec.torch_vit, "train: torch_vit")
