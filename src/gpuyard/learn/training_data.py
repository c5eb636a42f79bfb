"""Prepared data as trainers take it: a table or tokens, with rows kept for validation."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets import Arrays, FittedTransform, Fold, Manifest, Prepared, folds, load_prepared
from gpuyard.errors import InputError
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import FoldOf, TrainTask
from gpuyard.learn.trainer import Table, Tokens, Training

__all__ = ["Loaded", "load_training", "table_from", "with_validation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The data of a training, its version, and the transform that made its columns."""

    training: Training
    version: str = ""
    transform: FittedTransform | None = None


def load_training(task: TrainTask) -> Loaded:
    """The task's rows from its prepared folder; the user's own command reads them itself."""
    if not task.data and trainer_of(task.train) == "command":
        nothing = Table(x=np.zeros((0, 0), dtype=np.float32), y=None, names=(), problem="regression")
        return Loaded(training=Training(train=nothing), version="", transform=None)
    prepared = load_prepared(Path(task.data))
    manifest, transform = prepared.manifest, prepared.transform
    train: Table | Tokens
    if trainer_of(task.train) == "command":
        train = Table(
            x=np.zeros((0, len(manifest.features)), dtype=np.float32), y=None, names=manifest.features,
            problem=manifest.problem or "regression", classes=manifest.classes,
        )  # fmt: skip
        training = Training(train=train, folder=prepared.folder)
        return Loaded(training=training, version=manifest.version, transform=transform)
    if manifest.kind == "tokens":
        if task.fold is not None:
            raise InputError.one("evaluate: folds", "packed tokens have no folds", "use a hold-out split")
        shards = prepared.tokens(task.split)
        train = Tokens(ids=shards, vocab=shards.vocabulary_count, tokenizer=shards.tokenizer)
    elif manifest.kind == "table":
        arrays = prepared.arrays(task.split)
        if task.fold is not None:
            fold = _fold(prepared, task.fold)
            arrays, transform = fold.train, fold.transform
        train = table_from(arrays, manifest)
    else:
        raise InputError.one(task.data, f"no trainer here learns from {manifest.kind}", "use train: command")
    training = with_validation(Training(train=train, folder=prepared.folder), task.train)
    return Loaded(training=training, version=manifest.version, transform=transform)


def table_from(arrays: Arrays, manifest: Manifest) -> Table:
    """Prepared arrays as trainers take them."""
    return Table(
        x=arrays.x,
        y=arrays.y,
        names=arrays.names,
        problem=manifest.problem or "regression",
        classes=manifest.classes,
        groups=arrays.groups,
    )


def _fold(prepared: Prepared, wanted: FoldOf) -> Fold:
    """One fold of the data."""
    for fold in folds(prepared, count=wanted.count, kind=wanted.kind, seed=wanted.seed):
        if fold.number == wanted.number:
            return fold
    raise InputError.one("fold", f"there is no fold {wanted.number} of {wanted.count}", "number the folds from 0")


def with_validation(data: Training, spec: TrainSpec) -> Training:
    """The data with `validation_ratio` of the training rows kept apart: whole groups, and some of every class."""
    ratio, train = spec.validation_ratio, data.train
    if ratio <= 0 or data.validation is not None:
        return data
    if ratio >= 1:
        raise InputError.one("train: validation", f"{ratio:g} leaves no row to train on", "write a share below 1")
    if isinstance(train, Table):
        kept = _kept(train, ratio, spec.seed)
        return dataclasses.replace(
            data, train=train.take(np.flatnonzero(~kept)), validation=train.take(np.flatnonzero(kept))
        )
    order = _generator(spec.seed).permutation(len(train))
    cut = max(1, round(ratio * len(order)))
    return dataclasses.replace(
        data, train=train.take(np.sort(order[cut:])), validation=train.take(np.sort(order[:cut]))
    )


def _kept(table: Table, ratio: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which rows are kept for validation."""
    generator, kept = _generator(seed), np.zeros(len(table.x), dtype=np.bool_)
    if table.groups is not None:
        groups = np.unique(table.groups)
        chosen = generator.permutation(groups)[: max(1, round(ratio * len(groups)))]
        return np.isin(table.groups, chosen)
    strata = table.y if table.problem == "classification" and table.y is not None else np.zeros(len(table.x))
    for value in np.unique(strata):
        rows = np.flatnonzero(strata == value)
        kept[generator.permutation(rows)[: round(ratio * len(rows))]] = True
    return kept


def _generator(seed: int) -> np.random.Generator:
    """Random numbers of their own for the validation rows."""
    return np.random.Generator(np.random.Philox(key=[seed, 0x76616C]))  # "val"
