"""One optimizer step in JAX: gradients of the micro-batches and AdamW in one compiled function."""

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
from gpuyard.learn.trainer import TrainingContext
from gpuyard.learn.trainers.jax_nets.mesh import Devices
from gpuyard.learn.trainers.network_settings import GradientTrainingSpec

Params = dict[str, jax.Array]
Batch = tuple[jax.Array, ...]
Loss = Callable[[Params, Batch], jax.Array]  # cached by its maker, so that it is compiled once
Stepped = tuple[Params, Params, Params, jax.Array, jax.Array]
Rows = Callable[[npt.NDArray[np.intp]], tuple[npt.NDArray[np.generic], ...]]
EPSILON = 1e-8
STATE = "state.npz"
NOTES = "notes.json"


class JaxStepper:
    """The weights, the optimizer state and the compiled step."""

    def __init__(
        self,
        *,
        weights: Weights,
        loss: Loss,
        rows: Rows,
        validate: Callable[[Params], float],
        spec: GradientTrainingSpec,
        devices: Devices,
        loss_scale: float = 1.0,
    ) -> None:
        self.devices = devices
        self.rows = rows
        self.validate = validate
        self.loss_scale = loss_scale
        self.params = {name: devices.copy(array) for name, array in weights.items()}
        self.mean = {name: devices.copy(np.zeros_like(array)) for name, array in weights.items()}
        self.square = {name: devices.copy(np.zeros_like(array)) for name, array in weights.items()}
        self.count = 0
        self.best: Params | None = None
        self.last: tuple[jax.Array, jax.Array] | None = None
        config = JaxStepConfig(
            accumulate=spec.accumulate, clip=spec.clip, beta1=spec.beta1, beta2=spec.beta2
        )
        self._step = _compiled(loss, config, devices.replicated)
        self.decay = np.float32(spec.weight_decay)
        self._any = jax.jit(lambda flags: flags.max(), out_shardings=devices.replicated)

    def step(self, rows: npt.NDArray[np.intp], learning_rate: float) -> None:
        """Run one optimizer step, without waiting for it."""
        batch = tuple(self.devices.batch(part) for part in self.rows(rows))
        self.count += 1
        self.params, self.mean, self.square, *last = self._step(
            self.params,
            self.mean,
            self.square,
            batch,
            np.float32(learning_rate),
            np.float32(self.count),
            self.decay,
        )
        self.last = (last[0], last[1])

    def loss(self) -> tuple[float, float]:
        """Return loss and gradient norm of the last step, over all processes."""
        assert self.last is not None
        return float(self.last[0]) * self.loss_scale, float(self.last[1])

    def validation_loss(self) -> float:
        return self.validate(self.params) * self.loss_scale

    def any_process(self, flag: bool) -> bool:
        """Return True in every process if the flag is set in any of them."""
        flags = np.full((1, jax.local_device_count()), flag, dtype=np.int32)
        return bool(self._any(self.devices.batch(flags)))

    def keep_best(self) -> None:
        """Remember the current weights as the best."""
        self.best = {name: jnp.copy(array) for name, array in self.params.items()}

    def weights(self) -> Weights:
        """Return the final weights: the best ones with early stopping."""
        return {name: np.asarray(array) for name, array in (self.best or self.params).items()}

    def memory_bytes(self) -> float:
        """Return the peak memory in use."""
        return self.devices.memory_bytes()

    def save(self, run: TrainingContext, step: int, notes: str) -> None:
        """Save the checkpoint of a step; weights are replicated, so rank 0 writes it."""
        if not run.ranks.first or run.checkpoints is None:
            return

        def write(folder: Path) -> None:
            arrays = {
                f"{kind}:{name}": np.asarray(array)
                for kind, part in self._parts()
                for name, array in part.items()
            }
            with (folder / STATE).open("wb") as file:
                np.savez(file, allow_pickle=False, **typing.cast(typing.Any, arrays))
            (folder / NOTES).write_text(notes, encoding="utf-8")

        run.checkpoints.save(step, write)

    def restore(self, folder: Path) -> str:
        """Load weights and optimizer state from a checkpoint; return the saved loop state."""
        with np.load(folder / STATE, allow_pickle=False) as arrays:
            if f"best:{next(iter(self.params))}" in arrays:
                self.best = dict(self.params)
            for kind, part in self._parts():
                for name, array in part.items():
                    saved = arrays.get(f"{kind}:{name}")
                    if saved is None or saved.shape != array.shape:
                        raise InputError.one(
                            str(folder),
                            f"checkpoint of a different model: {name} differs",
                            "use another folder for this training",
                        )
                    part[name] = self.devices.copy(saved)
        self.count = int(folder.name)
        return (folder / NOTES).read_text(encoding="utf-8")

    def _parts(self) -> list[tuple[str, Params]]:
        parts = [("weight", self.params), ("mean", self.mean), ("square", self.square)]
        return parts + ([("best", self.best)] if self.best is not None else [])


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxStepConfig:
    """Settings compiled into a step; the others are arguments of every call."""

    accumulate: int
    clip: float | None
    beta1: float
    beta2: float


@functools.lru_cache(maxsize=16)  # shared by folds and by trials of a search
def _compiled(
    loss: Loss, config: JaxStepConfig, replicated: NamedSharding
) -> Callable[..., Stepped]:
    # Parameters and optimizer state are donated: the results reuse their memory.
    value_and_grad = jax.value_and_grad(loss)

    def gradients(params: Params, batch: Batch) -> tuple[jax.Array, Params]:
        if config.accumulate == 1:
            whole: tuple[jax.Array, Params] = value_and_grad(
                params, tuple(part[0] for part in batch)
            )
            return whole

        def add(
            total: tuple[jax.Array, Params], micro: Batch
        ) -> tuple[tuple[jax.Array, Params], None]:
            return jax.tree.map(jnp.add, total, value_and_grad(params, micro)), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, params))
        total, _ = jax.lax.scan(add, zero, batch)
        mean: tuple[jax.Array, Params] = jax.tree.map(
            lambda value: value / config.accumulate, total
        )
        return mean

    def step(
        params: Params,
        mean: Params,
        square: Params,
        batch: Batch,
        rate: jax.Array,
        count: jax.Array,
        decay: jax.Array,
    ) -> Stepped:
        value, grads = gradients(params, batch)
        norm = jnp.sqrt(sum(jnp.sum(jnp.square(grad)) for grad in grads.values()))
        if config.clip is not None:
            scale = jnp.minimum(1.0, config.clip / (norm + 1e-6))
            grads = {name: grad * scale for name, grad in grads.items()}
        mean = {
            name: config.beta1 * mean[name] + (1 - config.beta1) * grads[name] for name in params
        }
        square = {
            name: config.beta2 * square[name] + (1 - config.beta2) * jnp.square(grads[name])
            for name in params
        }
        new = {}
        for name, param in params.items():
            first = mean[name] / (1 - config.beta1**count)
            second = square[name] / (1 - config.beta2**count)
            shrink = 1 - rate * decay if decays(name) else 1.0
            new[name] = param * shrink - rate * first / (jnp.sqrt(second) + EPSILON)
        return new, mean, square, value, norm

    compiled: Callable[..., Stepped] = jax.jit(
        step, donate_argnums=(0, 1, 2), out_shardings=replicated
    )
    return compiled
