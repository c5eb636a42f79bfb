"""Predictions of an exported bundle, run by ONNX Runtime on prepared rows."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt

from gpuyard.datasets.prepared import PreparedDataset
from gpuyard.datasets.source_rows import source_rows
from gpuyard.datasets.transform import FittedTransform
from gpuyard.errors import InputError
from gpuyard.learn.evaluate.bundle_model import BundleModel, batches_of
from gpuyard.learn.evaluate.fold import image_batches
from gpuyard.learn.evaluate.predictions import Predictions
from gpuyard.learn.trainer import ImageData, ProblemType, TokenData
from gpuyard.learn.training_data import split_data

AnyArray: typing.TypeAlias = "npt.NDArray[typing.Any]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _LabelledRows:
    """Rows of a split in batches, with their labels."""

    shape: tuple[int, ...]  # of one row
    batches: Iterable[AnyArray]
    truth: AnyArray
    problem: ProblemType
    classes: tuple[str, ...]
    names: tuple[str, ...] = ()
    groups: AnyArray | None = None


def bundle_predictions(folder: Path, prepared: PreparedDataset, split: str) -> Predictions:
    """Predict a split with a bundle; raise InputError unless the data was prepared for it."""
    model, rows = BundleModel(folder), _rows(prepared, split)
    transform = prepared.transform.version if prepared.transform is not None else ""
    trained_with = model.bundle.lineage.transform
    if model.bundle.features != rows.names or (trained_with and trained_with != transform):
        what = f"was trained on different columns than {prepared.folder}"
        raise InputError.one(str(folder), what, "use its training data, or train it again on this")
    return _predicted(model, rows)


def rejudged_predictions(folder: Path, prepared: PreparedDataset, split: str) -> Predictions:
    """Predict a split of newer data with a bundle, from raw columns where its transform differs.

    Some of these rows may have been training rows of the bundle: its score is an upper bound.
    """
    model, rows = BundleModel(folder), _rows(prepared, split)
    if model.bundle.classes != rows.classes:
        raise InputError.one(str(folder), "predicts other classes", "train it again on this data")
    if _same_transform(model.transform, prepared.transform, model.bundle.features == rows.names):
        return _predicted(model, rows)
    raw = source_rows(prepared, split)
    if model.history_rows:  # a row of the split needs earlier rows, which are in another split
        x = model.features(raw.frame)[raw.positions.to_numpy()]
    else:
        x = model.features(raw.split)
    return _predicted(model, dataclasses.replace(rows, shape=x.shape[1:], batches=batches_of(x)))


def _predicted(model: BundleModel, rows: _LabelledRows) -> Predictions:
    model.predictor.check_shape(rows.shape)
    return Predictions(
        problem=rows.problem,
        outputs=model.predictor.predict(rows.batches),
        truth=rows.truth,
        classes=rows.classes,
        groups=rows.groups,
    )


def _same_transform(
    first: FittedTransform | None, second: FittedTransform | None, same_names: bool
) -> bool:
    """Return whether two transforms give the same features; their versions may differ."""
    if first is None or second is None:
        return same_names and (first is None or not first.outputs)
    return dataclasses.replace(first.record, version="") == dataclasses.replace(
        second.record, version=""
    )


def _rows(prepared: PreparedDataset, split: str) -> _LabelledRows:
    data = split_data(prepared, split)
    if isinstance(data, ImageData):
        return _LabelledRows(
            shape=data.shape,
            batches=image_batches(data),
            truth=data.y,
            problem="classification",
            classes=data.classes,
        )
    if isinstance(data, TokenData):
        raise InputError.one(
            str(prepared.folder), "a language model is evaluated during training", "omit --model"
        )
    if data.y is None:
        raise InputError.one(
            str(prepared.folder), "the data has no label", "set the label column under data"
        )
    return _LabelledRows(
        shape=data.x.shape[1:],
        batches=batches_of(data.x),
        truth=data.y,
        problem=data.problem,
        classes=data.classes,
        names=data.names,
        groups=data.groups,
    )
