"""A training task (task.json) and its result (result.json), as exchanged with a worker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets.folds import FoldKind
from gpuyard.document.encode import dump_json, load_json
from gpuyard.errors import ExternalError, InputError
from gpuyard.home import write_atomic
from gpuyard.learn.spec import TrainSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOf:
    """One fold of a cross-validation, as `datasets.folds` splits it."""

    number: int
    count: int
    kind: FoldKind | None = None  # None: stratified for classification, else random
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTask:
    """What to train, on which prepared data, and the folder for the results."""

    train: TrainSpec
    data: str  # folder of the prepared data
    out: str  # folder of this task
    name: str = "model"
    split: str = "train"
    fold: FoldOf | None = None  # train on this fold's training rows only
    export: bool = True  # write out/bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """The outcome of a training run, compared with the predicted one."""

    name: str
    trainer: str
    steps: int
    step_s: float
    samples_per_s: float
    memory_bytes: float
    model_flop_per_step: float
    flop_per_s: float
    parameters_count: float
    device: str
    world: int
    seed: int
    wall_s: float
    tokens_per_s: float | None = None
    loss: float | None = None
    validation_loss: float | None = None
    resumed_step: int | None = None
    data_version: str = ""
    bundle: str | None = None


def write_task(task: TrainTask) -> Path:
    """Write task.json into the task's folder and return the folder."""
    folder = Path(task.out)
    write_atomic(folder / "task.json", dump_json(task))
    return folder


def read_task(folder: Path) -> TrainTask:
    """Read the task of a folder."""
    return load_json(_text(folder / "task.json"), TrainTask, str(folder / "task.json"))


def read_result(folder: Path) -> TrainResult:
    """Read the result of a folder whose training has finished."""
    return load_json(_text(folder / "result.json"), TrainResult, str(folder / "result.json"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError.one(
            str(path), "no such file", "use the folder of a training task"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ExternalError(str(path), f"cannot be read: {error}", "check the file") from error
