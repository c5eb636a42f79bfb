"""Parse requests for models of any signature: several tensors, of any rank, with rows first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpuyard.errors import choices_text, closest_match
from gpuyard.serving.onnx_model import ModelInput
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.request_parser import InferenceRequest, RequestParser, RequestTensor, Rows
from gpuyard.serving.tensors import BYTES


class TensorRequestParser(RequestParser):
    """Parser that takes the inputs of a model as they are, by name, datatype and shape."""

    __slots__ = ("_inputs",)

    def __init__(self, inputs: Sequence[ModelInput], outputs: Sequence[str]) -> None:
        super().__init__(0, {item.name: item.datatype for item in inputs}, outputs)
        self._inputs = {item.name: item for item in inputs}

    def read(self, body: bytes) -> InferenceRequest:
        return self.read_any(body, b"")

    def _rows(
        self, inputs: list[RequestTensor], values: dict[str, list[object] | np.ndarray]
    ) -> tuple[Rows, int]:
        if not inputs:
            raise RequestError(400, f"no inputs; send {self._expected()}")
        arrays: dict[str, np.ndarray] = {}
        for tensor in inputs:
            wanted = self._inputs.get(tensor.name)
            if wanted is None:
                meant = closest_match(tensor.name, self._inputs)
                hint = f'; did you mean "{meant}"?' if meant else f"; send {self._expected()}"
                raise RequestError(400, f'unknown input "{tensor.name[:80]}"{hint}')
            arrays[tensor.name] = _array(tensor, wanted, values[tensor.name])
        missing = [name for name in self._inputs if name not in arrays]
        if missing:
            raise RequestError(400, f"missing inputs: {choices_text(missing)}")
        counts = {len(array) for array in arrays.values()}
        if len(counts) > 1:
            raise RequestError(400, "the inputs have different numbers of rows")
        return tuple(arrays[name] for name in self._inputs), counts.pop()

    def _expected(self) -> str:
        return choices_text([_form(item) for item in self._inputs.values()])


def _form(item: ModelInput) -> str:
    sizes = ", ".join(("n", *map(str, item.tail)))
    return f'"{item.name}" ({item.datatype} [{sizes}])'


def _array(
    tensor: RequestTensor, wanted: ModelInput, values: list[object] | np.ndarray
) -> np.ndarray:
    if tensor.datatype != wanted.datatype:
        what = f'input "{tensor.name}" is {tensor.datatype}; send {wanted.datatype}'
        raise RequestError(400, what)
    shape = tuple(tensor.shape)
    if len(shape) != 1 + len(wanted.tail) or shape[1:] != wanted.tail or shape[0] < 1:
        what = f'input "{tensor.name}": shape {list(shape)}; send {_form(wanted)}'
        raise RequestError(400, what)
    if isinstance(values, list) and None in values:
        raise RequestError(400, f'input "{tensor.name}": null is no value of a tensor')
    if len(values) != math.prod(shape):
        what = f'input "{tensor.name}": {len(values)} values for shape {list(shape)}'
        raise RequestError(400, what)
    dtype = object if wanted.datatype == BYTES else wanted.dtype
    array = np.asarray(values, dtype=dtype).reshape(shape)
    if wanted.datatype.startswith("FP") and not np.isfinite(array).all():
        what = f'input "{tensor.name}": a value is NaN or too large for {wanted.datatype}'
        raise RequestError(400, what)
    return array
