"""A bundle's model.onnx in ONNX Runtime: feature rows, images or raw columns to predictions."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.columns import Column, kind_of
from gpuyard.datasets.transform import FittedTransform, load_transform
from gpuyard.errors import InputError, Problem
from gpuyard.learn.evaluate.fold import PREDICT_ROWS
from gpuyard.learn.onnx_predictor import OnnxPredictor
from gpuyard.registry.bundle import ONNX, TRANSFORM, read_bundle

AnyArray: typing.TypeAlias = "npt.NDArray[typing.Any]"


class BundleModel:
    """A registered or exported model; a language model has no rows and raises InputError."""

    def __init__(self, folder: Path, *, allow_code: bool = True) -> None:
        self.folder = folder
        self.bundle = read_bundle(folder)
        if self.bundle.kind == "language":
            raise InputError.one(
                str(folder), "a language model has no rows to predict", "use `gpuyard serve`"
            )
        transform = folder / TRANSFORM
        self.transform: FittedTransform | None = (
            load_transform(transform, allow_code=allow_code) if transform.is_file() else None
        )
        self.predictor = OnnxPredictor(folder / ONNX, self.bundle.kind, self.bundle.classes)

    @property
    def history_rows(self) -> int:
        """Number of earlier rows of its series that a row depends on."""
        return self.transform.history_rows if self.transform else 0

    def features(self, frame: pl.DataFrame) -> AnyArray:
        """Return the model's input for raw columns, through the fitted transform of the bundle."""
        if self.transform is None:
            missing = [name for name in self.bundle.features if name not in frame.columns]
            if not self.bundle.features or missing:
                names = ", ".join(missing) or "x"
                raise InputError.one(
                    str(self.folder), f"takes {names}, and the rows have none", "add the columns"
                )
            columns = [pl.col(name).cast(pl.Float32) for name in self.bundle.features]
            return frame.select(columns).fill_null(float("nan")).to_numpy()
        check_columns(frame, self.transform.inputs)
        return self.transform.matrix(
            {item.name: _values(frame[item.name], item.kind) for item in self.transform.inputs}
        )

    def answers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return one row of predictions per row: `prediction`, and p(CLASS) of every class."""
        x = self.features(frame)
        self.predictor.check_shape(x.shape[1:])
        outputs = self.predictor.predict(batches_of(x))
        if self.bundle.kind != "classification":
            return pl.DataFrame({"prediction": outputs})
        classes = self.bundle.classes
        columns = {f"p({label})": outputs[:, index] for index, label in enumerate(classes)}
        likely = pl.Series("prediction", [classes[index] for index in outputs.argmax(axis=1)])
        return pl.DataFrame(columns).insert_column(0, likely)


def check_columns(frame: pl.DataFrame, inputs: Sequence[Column]) -> None:
    """Raise InputError for every input column that the rows lack or hold in another kind."""
    problems = []
    for column in inputs:
        if column.name not in frame.columns:
            what = "is missing"
            problems.append(Problem(where=f"column {column.name}", what=what, fix="add it"))
            continue
        dtype = frame.schema[column.name]
        kind = kind_of(str(dtype))
        same = kind == column.kind or {kind, column.kind} == {"number", "bool"}
        if not same and dtype != pl.Null and not (column.kind == "time" and dtype == pl.String):
            what = f"is {dtype}; the model takes {column.dtype}"
            fix = "cast it as in the training data"
            problems.append(Problem(where=f"column {column.name}", what=what, fix=fix))
    if problems:
        raise InputError(problems)


def batches_of(x: AnyArray) -> Iterable[AnyArray]:
    """Yield the rows of an array, PREDICT_ROWS at a time."""
    return (x[start : start + PREDICT_ROWS] for start in range(0, len(x), PREDICT_ROWS))


def _values(series: pl.Series, kind: str) -> Sequence[object] | np.ndarray:
    if kind == "text":
        return series.cast(pl.String).to_list()
    if kind == "time":
        return series.to_list() if series.dtype == pl.String else series.to_numpy()
    return series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
