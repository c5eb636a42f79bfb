"""A training run as frameworks take it: layout, batch, steps, precision and checkpoint interval."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from gpuyard.blueprint.blueprint import Blueprint
from gpuyard.catalog.models import Model
from gpuyard.catalog.rows import Source
from gpuyard.document.decode import decode
from gpuyard.document.field_types import Doc, Keys
from gpuyard.document.read import read_file
from gpuyard.perf.goodput import best_interval_s
from gpuyard.plan.interruptions import CHECKPOINT_STALL_S
from gpuyard.plan.option import ParallelLayout
from gpuyard.plan.training_software import Method
from gpuyard.units import HOUR_S

PATH = Path(__file__).parent / "data" / "training_recipes.toml"
HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
# Whose weights, tokenizers and configurations need a token (rows of checkpoints.toml).
GATED = ("meta-llama/", "google/gemma")
CHECKPOINT_DIR, DATA_DIR = "$CHECKPOINT_DIR", "$DATA_DIR"  # set on every platform
# Without a record of interruptions there is no best interval.
DEFAULT_INTERVAL_S = float(HOUR_S)
DEFAULT_LORA_RANK = 16
DEFAULT_SEQUENCE_TOKENS = 2048  # as in the plan
# Linear warm-up: 1 % of the steps, and never more than the 2,000 of Llama 3 (arXiv 2407.21783).
WARM_UP_RATIO, MAX_WARM_UP_STEPS = 0.01, 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecipe:
    """What the frameworks call a model of the catalog; empty: they have no recipe for it."""

    name: str
    megatron_bridge: str = ""
    megatron_bridge_modes: tuple[Literal["pretrain", "sft", "peft"], ...] = ()
    maxtext: str = ""
    torchtitan: Annotated[str, Doc("model and flavor")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecipes:
    """Contents of training_recipes.toml."""

    sources: tuple[Source, ...]
    models: tuple[ModelRecipe, ...]

    def of(self, model: Model) -> ModelRecipe:
        """Return the recipe of a model; one without names if there is none."""
        rows = (row for row in self.models if row.name == model.name)
        return next(rows, ModelRecipe(name=model.name))


@functools.cache
def read_training_recipes() -> TrainingRecipes:
    """Return the recipes that ship with gpuyard."""
    return decode(read_file(PATH).root, TrainingRecipes, Keys.SUFFIXED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """What the plan decided about a training run."""

    model: Model
    method: Method
    is_pretraining: bool
    layout: ParallelLayout
    precision: str
    sequence_tokens: int
    epochs: float
    steps_count: int
    checkpoint_steps: Annotated[int, Doc("optimizer steps between checkpoints")]
    lora_rank: int
    optimizer: str
    has_data: Annotated[bool, Doc("data.location is set")]
    machine_count: int
    chips_per_machine: int
    slice_count: Annotated[int, Doc("TPU slices; 1 for one slice and for GPUs")] = 1
    is_tpu: bool = False

    @property
    def global_batch_count(self) -> int:
        """Samples per optimizer step."""
        return self.layout.micro_batch * self.layout.gradient_accumulation * self.layout.dp

    @property
    def warm_up_steps(self) -> int:
        """Steps of linear warm-up of the learning rate."""
        return max(1, min(MAX_WARM_UP_STEPS, round(WARM_UP_RATIO * self.steps_count)))

    @property
    def hub_name(self) -> str:
        """Name of the model on Hugging Face; empty if the catalog has none."""
        return hub_name(self.model)


def hub_name(model: Model) -> str:
    """Return the name of a model on Hugging Face; empty if the catalog has none."""
    names = (model.name, *model.aliases)
    return next((name for name in names if HUB_NAME.fullmatch(name)), "")


def training_run(blueprint: Blueprint, slice_count: int = 1) -> TrainingRun | None:
    """Return the training run of a blueprint; None if it trains no model with a layout."""
    workload, option = blueprint.workload, blueprint.option
    if workload.model is None or option.arrangement is None or workload.data is None:
        return None
    training, data = workload.training, workload.data
    return TrainingRun(
        model=workload.model,
        method=training.method if training else "full",
        is_pretraining=workload.task == "pretraining",
        layout=option.arrangement,
        precision=option.precision,
        sequence_tokens=data.sequence_tokens or _longest(workload.model),
        epochs=data.epochs,
        steps_count=max(1, math.ceil(option.steps_count)),
        checkpoint_steps=checkpoint_steps(blueprint),
        lora_rank=(training.lora_rank if training else None) or DEFAULT_LORA_RANK,
        optimizer=training.optimizer if training else "adamw",
        has_data=bool(data.location),
        machine_count=blueprint.machine_count,
        chips_per_machine=max(1, int(blueprint.machine.chip_count)),
        slice_count=slice_count,
        is_tpu=blueprint.is_tpu,
    )


def checkpoint_steps(blueprint: Blueprint) -> int:
    """Return the steps between checkpoints with which the plan expects its goodput."""
    between_s = blueprint.mean_time_between_interruptions_s
    interval_s = DEFAULT_INTERVAL_S
    if between_s:
        interval_s = float(best_interval_s(between_s, CHECKPOINT_STALL_S))
    steps = round(interval_s / blueprint.option.step_s) if blueprint.option.step_s > 0.0 else 1
    return max(1, min(steps, math.ceil(blueprint.option.steps_count)))


def _longest(model: Model) -> int:
    shape = model.transformer
    return (shape.max_context_tokens if shape else None) or DEFAULT_SEQUENCE_TOKENS
