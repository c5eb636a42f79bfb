"""Batch predictions of models that take tensors: of any rank, several, texts, with code around."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from gpuyard.errors import InputError, Problem
from gpuyard.registry.bundle import ModelBundle
from gpuyard.serving.onnx_model import ModelInput
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.version import CLASS, LABEL, load_model


class TensorPredictor:
    """A bundle whose inputs are columns of the file: one value, or one array, per row."""

    history_rows = 0

    def __init__(self, folder: Path, bundle: ModelBundle, *, allow_code: bool) -> None:
        self._folder = folder
        self._bundle = bundle
        self._model = load_model(folder, bundle, allow_code=allow_code)

    def answers(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a column per output, and the names of the classes."""
        missing = [item.name for item in self._model.inputs if item.name not in frame.columns]
        if missing:
            raise InputError(
                Problem(where=f"column {name}", what="is missing", fix="add it") for name in missing
            )
        arrays = [_array(frame[item.name], item) for item in self._model.inputs]
        try:
            outputs = self._model.run(*arrays)
        except (ModelError, RequestError) as error:
            raise InputError.one(str(self._folder), str(error), "check the rows") from error
        columns = {
            output.name: pl.Series(output.name, array.tolist() if array.dtype == object else array)
            for output, array in zip(self._model.outputs, outputs, strict=True)
        }
        classes = self._bundle.classes
        label = columns.get(LABEL)
        if classes and CLASS not in columns and label is not None and label.dtype.is_integer():
            names = [classes[at] if 0 <= at < len(classes) else str(at) for at in label]
            columns[CLASS] = pl.Series(CLASS, names)
        return pl.DataFrame(columns)


def takes_tensors(bundle: ModelBundle, *, has_transform: bool) -> bool:
    """Return whether the columns of the inputs are tensors, not features or raw columns."""
    if bundle.processing is not None:
        return True
    is_matrix = len(bundle.inputs) == 1 and len(bundle.inputs[0].shape) == 2
    return not has_transform and not (is_matrix and bundle.features)


def _array(series: pl.Series, item: ModelInput) -> np.ndarray:
    where = f"column {item.name}"
    shape = (len(series), *item.tail)
    if series.null_count():
        raise InputError.one(where, "holds a null, which is no value of a tensor", "fill it")
    try:
        if item.dtype == "str" and not item.tail:
            return np.array(series.cast(pl.String).to_list(), object)
        if not item.tail:
            return series.to_numpy().astype(item.dtype)
        flat = np.array(series.to_list(), object if item.dtype == "str" else item.dtype)
        return flat.reshape(shape)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        what = f"is {series.dtype}; the model takes {item.dtype} {list(item.tail)} per row"
        raise InputError.one(where, what, f"give one such value per row: {error}") from None
