"""One training as a value: what a worker is told (task.json) and what it tells back (result.json)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyard.datasets import FoldKind
from gpuyard.document import dump_json, load_json
from gpuyard.errors import InputError, RefusedError
from gpuyard.home import write_whole
from gpuyard.learn.spec import TrainSpec

__all__ = ["FoldOf", "TrainResult", "TrainTask", "read_result", "read_task", "write_task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldOf:
    """One fold of a cross-validation, as `datasets.folds` cuts it."""

    number: int
    count: int
    kind: FoldKind | None = None  # left out: stratified for classes, else random
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainTask:
    """What to train, on which prepared data, and the folder that gets the results."""

    train: TrainSpec
    data: str  # folder of the prepared data
    out: str  # folder of this task
    name: str = "model"
    split: str = "train"
    fold: FoldOf | None = None  # only this fold's training part
    export: bool = True  # write out/bundle


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a training came to; `measured` meets `predicted` in these numbers."""

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
    """Writes task.json into the task's folder; gives the folder."""
    folder = Path(task.out)
    write_whole(folder / "task.json", dump_json(task))
    return folder


def read_task(folder: Path) -> TrainTask:
    """The task of a folder."""
    return load_json(_text(folder / "task.json"), TrainTask, str(folder / "task.json"))


def read_result(folder: Path) -> TrainResult:
    """The result of a folder whose training is done."""
    return load_json(_text(folder / "result.json"), TrainResult, str(folder / "result.json"))


def _text(path: Path) -> str:
    """The contents of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError.one(str(path), "no such file", "name the folder of a training task") from error
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(str(path), f"cannot be read: {error}", "check the file") from error
