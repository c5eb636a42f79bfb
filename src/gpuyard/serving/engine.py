"""One ONNX model in ONNX Runtime: rows in, outputs by name out; one thread, for processes are what is scaled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime

from gpuyard.errors import InputError
from gpuyard.serving.failures import ModelError
from gpuyard.serving.tensors import datatype_of

__all__ = ["Engine", "Output"]

_TYPES = {
    "tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(bool)": "bool",
    "tensor(int8)": "int8", "tensor(int16)": "int16", "tensor(int32)": "int32", "tensor(int64)": "int64",
    "tensor(uint8)": "uint8", "tensor(uint16)": "uint16", "tensor(uint32)": "uint32", "tensor(uint64)": "uint64",
    "tensor(string)": "str",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """An output: its name, the protocol's datatype, and its shape behind the rows."""

    name: str
    datatype: str
    tail: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """Values of one row."""
        return int(np.prod(self.tail, dtype=int))


class Engine:
    """A loaded model."""

    __slots__ = ("_names", "_session", "outputs", "width")

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4  # a run that fails is raised; it need not be printed too
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's own exceptions share no other base
            raise InputError.one(
                str(path), f"ONNX Runtime cannot load it: {error}", "export the model again"
            ) from error
        given = {item.name: _TYPES.get(item.type, "") for item in self._session.get_outputs()}
        inputs = self._session.get_inputs()
        problem = _unfit(inputs, given, outputs)
        if problem:
            raise InputError.one(str(path), problem, "export the model again")
        self._names = list(outputs)
        self.width = int(inputs[0].shape[1])
        try:
            trial = self._run(np.zeros((1, self.width), np.float32))
        except ModelError as error:
            raise InputError.one(str(path), str(error), "export the model again") from error
        self.outputs = tuple(
            Output(name=name, datatype=datatype_of(given[name]), tail=tuple(array.shape[1:]))
            for name, array in zip(outputs, trial, strict=True)
        )

    def _run(self, x: np.ndarray) -> list[np.ndarray]:
        """The outputs as they come."""
        try:
            found: list[np.ndarray] = self._session.run(self._names, {"x": x})
        except Exception as error:
            raise ModelError(f"the model failed: {error}") from error
        return found

    def run(self, x: np.ndarray) -> list[np.ndarray]:
        """The outputs of the rows of `x`; ModelError where they are not numbers."""
        found = self._run(x)
        for output, array in zip(self.outputs, found, strict=True):
            if output.datatype.startswith("FP") and not np.isfinite(array).all():
                raise ModelError(f'output "{output.name}" is not finite')
        return found

    def seconds(self, rows: int) -> float:
        """How long a batch of so many rows takes now, at best of three; warms up on the way."""
        x = np.zeros((rows, self.width), np.float32)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            self._run(x)
            best = min(best, time.perf_counter() - start)
        return best


def _unfit(inputs: Sequence[onnxruntime.NodeArg], given: dict[str, str], outputs: Sequence[str]) -> str:
    """Why the model is not one that a bundle may hold; empty if it is."""
    if len(inputs) != 1 or inputs[0].name != "x" or inputs[0].type != "tensor(float)":
        return "its input is not the one tensor x of float32"
    shape = inputs[0].shape
    if len(shape) != 2 or not isinstance(shape[1], int) or isinstance(shape[0], int):
        return f"x has the shape {shape}; it must be [n, width] with n free"
    missing = [name for name in outputs if not given.get(name)]
    if missing or not outputs:
        return f"no tensor output named {', '.join(missing) or 'at all'}"
    return ""
