"""One optimiser step in JAX: gradients of the micro-batches, AdamW, all in one compiled function."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.sharding import NamedSharding

from gpuyard.errors import InputError
from gpuyard.learn.networks.weights import Weights, decays
from gpuyard.learn.spec import Gradient
from gpuyard.learn.trainer import Run
from gpuyard.learn.trainers.jax_nets.mesh import Devices

__all__ = ["Batch", "JaxStepper", "Loss", "Params"]

Params = dict[str, jax.Array]
Batch = tuple[jax.Array, ...]
Loss = Callable[[Params, Batch], jax.Array]  # the same object for the same mathematics, so that it is compiled once
Stepped = tuple[Params, Params, Params, jax.Array, jax.Array]
Rows = Callable[[npt.NDArray[np.intp]], tuple[npt.NDArray[np.generic], ...]]
EPSILON = 1e-8
STATE, NOTES = "state.npz", "notes.json"


class JaxStepper:
    """The weights, their optimiser and the compiled step."""

    def __init__(
        self,
        *,
        weights: Weights,
        loss: Loss,
        rows: Rows,
        validate: Callable[[Params], float],
        spec: Gradient,
        devices: Devices,
        loss_scale: float = 1.0,
    ) -> None:
        self.devices, self.rows, self.validate, self.loss_scale = devices, rows, validate, loss_scale
        self.params = {name: devices.copy(array) for name, array in weights.items()}
        self.mean = {name: devices.copy(np.zeros_like(array)) for name, array in weights.items()}
        self.square = {name: devices.copy(np.zeros_like(array)) for name, array in weights.items()}
        self.count = 0
        self.best: Params | None = None
        self.last: tuple[jax.Array, jax.Array] | None = None
        rules = Rules(accumulate=spec.accumulate, clip=spec.clip, beta1=spec.beta1, beta2=spec.beta2)
        self._step, self.decay = _compiled(loss, rules, devices.copied), np.float32(spec.weight_decay)
        self._any = jax.jit(lambda flags: flags.max(), out_shardings=devices.copied)

    def step(self, rows: npt.NDArray[np.intp], learning_rate: float) -> None:
        """Takes one optimiser step; does not wait for it."""
        batch = tuple(self.devices.batch(part) for part in self.rows(rows))
        self.count += 1
        self.params, self.mean, self.square, *last = self._step(
            self.params, self.mean, self.square, batch, np.float32(learning_rate), np.float32(self.count), self.decay
        )
        self.last = (last[0], last[1])

    def loss(self) -> tuple[float, float]:
        """Loss and norm of the gradient of the last step, over all processes."""
        assert self.last is not None
        return float(self.last[0]) * self.loss_scale, float(self.last[1])

    def validation_loss(self) -> float:
        """Loss on the validation rows."""
        return self.validate(self.params) * self.loss_scale

    def agree(self, asked: bool) -> bool:
        """True in every process when any of them was asked."""
        flags = np.full((1, jax.local_device_count()), asked, dtype=np.int32)
        return bool(self._any(self.devices.batch(flags)))

    def keep_best(self) -> None:
        """Remembers these weights as the best."""
        self.best = {name: jnp.copy(array) for name, array in self.params.items()}

    def weights(self) -> Weights:
        """The weights to use: the best, where early stopping looked for them."""
        return {name: np.asarray(array) for name, array in (self.best or self.params).items()}

    def memory_bytes(self) -> float:
        """The most memory that was in use."""
        return self.devices.memory_bytes()

    def save(self, run: Run, step: int, notes: str) -> None:
        """Makes the checkpoint of a step; every process has the same weights, so the first one writes."""
        if not run.ranks.first or run.checkpoints is None:
            return

        def write(folder: Path) -> None:
            """Writes the parts."""
            arrays = {
                f"{kind}:{name}": np.asarray(array) for kind, part in self._parts() for name, array in part.items()
            }
            with (folder / STATE).open("wb") as file:
                np.savez(file, allow_pickle=False, **typing.cast(typing.Any, arrays))
            (folder / NOTES).write_text(notes, encoding="utf-8")

        run.checkpoints.save(step, write)

    def restore(self, folder: Path) -> str:
        """Takes weights and optimiser from a checkpoint; gives the notes."""
        with np.load(folder / STATE, allow_pickle=False) as arrays:
            if f"best:{next(iter(self.params))}" in arrays:
                self.best = dict(self.params)
            for kind, part in self._parts():
                for name, array in part.items():
                    found = arrays.get(f"{kind}:{name}")
                    if found is None or found.shape != array.shape:
                        raise InputError.one(
                            str(folder), f"is of another model: {name} differs", "name another folder for this training"
                        )
                    part[name] = self.devices.copy(found)
        self.count = int(folder.name)
        return (folder / NOTES).read_text(encoding="utf-8")

    def _parts(self) -> list[tuple[str, Params]]:
        """What a checkpoint holds."""
        parts = [("weight", self.params), ("mean", self.mean), ("square", self.square)]
        return parts + ([("best", self.best)] if self.best is not None else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The settings that are compiled into a step; the others are given to every call."""

    accumulate: int
    clip: float | None
    beta1: float
    beta2: float


@functools.lru_cache(maxsize=16)  # trainings of one form share what was compiled: folds, and trials of a search
def _compiled(loss: Loss, rules: Rules, copied: NamedSharding) -> Callable[..., Stepped]:
    """The step as one compiled function: what it takes is given up to what it gives."""
    value_and_grad = jax.value_and_grad(loss)

    def gradients(params: Params, batch: Batch) -> tuple[jax.Array, Params]:
        """Loss and gradients, averaged over the micro-batches."""
        if rules.accumulate == 1:
            whole: tuple[jax.Array, Params] = value_and_grad(params, tuple(part[0] for part in batch))
            return whole

        def add(total: tuple[jax.Array, Params], micro: Batch) -> tuple[tuple[jax.Array, Params], None]:
            """Adds one micro-batch."""
            return jax.tree.map(jnp.add, total, value_and_grad(params, micro)), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        total, _ = jax.lax.scan(add, zero, batch)
        mean: tuple[jax.Array, Params] = jax.tree.map(lambda value: value / rules.accumulate, total)
        return mean

    def step(
        params: Params, mean: Params, square: Params, batch: Batch, rate: jax.Array, count: jax.Array, decay: jax.Array
    ) -> Stepped:
        """One step of AdamW."""
        value, grads = gradients(params, batch)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(grad)) for grad in grads.values()))
        if rules.clip is not None:
            scale = jnp.minimum(1.0, rules.clip / (norm + 1e-6))
            grads = {name: grad * scale for name, grad in grads.items()}
        mean = {name: rules.beta1 * mean[name] + (1 - rules.beta1) * grads[name] for name in params}
        square = {name: rules.beta2 * square[name] + (1 - rules.beta2) * jnp.square(grads[name]) for name in params}
        new = {}
        for name, param in params.items():
            first = mean[name] / (1 - rules.beta1**count)
            second = square[name] / (1 - rules.beta2**count)
            kept = 1 - rate * decay if decays(name) else 1.0
            new[name] = param * kept - rate * first / (jnp.sqrt(second) + EPSILON)
        return new, mean, square, value, norm

    compiled: Callable[..., Stepped] = jax.jit(step, donate_argnums=(0, 1, 2), out_shardings=copied)
    return compiled
