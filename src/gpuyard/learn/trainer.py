"""The seam of the trainers: what one gets, what it gives, and where its progress goes.

trainer = trainer_for(spec)              # loads the framework on use
fitted = trainer.fit(data, run)          # from the newest good checkpoint of `run`, if there is one
fitted.predict(rows)                     # probabilities [n, c], values [n], or nats of every token [n, s - 1]
fitted.export(folder)                    # model.onnx, or weights/ in Hugging Face's layout
"""

from __future__ import annotations

import importlib
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.errors import RefusedError
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.registry import Tensor

__all__ = [
    "Exported", "Fitted", "Problem", "Run", "StoppedError", "Summary", "Table", "Tokens", "Trainer", "TrainerError",
    "Training", "trainer_for",
]  # fmt: skip

Problem = typing.Literal["classification", "regression", "ranking", "language"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of numbers with their answers: what tabular trainers learn from."""

    x: npt.NDArray[np.float32]  # [n, f]
    y: Array | None  # [n]: number of the class, or the value
    names: tuple[str, ...]
    problem: Problem
    classes: tuple[str, ...] = ()
    groups: Array | None = None  # [n]: rows that belong together

    def take(self, rows: npt.NDArray[np.intp]) -> Table:
        """The table with these rows only."""
        return Table(
            x=self.x[rows],
            y=None if self.y is None else self.y[rows],
            names=self.names,
            problem=self.problem,
            classes=self.classes,
            groups=None if self.groups is None else self.groups[rows],
        )


class Sequences(typing.Protocol):
    """Sequences of one length: an array [n, sequence_tokens], or files that are read by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: npt.NDArray[np.intp], /) -> Array: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Packed sequences of token numbers: what language models learn from."""

    ids: Sequences
    vocab: int
    tokenizer: Path | None = None  # tokenizer.json
    rows: npt.NDArray[np.intp] | None = None  # only these

    def __len__(self) -> int:
        return len(self.ids) if self.rows is None else len(self.rows)

    @property
    def sequence_tokens(self) -> int:
        """Tokens of every sequence."""
        return int(self.of(np.zeros(1, dtype=np.intp)).shape[1])

    def of(self, rows: npt.NDArray[np.intp]) -> Array:
        """The sequences of some rows, [*rows, sequence_tokens]."""
        flat = rows.reshape(-1) if self.rows is None else self.rows[rows.reshape(-1)]
        return self.ids[flat].reshape(*rows.shape, -1)

    def take(self, rows: npt.NDArray[np.intp]) -> Tokens:
        """The tokens with these sequences only."""
        chosen = rows if self.rows is None else self.rows[rows]
        return Tokens(ids=self.ids, vocab=self.vocab, tokenizer=self.tokenizer, rows=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """The data of one training: what is learnt from, what early stopping looks at, and where it all lies."""

    train: Table | Tokens
    validation: Table | Tokens | None = None
    folder: Path | None = None  # the prepared data, for the user's own command


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Where one training's progress goes: which process this is, its log, its checkpoints, and when to leave."""

    ranks: Ranks = field(default_factory=Ranks)
    log: MetricsLog | None = None
    checkpoints: Checkpoints | None = None
    watch: Callable[[StepMetrics], bool] | None = None  # sees every line of metrics; True ends the training there
    stop: Callable[[], bool] = bool  # True: checkpoint and leave; asked between steps
    folder: Path | None = None  # the task's folder, for the user's own command

    def record(self, metrics: StepMetrics) -> bool:
        """Writes a line of metrics; True when the one who watches wants no more."""
        if self.log is not None:
            self.log.record(metrics)
        return self.watch is not None and self.watch(metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a training came to: every trainer gives all of these."""

    steps: int  # optimiser steps, or rounds of trees
    step_s: float  # median; the first, which compiles, is left out
    samples_per_s: float  # rows or sequences
    memory_bytes: float  # peak: of the device, or of this process where there is none
    model_flop_per_step: float  # see the guide for what each trainer counts; 0 where it is not known
    parameters_count: float
    device: str
    tokens_per_s: float | None = None
    loss: float | None = None  # last on the training rows
    validation_loss: float | None = None
    resumed_step: int | None = None  # went on from the checkpoint of this step

    @property
    def flop_per_s(self) -> float:
        """Model operations over the time they took."""
        return self.model_flop_per_step / self.step_s if self.step_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What `export` wrote, as the bundle describes it."""

    kind: Problem
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    classes: tuple[str, ...] = ()
    framework: str = ""


class Fitted(typing.Protocol):
    """A trained model."""

    @property
    def summary(self) -> Summary:
        """What the training came to."""
        ...

    def predict(self, rows: Array) -> Array:
        """Probabilities [n, c] of classes, values [n], or nats of every token but the first [n, s - 1]."""
        ...

    def export(self, folder: Path) -> Exported | None:
        """Writes model.onnx, or weights/ for a language model, into the folder; None when there is nothing to write."""
        ...


@typing.runtime_checkable
class Guesser(typing.Protocol):
    """A language model that also tells the likeliest token."""

    def hits(self, rows: Array) -> Hits:
        """Whether the likeliest token was the right one, of every token but the first [n, s - 1]."""
        ...


class Trainer(typing.Protocol):
    """One way to train."""

    def fit(self, data: Training, run: Run) -> Fitted:
        """The trained model; goes on from the newest good checkpoint of the run, if there is one."""
        ...


class StoppedError(Exception):
    """The training was asked to leave, and did after its checkpoint."""


class TrainerError(RefusedError):
    """A trainer's program failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A trainer's folder, and the extra that brings its framework."""

    name: str
    module: str  # has `make(spec: TrainSpec) -> Trainer`
    extra: str


ADAPTERS = (
    Adapter(name="trees", module="trees", extra="run"),
    Adapter(name="jax_mlp", module="jax_nets.mlp", extra="jax"),
    Adapter(name="jax_transformer", module="jax_nets.transformer", extra="jax"),
    Adapter(name="torch_mlp", module="torch_nets.mlp", extra="torch"),
    Adapter(name="torch_transformer", module="torch_nets.transformer", extra="torch"),
    Adapter(name="lora", module="lora", extra="torch"),
    Adapter(name="command", module="command", extra="run"),
)


def trainer_for(spec: TrainSpec) -> Trainer:
    """The trainer that the spec sets; RefusedError names the extra when its framework is not installed."""
    name = trainer_of(spec)
    adapter = next(adapter for adapter in ADAPTERS if adapter.name == name)
    try:
        module = importlib.import_module(f"gpuyard.learn.trainers.{adapter.module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("gpuyard"):
            raise
        raise RefusedError(
            f"train: {name}", f"the package {error.name} is not installed", f"pip install 'gpuyard[{adapter.extra}]'"
        ) from error
    trainer: Trainer = module.make(spec)
    return trainer
