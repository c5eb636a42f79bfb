"""A model with code of its author: an ONNX model between a `preprocess` and a `postprocess`.

    preprocess(inputs)            arrays as clients send them -> the inputs of model.onnx
    postprocess(outputs, inputs)  outputs of model.onnx -> arrays as clients get them

Both take and return mappings from names to arrays with the rows of a batch on the first axis, and
either may be absent. The bundle declares what clients send and get.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from gpuyard.datasets.user_code import CodeError, call, load_module
from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.registry.bundle import ONNX, PROCESSING, ModelBundle, Tensor
from gpuyard.serving.onnx_model import ModelInput, Output, open_session, zeros_of
from gpuyard.serving.request_errors import ModelError, RequestError
from gpuyard.serving.tensors import BYTES, DATATYPES, datatype_of

MAX_CODE_BYTES = 1_000_000
Arrays = Mapping[str, np.ndarray]


class ProcessedModel:
    """A model in ONNX Runtime with its author's code around it."""

    __slots__ = ("_names", "_postprocess", "_preprocess", "_session", "inputs", "outputs")

    is_matrix = False
    width = 0

    def __init__(self, folder: Path, bundle: ModelBundle) -> None:
        assert bundle.processing is not None
        module = load_module(read_text(folder / PROCESSING, MAX_CODE_BYTES), PROCESSING)
        self._preprocess = getattr(module, "preprocess", None)
        self._postprocess = getattr(module, "postprocess", None)
        self._session: onnxruntime.InferenceSession = open_session(folder / ONNX)
        self._names = list(bundle.processing.model_outputs)
        self.inputs = tuple(
            ModelInput(
                name=tensor.name,
                dtype=tensor.dtype,
                datatype=datatype_of(tensor.dtype),
                tail=_tail(tensor, folder),
            )
            for tensor in bundle.inputs
        )
        self.outputs = tuple(
            Output(name=tensor.name, datatype=datatype_of(tensor.dtype), tail=_tail(tensor, folder))
            for tensor in bundle.outputs
        )

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Return the outputs for a batch. Raise ModelError or, for a wrong value, RequestError.

        A ValueError of `preprocess` is the request's fault; any other failure is the model's.
        """
        given = {item.name: array for item, array in zip(self.inputs, inputs, strict=True)}
        rows = len(inputs[0])
        try:
            fed: Arrays = given
            if self._preprocess is not None:
                fed = self._mapping(call(self._preprocess, PROCESSING, given), "preprocess")
            try:
                results = self._session.run(self._names, dict(fed))
            except Exception as error:  # ONNX Runtime's own exceptions share no other base
                raise ModelError(f"the model failed: {error}") from error
            outputs: Arrays = dict(zip(self._names, results, strict=True))
            if self._postprocess is not None:
                outputs = self._mapping(
                    call(self._postprocess, PROCESSING, outputs, given), "postprocess"
                )
            return [_output(item, outputs, rows) for item in self.outputs]
        except CodeError as error:
            problem = error.problems[0]
            if isinstance(error.__cause__, ValueError) and "preprocess failed" in problem.what:
                raise RequestError(400, str(error.__cause__)) from None
            raise ModelError(f"{problem.where}: {problem.what}") from error

    def _mapping(self, result: Any, function: str) -> Arrays:
        if not isinstance(result, Mapping):
            what = f"returned {type(result).__name__}, not a mapping from names to arrays"
            raise CodeError.at(f"{PROCESSING}: {function}", what)
        return {str(name): np.asarray(array) for name, array in result.items()}

    def seconds(self, rows: int) -> float:
        """Return the run time for a batch of zeros; infinity if the code does not take them."""
        start = time.perf_counter()
        try:
            self.run(*zeros_of(self.inputs, rows))
        except (ModelError, RequestError):
            return float("inf")
        return time.perf_counter() - start


def _tail(tensor: Tensor, folder: Path) -> tuple[int, ...]:
    if tensor.shape[:1] != (-1,) or any(size < 0 for size in tensor.shape[1:]):
        what = f"{tensor.name} has the shape {list(tensor.shape)}"
        fix = "declare [-1] and then fixed sizes; pad in preprocess"
        raise InputError.one(str(folder), what, fix)
    return tensor.shape[1:]


def _output(item: Output, outputs: Arrays, rows: int) -> np.ndarray:
    where = f"{PROCESSING}: output {item.name}"
    if item.name not in outputs:
        names: Sequence[str] = list(outputs)
        raise CodeError.at(where, f"is missing; there are {names}")
    array = outputs[item.name]
    if array.shape != (rows, *item.tail):
        what = f"has the shape {list(array.shape)}; it declares {[rows, *item.tail]}"
        raise CodeError.at(where, what)
    if item.datatype == BYTES:
        return array.astype(object)
    try:
        array = array.astype(DATATYPES[item.datatype])
    except (TypeError, ValueError) as error:
        raise CodeError.at(where, f"is no {item.datatype}: {error}") from None
    if item.datatype.startswith("FP") and not np.isfinite(array).all():
        raise ModelError(f'output "{item.name}" is not a finite number for these inputs', 422)
    return array
