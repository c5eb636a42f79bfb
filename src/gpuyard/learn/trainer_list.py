"""The list of trainers: how each is loaded, and the extra that installs its framework.

Frameworks are imported by the loader of a trainer, so that listing trainers imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuyard.errors import ExternalError
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.trainer import Trainer


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerEntry:
    """One trainer; its name is its key in the `train` section."""

    name: str
    load: Callable[[TrainSpec], Trainer]
    extra: str
    preload: tuple[str, ...] = ()  # modules that worker processes import before they fork


def _trees(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.trees.trainer import make

    return make(spec)


def _sklearn(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.sklearn_models.trainer import make

    return make(spec)


def _jax_mlp(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.jax_nets.mlp import make

    return make(spec)


def _jax_transformer(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.jax_nets.transformer import make

    return make(spec)


def _torch_mlp(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.torch_nets.mlp import make

    return make(spec)


def _torch_transformer(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.torch_nets.transformer import make

    return make(spec)


def _torch_images(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.torch_images.trainer import make

    return make(spec)


def _lora(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.lora.trainer import make

    return make(spec)


def _transformers(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.hugging_face.trainer import make

    return make(spec)


def _command(spec: TrainSpec) -> Trainer:
    from gpuyard.learn.trainers.command.trainer import make

    return make(spec)


TRAINERS = (
    TrainerEntry(name="trees", load=_trees, extra="run", preload=("numpy", "lightgbm")),
    TrainerEntry(name="sklearn", load=_sklearn, extra="run", preload=("numpy", "sklearn")),
    TrainerEntry(name="jax_mlp", load=_jax_mlp, extra="jax", preload=("numpy",)),
    TrainerEntry(name="jax_transformer", load=_jax_transformer, extra="jax"),
    TrainerEntry(name="torch_mlp", load=_torch_mlp, extra="torch", preload=("numpy",)),
    TrainerEntry(name="torch_transformer", load=_torch_transformer, extra="torch"),
    TrainerEntry(name="torch_cnn", load=_torch_images, extra="torch", preload=("numpy",)),
    TrainerEntry(name="torch_vit", load=_torch_images, extra="torch", preload=("numpy",)),
    TrainerEntry(name="lora", load=_lora, extra="torch"),
    TrainerEntry(name="transformers", load=_transformers, extra="hf"),
    TrainerEntry(name="command", load=_command, extra="run"),
)


def trainer_entry(name: str) -> TrainerEntry:
    """Return the entry of a trainer by name."""
    return next(entry for entry in TRAINERS if entry.name == name)


def trainer_for(spec: TrainSpec) -> Trainer:
    """Return the spec's trainer; raise ExternalError with the extra if its framework is missing."""
    entry = trainer_entry(trainer_of(spec))
    try:
        return entry.load(spec)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gpuyard"):
            raise
        raise ExternalError(
            f"train: {entry.name}",
            f"the package {error.name} is not installed",
            f"pip install 'gpuyard[{entry.extra}]'",
        ) from error
