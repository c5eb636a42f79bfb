"""Predictions of a model.onnx in ONNX Runtime: rows of floats in, probabilities or values out."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.errors import ExternalError, InputError
from gpuyard.learn.trainer import ProblemType

AnyArray: typing.TypeAlias = "npt.NDArray[typing.Any]"
PROBABILITY_ERROR = 1e-3  # of the sum over the classes: float16 rounds to about 5e-4
DTYPES = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(float16)": "f2"}


class OnnxPredictor:
    """A model that takes one tensor of floats, rows first."""

    def __init__(self, path: Path, problem: ProblemType, classes: Sequence[str]) -> None:
        self.path = path
        self.problem = problem
        self.classes = tuple(classes)
        self._session = _session(path)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or inputs[0].type not in DTYPES:
            named = ", ".join(f"{item.name} {item.type}" for item in inputs)
            raise InputError.one(
                str(path),
                f"takes {named}, and rows are one tensor of floats",
                "export a model with one float input",
            )
        self._input = inputs[0]
        self.outputs = tuple(str(item.name) for item in self._session.get_outputs())
        usual = "probabilities" if problem == "classification" else "value"
        self._output = usual if usual in self.outputs else self.outputs[0]

    def check_shape(self, shape: Sequence[int]) -> None:
        """Raise InputError unless rows of this shape, without the axis of rows, fit the input."""
        wanted = list(self._input.shape)[1:]
        fits = len(wanted) == len(shape) and all(
            not isinstance(size, int) or size == given
            for size, given in zip(wanted, shape, strict=True)
        )
        if not fits:
            raise InputError.one(
                str(self.path),
                f"takes {['n', *wanted]}; the data gives {['n', *shape]}",
                "export the model for the shape of the prepared data",
            )

    def predict(self, batches: Iterable[AnyArray]) -> AnyArray:
        """Return probabilities [n, c] or values [n] of batches of rows."""
        chunks = [self.run((self._output,), rows)[0] for rows in batches]
        outputs: AnyArray = np.concatenate(chunks) if chunks else np.zeros(0, np.float32)
        if self.problem != "classification":
            return outputs.reshape(-1)
        return _probabilities(outputs, len(self.classes), str(self.path))

    def run(self, names: Sequence[str], rows: AnyArray) -> list[AnyArray]:
        """Return the named outputs for one batch of rows."""
        rows = np.ascontiguousarray(rows, dtype=DTYPES[self._input.type])
        size = self._input.shape[0]
        if isinstance(size, int) and len(rows) != size:
            if len(rows) % size:
                raise InputError.one(
                    str(self.path),
                    f"takes batches of exactly {size} rows",
                    "export the model with a dynamic first axis",
                )
            parts = [self.run(names, rows[at : at + size]) for at in range(0, len(rows), size)]
            return [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        try:
            result: list[AnyArray] = self._session.run(list(names), {self._input.name: rows})
        except Exception as error:  # ONNX Runtime's own exceptions share no other base
            raise InputError.one(
                str(self.path), f"the model failed: {error}", "export the model again"
            ) from error
        return result


def _session(path: Path) -> typing.Any:
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise ExternalError(
            "model", "the package onnxruntime is not installed", "pip install 'gpuyard[run]'"
        ) from error
    try:
        return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own exceptions share no other base
        raise InputError.one(
            str(path), f"ONNX Runtime cannot load the model: {error}", "export the model again"
        ) from error


def _probabilities(outputs: AnyArray, classes: int, where: str) -> AnyArray:
    if outputs.ndim != 2 or outputs.shape[1] != classes:
        what = f"gives {list(outputs.shape[1:])} per row; there are {classes} classes"
        raise InputError.one(where, what, "export one probability per class")
    sums = outputs.sum(axis=1)
    if (outputs < -PROBABILITY_ERROR).any() or not np.allclose(sums, 1, atol=PROBABILITY_ERROR):
        raise InputError.one(
            where, "gives no probabilities: rows do not sum to 1", "end the model with a softmax"
        )
    return outputs
