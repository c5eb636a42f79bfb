"""What to train: the `train` section of a pipeline, one record for every trainer, exactly one of which is set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.catalog import Transformer
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError, one_of
from gpuyard.units import RATIO

__all__ = [
    "Command", "Device", "Gradient", "Lora", "Mlp", "Network", "Parallel", "Precision", "Schedule", "TorchMlp",
    "TorchNetwork", "TrainSpec", "Trees", "Variable", "trainer_of",
]  # fmt: skip

Precision = Literal["float32", "bfloat16"]
Schedule = Literal["constant", "linear", "cosine"]
Parallel = Literal["ddp", "fsdp"]
Device = Literal["auto", "cpu", "cuda", "xla"]
Positive = Annotated[int, AtLeast(1)]
NotNegative = Annotated[float, AtLeast(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Gradient-boosted trees (LightGBM): classes, values or rankings, by the data's problem."""

    rounds: Annotated[int, AtLeast(1), Doc("trees of each class; fewer with early_stopping")] = 100
    leaves: Annotated[int, AtLeast(2), Doc("leaves of one tree")] = 31
    depth: Annotated[int | None, AtLeast(1), Doc("levels of one tree; default: no limit but leaves")] = None
    learning_rate: NotNegative = 0.1
    min_rows: Annotated[int, AtLeast(1), Doc("rows in a leaf, at least")] = 20
    l1: NotNegative = 0.0
    l2: NotNegative = 0.0
    rows_ratio: Annotated[float, RATIO, Doc("share of the rows that each tree sees")] = 1.0
    columns_ratio: Annotated[float, RATIO, Doc("share of the columns that each tree sees")] = 1.0
    early_stopping: Annotated[int | None, AtLeast(1), Doc("rounds without gain on the validation rows")] = None
    ranking: Annotated[bool, Doc("learn an order inside groups of rows (LambdaRank); the data must have groups")] = (
        False
    )
    threads: Annotated[int, AtLeast(0), Doc("0: all cores")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """What every network's training has: how long, in which batches, by which optimiser (AdamW)."""

    epochs: Annotated[int, AtLeast(1), Doc("passes over the training rows; not used when steps is set")] = 1
    steps: Annotated[int | None, AtLeast(1), Doc("optimiser steps, instead of epochs")] = None
    batch: Annotated[int, AtLeast(1), Doc("rows or sequences of one optimiser step, over all processes")] = 32
    accumulate: Annotated[int, AtLeast(1), Doc("parts that a batch is cut into, to save memory")] = 1
    learning_rate: NotNegative = 1e-3
    weight_decay: NotNegative = 0.0
    beta1: NotNegative = 0.9
    beta2: NotNegative = 0.999
    clip: Annotated[float | None, AtLeast(0), Doc("largest norm of the gradient; default: no limit")] = None
    warmup: Annotated[int, AtLeast(0), Doc("steps over which the learning rate rises from zero")] = 0
    schedule: Annotated[Schedule, Doc("how the learning rate goes on from there, to zero at the end")] = "constant"
    precision: Annotated[Precision, Doc("of the matrix products; weights and optimiser stay float32")] = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp(Gradient):
    """A multi-layer perceptron on tabular rows: classes or values, by the data's problem."""

    hidden: Annotated[int, AtLeast(1), Doc("units of a hidden layer")] = 64
    layers: Annotated[int, AtLeast(0), Doc("hidden layers")] = 2
    epochs: Annotated[int, AtLeast(1), Doc("passes over the training rows; not used when steps is set")] = 20
    early_stopping: Annotated[int | None, AtLeast(1), Doc("epochs without gain on the validation rows")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchMlp(Mlp):
    """The same perceptron in PyTorch."""

    parallel: Annotated[Parallel, Doc("ddp: every process has the weights; fsdp: they are spread")] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA when present, else the CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Gradient):
    """A decoder-only transformer on packed tokens: RMSNorm, rotary positions, grouped queries, SwiGLU."""

    shape: Transformer
    learning_rate: NotNegative = 3e-4
    weight_decay: NotNegative = 0.1
    beta2: NotNegative = 0.95
    clip: Annotated[float | None, AtLeast(0), Doc("largest norm of the gradient")] = 1.0
    schedule: Annotated[Schedule, Doc("how the learning rate goes on after the warm-up")] = "cosine"
    batch: Annotated[int, AtLeast(1), Doc("sequences of one optimiser step, over all processes")] = 8
    recompute: Annotated[bool, Doc("do not keep a layer's activations; compute them again going back")] = False
    rope_theta: Annotated[float, AtLeast(1), Doc("base of the rotary frequencies")] = 10000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchNetwork(Network):
    """The same transformer in PyTorch."""

    parallel: Annotated[Parallel, Doc("ddp: every process has the weights; fsdp: they are spread")] = "ddp"
    device: Annotated[Device, Doc("auto: CUDA when present, else the CPU; xla: PyTorch/XLA")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora(Gradient):
    """Low-rank adapters (LoRA, arXiv 2106.09685) on a causal language model from local Hugging Face weights."""

    base: Annotated[str, Doc("folder with config.json and the weights")]
    rank: Positive = 8
    alpha: Annotated[float, AtLeast(0), Doc("the adapters' output is scaled by alpha / rank")] = 16.0
    targets: Annotated[tuple[str, ...], Doc("linear layers that get adapters, by the last part of their name")] = (
        "q_proj",
        "v_proj",
    )
    learning_rate: NotNegative = 2e-4
    batch: Annotated[int, AtLeast(1), Doc("sequences of one optimiser step, over all processes")] = 8
    device: Annotated[Device, Doc("auto: CUDA when present, else the CPU")] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The user's own program, of any framework; how it meets gpuyard is in the guide `train`."""

    run: Annotated[tuple[str, ...], Doc("program and arguments")]
    env: Annotated[tuple[Variable, ...], Doc("further environment variables")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSpec:
    """The `train` section: one trainer with its settings, and what all of them share."""

    seed: Annotated[int, AtLeast(0)] = 0
    validation_ratio: Annotated[float, RATIO, Doc("share of the training rows kept for validation")] = 0.0
    checkpoint_every: Annotated[int, AtLeast(1), Doc("steps (rounds of trees) between checkpoints")] = 100
    log_every: Annotated[int, AtLeast(1), Doc("steps (rounds of trees) between lines of metrics")] = 10
    trees: Trees | None = None
    jax_mlp: Mlp | None = None
    jax_transformer: Network | None = None
    torch_mlp: TorchMlp | None = None
    torch_transformer: TorchNetwork | None = None
    lora: Lora | None = None
    command: Command | None = None


SHARED = frozenset({"seed", "validation_ratio", "checkpoint_every", "log_every"})
NAMES = tuple(field.name for field in dataclasses.fields(TrainSpec) if field.name not in SHARED)


def trainer_of(spec: TrainSpec, where: str = "train") -> str:
    """The name of the trainer that the spec sets; InputError when none or several are set."""
    names = [name for name in NAMES if getattr(spec, name) is not None]
    if len(names) == 1:
        return names[0]
    what = f"{one_of(names)} are both set" if names else "no trainer is set"
    raise InputError.one(where, what, f"set one of {', '.join(NAMES)}")
