"""A multi-layer perceptron in JAX."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

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
    ProblemType,
    TabularData,
    TrainingContext,
    TrainingInputs,
    TrainingSummary,
)
from gpuyard.learn.trainers.jax_nets.mesh import devices_of
from gpuyard.learn.trainers.jax_nets.stepper import Batch, JaxStepper, Loss, Params
from gpuyard.learn.trainers.network_settings import MlpSpec, Precision


@functools.partial(jax.jit, static_argnames="precision")
def forward(params: Params, x: jax.Array, precision: Precision) -> jax.Array:
    """Return the last layer's outputs per row, in float32."""
    dtype = jnp.dtype(precision)
    layers = len(params) // 2
    for number in range(layers):
        weight, bias = params[f"layers.{number}.weight"], params[f"layers.{number}.bias"]
        x = (
            jnp.dot(x.astype(dtype), weight.astype(dtype).T, preferred_element_type=jnp.float32)
            + bias
        )
        if number < layers - 1:
            x = jax.nn.relu(x)
    return x


@functools.lru_cache
def loss_of(problem: ProblemType, precision: Precision) -> Loss:
    """Return the mean loss of rows and labels; cached, so that it is compiled once."""

    def loss(params: Params, batch: Batch) -> jax.Array:
        x, y = batch
        out = forward(params, x, precision)
        if problem == "classification":
            return -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=1).mean()
        return jnp.square(out[:, 0] - y).mean()

    return loss


class JaxMlp:
    """Trains a perceptron in JAX."""

    def __init__(self, train: TrainSpec, spec: MlpSpec) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedJaxMlp:
        spec, table = self.spec, table_of(data.train, "train: jax_mlp")
        head, loss = target_of(table), loss_of(table.problem, spec.precision)
        devices = devices_of(run.ranks)
        order = order_of(
            spec,
            rows=len(table.x),
            seed=self.train.seed,
            part=run.ranks.rank,
            parts=run.ranks.world,
            devices=jax.local_device_count(),
        )
        widths = mlp_widths(table.x.shape[1], spec.hidden, spec.layers, head.outputs)
        weights = mlp_weights(widths, self.train.seed)

        labels = head.of(table)
        validation = (
            None if data.validation is None else table_of(data.validation, "train: validation")
        )

        def validate(params: Params) -> float:
            assert validation is not None
            return float(
                loss(params, (jnp.asarray(validation.x), jnp.asarray(head.of(validation))))
            )

        stepper = JaxStepper(
            weights=weights,
            loss=loss,
            rows=lambda rows: (table.x[rows], labels[rows]),
            validate=validate,
            spec=spec,
            devices=devices,
            loss_scale=head.scale**2,
        )
        summary = run_steps(
            stepper,
            LoopConfig(
                train=self.train,
                gradient=spec,
                order=order,
                flop_per_step=mlp_flop(widths, order.batch),
                parameters_count=float(sum(array.size for array in weights.values())),
                device=devices.kind,
                patience=spec.early_stopping,
                has_validation=validation is not None,
            ),
            run,
        )
        return FittedJaxMlp(stepper.weights(), table, head, summary)


class FittedJaxMlp:
    """A trained perceptron."""

    def __init__(
        self, weights: Weights, table: TabularData, target: OutputHead, summary: TrainingSummary
    ) -> None:
        self.summary, self.table, self.target = summary, table, target
        self.weights = {name: jnp.asarray(array) for name, array in weights.items()}

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c], or values [n]."""
        return predicted(
            np.asarray(forward(self.weights, jnp.asarray(rows), "float32")), self.table, self.target
        )

    def export(self, folder: Path) -> Exported:
        """Write model.onnx."""
        weights = self.target.folded(
            {name: np.asarray(array) for name, array in self.weights.items()}
        )
        return export_mlp(weights, self.table, folder, f"jax {jax.__version__}")


def make(spec: TrainSpec) -> JaxMlp:
    """Return the trainer of a spec."""
    assert spec.jax_mlp is not None
    return JaxMlp(spec, spec.jax_mlp)
