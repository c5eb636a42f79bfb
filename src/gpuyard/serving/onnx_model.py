"""One ONNX model in ONNX Runtime, single-threaded because workers scale by process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import onnxruntime

from gpuyard.errors import InputError
from gpuyard.registry.bundle import Tensor
from gpuyard.serving.request_errors import ModelError
from gpuyard.serving.tensors import datatype_of

_TYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16",
    "tensor(int8)": "int8", "tensor(int16)": "int16", "tensor(int32)": "int32",
    "tensor(int64)": "int64", "tensor(uint8)": "uint8", "tensor(uint16)": "uint16",
    "tensor(uint32)": "uint32", "tensor(uint64)": "uint64", "tensor(bool)": "bool",
    "tensor(string)": "str",
}  # fmt: skip


TRIAL_ROWS = 2  # more than one, so that an output without an axis of rows shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A model output: name, protocol datatype, and shape after the row axis."""

    name: str
    datatype: str
    tail: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Number of values per row."""
        return int(np.prod(self.tail, dtype=int))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInput:
    """A model input: name, NumPy and protocol datatypes, and shape after the row axis."""

    name: str
    dtype: str
    datatype: str
    tail: tuple[int, ...] = ()


class TensorModel(Protocol):
    """A model from arrays to arrays, with the rows of a batch on the first axis."""

    @property
    def inputs(self) -> tuple[ModelInput, ...]: ...
    @property
    def outputs(self) -> tuple[Output, ...]: ...
    @property
    def is_matrix(self) -> bool: ...
    @property
    def width(self) -> int: ...
    def run(self, *inputs: np.ndarray) -> list[np.ndarray]: ...
    def seconds(self, rows: int) -> float: ...


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """Load a model into ONNX Runtime, on one thread. Raise InputError if it cannot be loaded."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # failures are raised, not printed
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own exceptions share no other base
        raise InputError.one(
            str(path), f"ONNX Runtime cannot load the model: {error}", "export the model again"
        ) from error


def zeros_of(inputs: Sequence[ModelInput], rows: int) -> list[np.ndarray]:
    """Return inputs of zeros and of empty texts."""
    return [
        np.full((rows, *item.tail), "", object)
        if item.dtype == "str"
        else np.zeros((rows, *item.tail), item.dtype)
        for item in inputs
    ]


def tensor_of(item: onnxruntime.NodeArg) -> Tensor:
    """Return an input or output of a model as a bundle describes it; -1 is a free size."""
    sizes = (size if isinstance(size, int) else -1 for size in item.shape)
    return Tensor(name=item.name, dtype=_TYPES.get(item.type, item.type), shape=tuple(sizes))


class LoadedModel:
    """A model loaded into ONNX Runtime and checked with a trial run.

    Any number of inputs of any rank; the first axis of all of them is the rows of a batch. A model
    of a fixed batch size runs in batches of that size, the last one filled up with zeros.
    """

    __slots__ = ("_batch", "_is_sound", "_names", "_session", "inputs", "outputs")

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        self._session = open_session(path)
        types = {item.name: _TYPES.get(item.type, "") for item in self._session.get_outputs()}
        inputs = self._session.get_inputs()
        problem = _problem(inputs, types, outputs)
        if problem:
            raise InputError.one(str(path), problem, "export the model again")
        self._names = list(outputs)
        self._batch = inputs[0].shape[0] if isinstance(inputs[0].shape[0], int) else 0
        self.inputs = tuple(
            ModelInput(
                name=item.name,
                dtype=_TYPES[item.type],
                datatype=datatype_of(_TYPES[item.type]),
                tail=tuple(item.shape[1:]),
            )
            for item in inputs
        )
        rows = self._batch or TRIAL_ROWS
        try:
            trial = self._run(zeros_of(self.inputs, rows))
        except ModelError as error:
            raise InputError.one(str(path), str(error), "export the model again") from error
        for name, array in zip(outputs, trial, strict=True):
            if array.ndim == 0 or len(array) != rows:
                what = f"output {name} has the shape {list(array.shape)} for {rows} rows"
                fix = "make rows the first axis of every output"
                raise InputError.one(str(path), what, fix)
        self.outputs = tuple(
            Output(name=name, datatype=datatype_of(types[name]), tail=tuple(array.shape[1:]))
            for name, array in zip(outputs, trial, strict=True)
        )
        self._is_sound = not self._non_finite(trial)

    @property
    def width(self) -> int:
        """Number of values per row of the first input."""
        return int(np.prod(self.inputs[0].tail, dtype=int))

    @property
    def is_matrix(self) -> bool:
        """Return whether rows are the only input: one float32 tensor [n, width]."""
        first = self.inputs[0]
        return len(self.inputs) == 1 and first.dtype == "float32" and len(first.tail) == 1

    def _run(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        feeds = {item.name: array for item, array in zip(self.inputs, inputs, strict=True)}
        try:
            arrays: list[np.ndarray] = self._session.run(self._names, feeds)
        except Exception as error:
            raise ModelError(f"the model failed: {error}") from error
        return arrays

    def _run_batches(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        rows, size = len(inputs[0]), self._batch
        if not size or rows == size:
            return self._run(inputs)
        parts = []
        for start in range(0, rows, size):
            chunk = zeros_of(self.inputs, size)
            for array, given in zip(chunk, inputs, strict=True):
                part = given[start : start + size]
                array[: len(part)] = part
            parts.append(self._run(chunk))
        return [np.concatenate(columns)[:rows] for columns in zip(*parts, strict=True)]

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for the rows of the inputs. Raise ModelError if they are not finite.

        JSON has no NaN, and a null or a text in its place would fail in the client instead. The
        error has status 422 if the rows are the cause (the model is finite on zeros), else 500.
        """
        arrays = self._run_batches(inputs)
        name = self._non_finite(arrays)
        if name:
            status = 422 if self._is_sound else 500
            raise ModelError(f'output "{name}" is not a finite number for these inputs', status)
        return arrays

    def _non_finite(self, arrays: Sequence[np.ndarray]) -> str:
        for output, array in zip(self.outputs, arrays, strict=True):
            if output.datatype.startswith("FP") and not np.isfinite(array).all():
                return output.name
        return ""

    def seconds(self, rows: int) -> float:
        """Return the best of three run times for a batch of `rows`; also warms the model up."""
        inputs = zeros_of(self.inputs, rows)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            self._run_batches(inputs)
            best = min(best, time.perf_counter() - start)
        return best


def _problem(
    inputs: Sequence[onnxruntime.NodeArg], types: dict[str, str], outputs: Sequence[str]
) -> str:
    if not inputs:
        return "the model has no input"
    for item in inputs:
        if not _TYPES.get(item.type):
            return f"input {item.name} is {item.type}; inputs must be tensors"
        if not item.shape or not all(isinstance(size, int) for size in item.shape[1:]):
            return (
                f"input {item.name} has shape {item.shape}; its first axis must be the rows, and "
                "the others must have fixed sizes"
            )
        if isinstance(item.shape[0], int) != isinstance(inputs[0].shape[0], int) or (
            isinstance(item.shape[0], int) and item.shape[0] != inputs[0].shape[0]
        ):
            return f"inputs {inputs[0].name} and {item.name} have different numbers of rows"
    missing = [name for name in outputs if not types.get(name)]
    if missing or not outputs:
        return f"missing outputs: {', '.join(missing)}" if missing else "no outputs"
    return ""
