"""The `train` section: one record per trainer, exactly one of which is set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from gpuyard.datasets.data_kind import DataKind
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError, choices_text
from gpuyard.learn.trainers.command.command_settings import CommandSpec
from gpuyard.learn.trainers.hugging_face.hugging_face_settings import TransformersSpec
from gpuyard.learn.trainers.lora.lora_settings import LoraSpec
from gpuyard.learn.trainers.network_settings import MlpSpec, TransformerSpec
from gpuyard.learn.trainers.sklearn_models.sklearn_settings import SklearnSpec
from gpuyard.learn.trainers.torch_images.image_settings import TorchCnnSpec, TorchVitSpec
from gpuyard.learn.trainers.torch_nets.torch_settings import TorchMlpSpec, TorchTransformerSpec
from gpuyard.learn.trainers.trees.trees_settings import TreesSpec
from gpuyard.units import RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """The `train` section: one trainer with its settings, and the settings all trainers share."""

    seed: Annotated[int, AtLeast(0)] = 0
    validation_ratio: Annotated[
        float, RATIO, Doc("share of the training rows held out for validation")
    ] = 0.0
    checkpoint_every: Annotated[
        int, AtLeast(1), Doc("steps (boosting rounds) between checkpoints")
    ] = 100
    log_every: Annotated[
        int, AtLeast(1), Doc("steps (boosting rounds) between lines of metrics")
    ] = 10
    trees: TreesSpec | None = None
    sklearn: SklearnSpec | None = None
    jax_mlp: MlpSpec | None = None
    jax_transformer: TransformerSpec | None = None
    torch_mlp: TorchMlpSpec | None = None
    torch_transformer: TorchTransformerSpec | None = None
    torch_cnn: TorchCnnSpec | None = None
    torch_vit: TorchVitSpec | None = None
    lora: LoraSpec | None = None
    transformers: TransformersSpec | None = None
    command: CommandSpec | None = None


SHARED = frozenset({"seed", "validation_ratio", "checkpoint_every", "log_every"})
IMAGE_TRAINERS = ("torch_cnn", "torch_vit")
LANGUAGE_TRAINERS = ("jax_transformer", "torch_transformer", "lora", "transformers")
TRAINER_NAMES = tuple(
    field.name for field in dataclasses.fields(TrainSpec) if field.name not in SHARED
)


def trainer_kinds(trainer: str) -> tuple[DataKind, ...]:
    """Return the kinds of prepared data that a trainer learns from."""
    if trainer == "command":
        return ("table", "tokens", "images")
    if trainer in IMAGE_TRAINERS:
        return ("images",)
    return ("tokens",) if trainer in LANGUAGE_TRAINERS else ("table",)


def trainer_of(spec: TrainSpec, where: str = "train") -> str:
    """Return the name of the spec's trainer; raise InputError unless exactly one is set."""
    names = [name for name in TRAINER_NAMES if getattr(spec, name) is not None]
    if len(names) == 1:
        return names[0]
    what = f"{choices_text(names)} are both set" if names else "no trainer is set"
    raise InputError.one(where, what, f"set one of {', '.join(TRAINER_NAMES)}")
