"""The trainer interface: training data, context and results, independent of any framework.

trainer = trainer_for(spec)              # trainer_list.py; imports the framework
fitted = trainer.fit(data, run)          # resumes from the newest valid checkpoint of `run`
fitted.predict(rows)                     # probabilities [n, c], values [n] or nats per token
fitted.export(folder)                    # model.onnx, or weights/ in Hugging Face's layout
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.errors import ExternalError
from gpuyard.learn.arrays import Array, Hits
from gpuyard.learn.checkpoints import Checkpoints
from gpuyard.learn.metrics_log import MetricsLog, StepMetrics
from gpuyard.learn.ranks import Ranks
from gpuyard.registry.bundle import Tensor

ProblemType = typing.Literal["classification", "regression", "ranking", "language"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabularData:
    """Numeric rows and their labels, for tabular trainers."""

    x: npt.NDArray[np.float32]  # [n, f]
    y: Array | None  # [n]: class index, or value
    names: tuple[str, ...]
    problem: ProblemType
    classes: tuple[str, ...] = ()
    groups: Array | None = None  # [n]: rows that belong together
    times: Array | None = None  # [n]: of data that is split by time
    by_time: bool = False  # the data is split by time, also if it does not hold the column

    def take(self, rows: npt.NDArray[np.intp]) -> TabularData:
        """Return the table with these rows only."""
        return TabularData(
            x=self.x[rows],
            y=None if self.y is None else self.y[rows],
            names=self.names,
            problem=self.problem,
            classes=self.classes,
            groups=None if self.groups is None else self.groups[rows],
            times=None if self.times is None else self.times[rows],
            by_time=self.by_time,
        )


class Sequences(typing.Protocol):
    """Sequences of one length: an array [n, sequence_tokens], or files read by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: npt.NDArray[np.intp], /) -> Array: ...


class TokenMasks(typing.Protocol):
    """Which tokens of sequences are labels."""

    def learned(self, rows: npt.NDArray[np.intp], /) -> Hits: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenData:
    """Sequences of token ids, for language models: packed texts, or conversations with masks."""

    ids: Sequences
    vocab: int
    tokenizer: Path | None = None  # tokenizer.json
    rows: npt.NDArray[np.intp] | None = None  # only these
    masks: TokenMasks | None = None  # None: every token is a label
    end_token: int | None = None  # after every text
    pairs: bool = False  # a sequence is a chosen conversation, then a rejected one

    def __len__(self) -> int:
        return len(self.ids) if self.rows is None else len(self.rows)

    @property
    def sequence_tokens(self) -> int:
        return int(self.of(np.zeros(1, dtype=np.intp)).shape[1])

    def of(self, rows: npt.NDArray[np.intp]) -> Array:
        """Return the sequences of some rows, [*rows, sequence_tokens]."""
        flat = rows.reshape(-1) if self.rows is None else self.rows[rows.reshape(-1)]
        return self.ids[flat].reshape(*rows.shape, -1)

    def learned(self, rows: npt.NDArray[np.intp]) -> Hits | None:
        """Return which tokens but the first are labels; None if all of them are."""
        if self.masks is None:
            return None
        flat = rows.reshape(-1) if self.rows is None else self.rows[rows.reshape(-1)]
        return self.masks.learned(flat).reshape(*rows.shape, -1)[..., 1:]

    def batch(self, rows: npt.NDArray[np.intp], dtype: type) -> tuple[Array, ...]:
        """Return the sequences of a step as a loss takes them: ids, and a mask if there is one."""
        learned = self.learned(rows)
        ids: Array = self.of(rows).astype(dtype)
        return (ids,) if learned is None else (ids, learned.astype(np.float32))

    def take(self, rows: npt.NDArray[np.intp]) -> TokenData:
        """Return the data with these sequences only."""
        chosen = rows if self.rows is None else self.rows[rows]
        return TokenData(
            ids=self.ids,
            vocab=self.vocab,
            tokenizer=self.tokenizer,
            rows=chosen,
            masks=self.masks,
            end_token=self.end_token,
            pairs=self.pairs,
        )


class ImageStack(typing.Protocol):
    """Images of one shape as floats: arrays in memory, or files read by row."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageData:
    """Images and their classes."""

    images: ImageStack
    y: Array  # [n]: class index of every image
    classes: tuple[str, ...]
    channels_first: bool
    rows: npt.NDArray[np.intp] | None = None  # only these

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return self.images.shape

    def of(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        """Return some images, [*rows, *shape]."""
        flat = rows.reshape(-1) if self.rows is None else self.rows[rows.reshape(-1)]
        return self.images.of(flat).reshape(*rows.shape, *self.shape)

    def take(self, rows: npt.NDArray[np.intp]) -> ImageData:
        """Return the data with these images only."""
        chosen = rows if self.rows is None else self.rows[rows]
        return ImageData(
            images=self.images,
            y=self.y[rows],
            classes=self.classes,
            channels_first=self.channels_first,
            rows=chosen,
        )


LearningData = TabularData | TokenData | ImageData


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingInputs:
    """The data of one training run: training rows, and validation rows for early stopping."""

    train: LearningData
    validation: LearningData | None = None
    folder: Path | None = None  # prepared data, read by the user's own command


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingContext:
    """The surroundings of one training run: its rank, log, checkpoints and stop signal."""

    ranks: Ranks = field(default_factory=Ranks)
    log: MetricsLog | None = None
    checkpoints: Checkpoints | None = None
    watch: Callable[[StepMetrics], bool] | None = None  # gets all metrics; True ends training
    stop: Callable[[], bool] = bool  # polled between steps; True: save a checkpoint and exit
    folder: Path | None = None  # task folder, used by the user's own command

    def record(self, metrics: StepMetrics) -> bool:
        """Log one line of metrics; return True if `watch` wants training to end."""
        if self.log is not None:
            self.log.record(metrics)
        return self.watch is not None and self.watch(metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSummary:
    """The outcome of a training run, reported by every trainer."""

    steps: int  # optimizer steps, or boosting rounds
    step_s: float  # median, without the first step, which compiles
    samples_per_s: float  # rows or sequences
    memory_bytes: float  # peak of the device, or of this process on the CPU
    model_flop_per_step: float  # 0 if unknown; the guide says what each trainer counts
    parameters_count: float
    device: str
    tokens_per_s: float | None = None
    loss: float | None = None  # last training loss
    validation_loss: float | None = None
    resumed_step: int | None = None  # step of the checkpoint it resumed from

    @property
    def flop_per_s(self) -> float:
        return self.model_flop_per_step / self.step_s if self.step_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What `export` wrote, as the bundle describes it."""

    kind: ProblemType
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    classes: tuple[str, ...] = ()
    framework: str = ""


class FittedModel(typing.Protocol):
    """A trained model."""

    @property
    def summary(self) -> TrainingSummary: ...

    def predict(self, rows: Array) -> Array:
        """Return probabilities [n, c], values [n], or nats per predicted token [n, s - 1]."""
        ...

    def export(self, folder: Path) -> Exported | None:
        """Write model.onnx, or weights/ for a language model; None if there is no model."""
        ...


@typing.runtime_checkable
class NextTokenModel(typing.Protocol):
    """A language model that also reports whether its top token was right."""

    def hits(self, rows: Array) -> Hits:
        """Return whether the top token was right, for every token but the first [n, s - 1]."""
        ...


class Trainer(typing.Protocol):
    """A way to train a model."""

    def fit(self, data: TrainingInputs, run: TrainingContext) -> FittedModel:
        """Train, resuming from the newest valid checkpoint of the run, and return the model."""
        ...


class StoppedError(Exception):
    """Training stopped on request, after saving a checkpoint."""


class TrainerError(ExternalError):
    """A training program failed."""
