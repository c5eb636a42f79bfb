"""Load prepared data as tables or tokens for trainers, and split off validation rows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.datasets.folds import Fold, folds
from gpuyard.datasets.images import read_images
from gpuyard.datasets.manifest import DatasetManifest
from gpuyard.datasets.prepared import Arrays, PreparedDataset, load_prepared
from gpuyard.datasets.spec import DataSpec
from gpuyard.datasets.transform import FittedTransform
from gpuyard.document.encode import load_json
from gpuyard.errors import InputError
from gpuyard.learn.arrays import Array
from gpuyard.learn.spec import TrainSpec, trainer_of
from gpuyard.learn.task import FoldOf, TrainTask
from gpuyard.learn.trainer import (
    ImageData,
    LearningData,
    TabularData,
    TokenData,
    TrainingInputs,
)

VALIDATION = "validation"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedDataset:
    """The data of a training run, its version, and the transform that produced its columns."""

    training: TrainingInputs
    version: str = ""
    transform: FittedTransform | None = None
    label: str = ""


def load_training(task: TrainTask) -> LoadedDataset:
    """Load the task's rows; the user's own command reads them itself."""
    if not task.data and trainer_of(task.train) == "command":
        nothing = TabularData(
            x=np.zeros((0, 0), dtype=np.float32), y=None, names=(), problem="regression"
        )
        return LoadedDataset(training=TrainingInputs(train=nothing), version="", transform=None)
    prepared = load_prepared(Path(task.data))
    manifest, transform = prepared.manifest, prepared.transform
    train: LearningData
    if trainer_of(task.train) == "command":
        prepared.check()
        train = TabularData(
            x=np.zeros((0, len(manifest.features)), dtype=np.float32),
            y=None,
            names=manifest.features,
            problem=manifest.problem or "regression",
            classes=manifest.classes,
        )
        training = TrainingInputs(train=train, folder=prepared.folder)
        return LoadedDataset(
            training=training,
            version=manifest.version,
            transform=transform,
            label=manifest.label or "",
        )
    if task.fold is None:
        train = split_data(prepared, task.split)
    elif manifest.kind == "table":
        fold = _fold(prepared, task.fold)
        train, transform = table_from(fold.train, manifest), fold.transform
    else:
        raise InputError.one(
            "evaluate: folds", f"{manifest.kind} have no folds", "use a hold-out split"
        )
    declared = validation_data(prepared) if task.fold is None else None
    spec = task.train
    if task.fold is not None:
        spec = with_declared_validation(spec, manifest)
    inputs = TrainingInputs(train=train, validation=declared, folder=prepared.folder)
    training = with_validation(inputs, spec)
    return LoadedDataset(
        training=training,
        version=manifest.version,
        transform=transform,
        label=manifest.label or "",
    )


def split_data(prepared: PreparedDataset, split: str) -> LearningData:
    """Return the rows of a split as trainers take them."""
    if prepared.manifest.kind == "tokens":
        shards = prepared.tokens(split)
        return TokenData(
            ids=shards,
            vocab=shards.vocabulary_count,
            tokenizer=shards.tokenizer,
            masks=shards if shards.masked else None,
            pairs=shards.pairs,
            end_token=shards.end_token,
        )
    if prepared.manifest.kind == "images":
        return _image_data(prepared, split)
    return table_from(prepared.arrays(split), prepared.manifest)


def _image_data(prepared: PreparedDataset, split: str) -> ImageData:
    images, classes = read_images(prepared.paths(split)), prepared.manifest.classes
    labels = [label for fact in images.facts for label in fact.labels]
    if not labels or prepared.manifest.problem != "classification":
        raise InputError.one(
            str(prepared.folder), "the images have no label", "add label: class to data"
        )
    index = {name: number for number, name in enumerate(classes)}
    return ImageData(
        images=images,
        y=np.array([index[label] for label in labels], dtype=np.int64),
        classes=classes,
        channels_first=images.facts[0].order == "first",
    )


def table_from(arrays: Arrays, manifest: DatasetManifest) -> TabularData:
    """Convert prepared arrays to a table."""
    return TabularData(
        x=arrays.x,
        y=arrays.y,
        names=arrays.names,
        problem=manifest.problem or "regression",
        classes=manifest.classes,
        groups=arrays.groups,
        times=arrays.times,
        by_time=data_spec(manifest).split.time is not None,
    )


def data_spec(manifest: DatasetManifest) -> DataSpec:
    """Return the settings that the data was prepared with."""
    return load_json(manifest.lineage.spec.text, DataSpec)


def validation_data(prepared: PreparedDataset) -> LearningData | None:
    """Return the rows of the validation split; None if the data declares none."""
    split = prepared.manifest.split(VALIDATION)
    if split is None or not split.rows:
        return None
    return split_data(prepared, VALIDATION)


def with_declared_validation(spec: TrainSpec, manifest: DatasetManifest) -> TrainSpec:
    """Return the section for one fold: early stopping needs rows of the fold's own training rows.

    The validation split itself was scaled by statistics that the fold's test rows are part of.
    """
    split = data_spec(manifest).split
    stops = [spec.trees, spec.jax_mlp, spec.torch_mlp]
    early = any(item is not None and item.early_stopping is not None for item in stops)
    if not early or spec.validation_ratio or not split.validation_ratio:
        return spec
    share = split.validation_ratio / (1 - split.test_ratio)
    return dataclasses.replace(spec, validation_ratio=share)


def _fold(prepared: PreparedDataset, request: FoldOf) -> Fold:
    for fold in folds(prepared, count=request.count, kind=request.kind, seed=request.seed):
        if fold.number == request.number:
            return fold
    raise InputError.one(
        "fold", f"there is no fold {request.number} of {request.count}", "number the folds from 0"
    )


def with_validation(data: TrainingInputs, spec: TrainSpec) -> TrainingInputs:
    """Split off `validation_ratio` of the training rows: the latest, whole groups, or by class."""
    ratio, train = spec.validation_ratio, data.train
    if ratio <= 0 or data.validation is not None:
        return data
    if ratio >= 1:
        raise InputError.one(
            "train: validation", f"{ratio:g} leaves no training rows", "use a ratio below 1"
        )
    if not isinstance(train, TokenData):
        held_out = (
            _held_out(train, ratio, spec.seed)
            if isinstance(train, TabularData)
            else _of_every_class(train.y, ratio, _generator(spec.seed))
        )
        return dataclasses.replace(
            data,
            train=train.take(np.flatnonzero(~held_out)),
            validation=train.take(np.flatnonzero(held_out)),
        )
    order = _generator(spec.seed).permutation(len(train))
    cut = max(1, round(ratio * len(order)))
    return dataclasses.replace(
        data, train=train.take(np.sort(order[cut:])), validation=train.take(np.sort(order[:cut]))
    )


def _held_out(table: TabularData, ratio: float, seed: int) -> npt.NDArray[np.bool_]:
    generator = _generator(seed)
    if table.by_time:
        held_out = np.zeros(len(table.x), dtype=np.bool_)
        if table.times is None:
            raise InputError.one(
                "train: validation",
                "the time of the rows is not in the prepared data, and random rows would show the"
                " future",
                "declare split: {validation: 10%} in data, or keep the time column",
            )
        times = table.times.astype(np.int64 if table.times.dtype.kind == "M" else np.float64)
        times = np.where(np.isnan(times), -np.inf, times)  # rows without a time are the earliest
        held_out[np.argsort(times, kind="stable")[len(times) - round(ratio * len(times)) :]] = True
        return held_out
    if table.groups is not None:
        groups = np.unique(table.groups)
        chosen = generator.permutation(groups)[: max(1, round(ratio * len(groups)))]
        return np.isin(table.groups, chosen)
    strata: Array = np.zeros(len(table.x))
    if table.problem == "classification" and table.y is not None:
        strata = table.y
    return _of_every_class(strata, ratio, generator)


def _of_every_class(
    strata: Array, ratio: float, generator: np.random.Generator
) -> npt.NDArray[np.bool_]:
    held_out = np.zeros(len(strata), dtype=np.bool_)
    for value in np.unique(strata):
        rows = np.flatnonzero(strata == value)
        held_out[generator.permutation(rows)[: round(ratio * len(rows))]] = True
    return held_out


def _generator(seed: int) -> np.random.Generator:
    # A separate stream ("val"), so that validation rows do not depend on other random draws.
    return np.random.Generator(np.random.Philox(key=[seed, 0x76616C]))
