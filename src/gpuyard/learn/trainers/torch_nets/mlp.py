"""A multi-layer perceptron in PyTorch."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch
from torch import nn

from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.flops import mlp_flop
from gpuyard.learn.networks.inputs import OutputHead, predicted, table_of, target_of
from gpuyard.learn.networks.loop import LoopConfig, run_steps
from gpuyard.learn.networks.onnx_mlp import export_mlp
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.weights import Weights, mlp_weights, mlp_widths
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import (
    Exported,
    TabularData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.torch_nets.devices import TorchDevice, place_of
from gpuyard.learn.trainers.torch_nets.stepper import TorchStepper
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec


class Perceptron(nn.Module):  # type: ignore[misc]
    """The layers; returns the mean loss when called with rows and labels."""

    def __init__(self, weights: Weights, classes: bool) -> None:
        super().__init__()
        self.classes = classes
        self.layers = nn.ModuleList()
        for number in range(len(weights) // 2):
            outputs, inputs = weights[f"layers.{number}.weight"].shape
            self.layers.append(nn.Linear(inputs, outputs))
        self.load_state_dict(
            {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
        )

    def out(self, x: torch.Tensor) -> torch.Tensor:
        """Return the last layer's outputs per row, in float32."""
        for number, layer in enumerate(self.layers):
            x = layer(x) if number == 0 else layer(torch.relu(x))
        return x.float()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = self.out(x)
        if self.classes:
            return nn.functional.cross_entropy(out, y.long())
        return nn.functional.mse_loss(out[:, 0], y)


class TorchMlpTrainer:
    """Trains a perceptron in PyTorch."""

    def __init__(self, train: TrainSpec, spec: TorchMlpSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedTorchMlp:
        with place_of(self.spec.device, run.ranks) as place:
            return self._fit(data, run, place)

    def _fit(
        self, data: TrainingInputs, run: TrainingContext, place: TorchDevice
    ) -> FittedTorchMlp:
        spec, table = self.spec, table_of(data.train, "train: torch_mlp")
        target = target_of(table)
        order = order_of(
            spec,
            rows=len(table.x),
            seed=self.train.seed,
            part=run.ranks.rank,
            parts=run.ranks.world,
        )
        widths = mlp_widths(table.x.shape[1], spec.hidden, spec.layers, target.outputs)
        model = Perceptron(mlp_weights(widths, self.train.seed), table.problem == "classification")
        answers = target.of(table)
        validation = (
            None if data.validation is None else table_of(data.validation, "train: validation")
        )

        def validate() -> float:
            assert validation is not None
            rows = (
                torch.from_numpy(part).to(place.device)
                for part in (validation.x, target.of(validation))
            )
            return float(model(*rows))

        stepper = TorchStepper(
            model=model,
            rows=lambda rows: (table.x[rows], answers[rows]),
            validate=validate,
            spec=spec,
            place=place,
            parallel=spec.parallel,
            loss_scale=target.scale**2,
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                flop_per_step=mlp_flop(widths, order.batch),
                parameters_count=float(sum(a * b + b for a, b in itertools.pairwise(widths))),
                device=place.kind,
                patience=spec.early_stopping,
                has_validation=validation is not None,
            ),
            run,
        )
        return FittedTorchMlp(stepper.weights(), table, target, summary)


class FittedTorchMlp:
    """A trained perceptron."""

    def __init__(
        self, weights: Weights, table: TabularData, target: OutputHead, summary: TrainingSummary
    ) -> None:
        self.weights, self.table, self.target, self.summary = weights, table, target, summary
        self.model = Perceptron(weights, table.problem == "classification")

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c], or values [n]."""
        with torch.no_grad():
            out = self.model.out(torch.from_numpy(np.ascontiguousarray(rows))).numpy()
        return predicted(out, self.table, self.target)

    def export(self, folder: Path) -> Exported:
        """Write model.onnx."""
        return export_mlp(
            self.target.folded(self.weights), self.table, folder, f"torch {torch.__version__}"
        )


def make(spec: TrainSpec) -> TorchMlpTrainer:
    """Return the trainer of a spec."""
    assert spec.torch_mlp is not None
    return TorchMlpTrainer(spec, spec.torch_mlp)
