"""A multi-layer perceptron in JAX."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from gpuyard.learn.arrays import Array
from gpuyard.learn.networks.flops import mlp_flop
from gpuyard.learn.networks.loop import Task, run_steps
from gpuyard.learn.networks.onnx_mlp import export_mlp
from gpuyard.learn.networks.order import order_of
from gpuyard.learn.networks.tables import Target, predicted, table_of, target_of
from gpuyard.learn.networks.weights import Weights, mlp_weights, mlp_widths
from gpuyard.learn.spec import Mlp, Precision, TrainSpec
from gpuyard.learn.trainer import Exported, Problem, Run, Summary, Table, Training
from gpuyard.learn.trainers.jax_nets.mesh import devices_of
from gpuyard.learn.trainers.jax_nets.stepper import Batch, JaxStepper, Loss, Params

__all__ = ["JaxMlp", "make"]


@functools.partial(jax.jit, static_argnames="precision")
def forward(params: Params, x: jax.Array, precision: Precision) -> jax.Array:
    """The last layer's values for every row, in float32."""
    dtype = jnp.dtype(precision)
    layers = len(params) // 2
    for number in range(layers):
        weight, bias = params[f"layers.{number}.weight"], params[f"layers.{number}.bias"]
        x = jnp.dot(x.astype(dtype), weight.astype(dtype).T, preferred_element_type=jnp.float32) + bias
        if number < layers - 1:
            x = jax.nn.relu(x)
    return x


@functools.lru_cache
def loss_of(problem: Problem, precision: Precision) -> Loss:
    """The mean loss of rows and answers."""

    def loss(params: Params, batch: Batch) -> jax.Array:
        """The mean loss of a batch."""
        x, y = batch
        out = forward(params, x, precision)
        if problem == "classification":
            return -jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], axis=1).mean()
        return jnp.square(out[:, 0] - y).mean()

    return loss


class JaxMlp:
    """The trainer."""

    def __init__(self, train: TrainSpec, spec: Mlp) -> None:
        self.train, self.spec = train, spec

    def fit(self, data: Training, run: Run) -> FittedJaxMlp:
        """The trained perceptron."""
        spec, table = self.spec, table_of(data.train, "train: jax_mlp")
        target, loss = target_of(table), loss_of(table.problem, spec.precision)
        devices = devices_of(run.ranks)
        order = order_of(
            spec, rows=len(table.x), seed=self.train.seed, part=run.ranks.rank, parts=run.ranks.world,
            devices=jax.local_device_count(),
        )  # fmt: skip
        widths = mlp_widths(table.x.shape[1], spec.hidden, spec.layers, target.outputs)
        weights = mlp_weights(widths, self.train.seed)

        answers = target.of(table)
        validation = None if data.validation is None else table_of(data.validation, "train: validation")

        def validate(params: Params) -> float:
            """The loss on the validation rows."""
            assert validation is not None
            return float(loss(params, (jnp.asarray(validation.x), jnp.asarray(target.of(validation)))))

        stepper = JaxStepper(
            weights=weights, loss=loss, rows=lambda rows: (table.x[rows], answers[rows]), validate=validate,
            spec=spec, devices=devices, loss_scale=target.scale**2,
        )  # fmt: skip
        summary = run_steps(
            stepper,
            Task(
                train=self.train, gradient=spec, order=order, flop_per_step=mlp_flop(widths, order.batch),
                parameters_count=float(sum(array.size for array in weights.values())), device=devices.kind,
                patience=spec.early_stopping, has_validation=validation is not None,
            ),
            run,
        )  # fmt: skip
        return FittedJaxMlp(stepper.weights(), table, target, summary)


class FittedJaxMlp:
    """A trained perceptron."""

    def __init__(self, weights: Weights, table: Table, target: Target, summary: Summary) -> None:
        self._summary, self.table, self.target = summary, table, target
        self.weights = {name: jnp.asarray(array) for name, array in weights.items()}

    @property
    def summary(self) -> Summary:
        """What the training came to."""
        return self._summary

    def predict(self, rows: Array) -> Array:
        """Probabilities [n, c], or values [n]."""
        return predicted(np.asarray(forward(self.weights, jnp.asarray(rows), "float32")), self.table, self.target)

    def export(self, folder: Path) -> Exported:
        """Writes model.onnx."""
        weights = self.target.folded({name: np.asarray(array) for name, array in self.weights.items()})
        return export_mlp(weights, self.table, folder, f"jax {jax.__version__}")


def make(spec: TrainSpec) -> JaxMlp:
    """The trainer of a spec."""
    assert spec.jax_mlp is not None
    return JaxMlp(spec, spec.jax_mlp)
