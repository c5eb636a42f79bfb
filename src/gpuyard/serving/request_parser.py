"""Parse inference requests of the Open Inference Protocol into rows and requested outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import cast

import msgspec
import numpy as np

from gpuyard.errors import choices_text, closest_match
from gpuyard.serving.request_errors import RequestError
from gpuyard.serving.spec import MATRIX
from gpuyard.serving.tensors import BYTES, DATATYPES, from_binary, from_json, kind_of

Columns = tuple[Sequence[object] | np.ndarray, ...]  # in the order of the model
Rows = list[float] | np.ndarray | Columns  # x flat from JSON, x as an array, or columns


class _Numbers(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[float]


# The fast path: most requests hold only such tensors. A request with `outputs` or `parameters`
# is parsed again as _AnyRequest.
class _NumbersRequest(msgspec.Struct):
    inputs: list[_Numbers]
    id: str = ""
    outputs: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class _Values(msgspec.Struct):
    name: str
    shape: list[int]
    datatype: str
    data: list[int | float | str | bool | None]


# The same for models with string or integer columns.
class _ValuesRequest(msgspec.Struct):
    inputs: list[_Values]
    id: str = ""
    outputs: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class RequestTensor(msgspec.Struct):
    """An input tensor of a request as it was sent."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, object] | None = None
    data: msgspec.Raw = msgspec.Raw()


class _RequestedOutput(msgspec.Struct):
    name: str
    parameters: dict[str, object] | None = None


class _AnyRequest(msgspec.Struct):
    inputs: list[RequestTensor]
    id: str = ""
    outputs: list[_RequestedOutput] | None = None
    parameters: dict[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """A request that uses optional features: an id, selected outputs or binary outputs."""

    rows: Rows
    count: int
    id: str = ""
    outputs: tuple[tuple[str, bool], ...] = ()  # name, binary; empty: all outputs as JSON


_NUMBERS = msgspec.json.Decoder(_NumbersRequest)
_VALUES = msgspec.json.Decoder(_ValuesRequest)
_NUMBER = frozenset({float, int})
_TYPES: dict[str, frozenset[type]] = {
    "FP64": frozenset({float, int, NoneType}),
    "FP32": frozenset({float, int, NoneType}),
    "INT64": frozenset({int, NoneType}),
    "BOOL": frozenset({bool, NoneType}),
    BYTES: frozenset({str, NoneType}),
}
_ANY = msgspec.json.Decoder(_AnyRequest)


# NaN is a missing value, as null is in JSON; JSON has no infinity, so binary data has none either.
def _check_finite(name: str, values: list[object] | np.ndarray) -> None:
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise RequestError(400, f'input "{name}": row {row} is infinite; send a number or NaN')


def _in_range(data: Sequence[object]) -> bool:
    return all(value is None or -(1 << 63) <= value < 1 << 63 for value in data)  # type: ignore[operator]


def check_tensor(name: str, datatype: str, shape: Sequence[int]) -> None:
    """Raise RequestError for an unknown datatype or an impossible shape."""
    if datatype != BYTES and datatype not in DATATYPES:
        choices = choices_text((*DATATYPES, BYTES), 20)
        raise RequestError(400, f'input "{name}": unknown datatype "{datatype}"; use {choices}')
    if any(size < 0 or size > 1 << 40 for size in shape) or len(shape) > 8:
        raise RequestError(400, f'input "{name}": invalid shape {list(shape)}')


class RequestParser:
    """Parser for the requests of one version, given its width, columns and outputs."""

    __slots__ = ("_columns", "_decoder", "_kinds", "_outputs", "_width")

    def __init__(self, width: int, columns: Mapping[str, str], outputs: Sequence[str]) -> None:
        self._width = width
        self._columns = dict(columns)  # name -> datatype; empty: the matrix only
        numbers = all(datatype.startswith("FP") for datatype in columns.values())
        self._decoder: msgspec.json.Decoder[_NumbersRequest] | msgspec.json.Decoder[_ValuesRequest]
        self._decoder = _NUMBERS if numbers else _VALUES
        self._kinds = tuple(
            (name, datatype, _TYPES.get(datatype, frozenset()))
            for name, datatype in columns.items()
        )
        self._outputs = tuple(outputs)

    def read(self, body: bytes) -> tuple[Rows, int] | InferenceRequest:
        """Return rows and row count of a plain request, or an InferenceRequest for any other."""
        try:
            request = self._decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return self.read_any(body, b"")
        inputs = request.inputs
        if request.id or len(request.outputs) or len(request.parameters) or not inputs:
            return self.read_any(body, b"")
        first = inputs[0]
        if first.name == MATRIX and MATRIX not in self._columns:
            shape, data = first.shape, first.data
            if (
                len(inputs) == 1
                and first.datatype == "FP32"
                and len(shape) == 2
                and shape[1] == self._width
                and shape[0] > 0
                and len(data) == shape[0] * self._width
                and _NUMBER.issuperset(map(type, data))
            ):
                return cast(list[float], data), shape[0]
        elif len(inputs) == len(self._kinds) and self._is_plain_columns(inputs, len(first.data)):
            return tuple(tensor.data for tensor in inputs), len(first.data)
        return self.read_any(body, b"")

    def _is_plain_columns(self, inputs: Sequence[_Numbers | _Values], rows: int) -> bool:
        if rows == 0:
            return False
        flat, tall = [rows], [rows, 1]
        for (name, datatype, types), tensor in zip(self._kinds, inputs, strict=True):
            shape, data = tensor.shape, tensor.data
            if (
                tensor.name != name
                or tensor.datatype != datatype
                or (shape != flat and shape != tall)
                or len(data) != rows
            ):
                return False
            if not types.issuperset(map(type, data)) or (
                datatype == "INT64" and not _in_range(data)
            ):
                return False
        return True

    def read_any(self, head: bytes | memoryview, tail: bytes | memoryview) -> InferenceRequest:
        """Parse a request from its JSON head and the binary tensor data that follows it."""
        try:
            request = _ANY.decode(head)
        except msgspec.ValidationError as error:
            raise RequestError(400, f"invalid request: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(400, f"the request is not JSON: {error}") from None
        values = self._values(request.inputs, memoryview(tail))
        return self.from_tensors(
            request.inputs, values, request.id, self._requested_outputs(request)
        )

    def from_tensors(
        self,
        inputs: list[RequestTensor],
        values: dict[str, list[object] | np.ndarray],
        request_id: str = "",
        outputs: tuple[tuple[str, bool], ...] = (),
    ) -> InferenceRequest:
        """Return the request with these input tensors, whose values are flat by name."""
        rows, count = self._rows(inputs, values)
        return InferenceRequest(rows=rows, count=count, id=request_id, outputs=outputs)

    def _values(
        self, inputs: list[RequestTensor], tail: memoryview
    ) -> dict[str, list[object] | np.ndarray]:
        values: dict[str, list[object] | np.ndarray] = {}
        position = 0
        for tensor in inputs:
            name, datatype = tensor.name, tensor.datatype
            if name in values:
                raise RequestError(400, f'input "{name}" is duplicated')
            check_tensor(name, datatype, tensor.shape)
            size_bytes = (tensor.parameters or {}).get("binary_data_size")
            if size_bytes is None:
                if not len(tensor.data):
                    raise RequestError(400, f'input "{name}" has no data')
                values[name] = from_json(name, datatype, tensor.shape, tensor.data)
                continue
            if type(size_bytes) is not int or not 0 <= size_bytes <= len(tail) - position:
                raise RequestError(
                    400, f'input "{name}": binary_data_size does not match the binary data'
                )
            values[name] = from_binary(
                name, datatype, tensor.shape, tail[position : position + size_bytes]
            )
            position += size_bytes
        if position != len(tail):
            raise RequestError(400, f"{len(tail) - position} bytes after the last input")
        return values

    def _rows(
        self, inputs: list[RequestTensor], values: dict[str, list[object] | np.ndarray]
    ) -> tuple[Rows, int]:
        if not inputs:
            raise RequestError(400, f"no inputs; send {self._expected()}")
        if MATRIX in values and MATRIX not in self._columns:
            return self._matrix(inputs, values[MATRIX])
        self._check_columns(inputs, values)
        count = int(math.prod(inputs[0].shape))
        for tensor in inputs:
            if tuple(tensor.shape) not in ((count,), (count, 1)) or count == 0:
                what = f'input "{tensor.name}": shape {tensor.shape}'
                raise RequestError(400, f"{what}; use [n] or [n, 1] with one n for all inputs")
            _check_finite(tensor.name, values[tensor.name])
        return tuple(values[name] for name in self._columns), count

    def _check_columns(self, inputs: list[RequestTensor], values: Mapping[str, object]) -> None:
        for tensor in inputs:
            wanted = self._columns.get(tensor.name)
            if wanted is None:
                meant = closest_match(tensor.name, self._columns)
                hint = f'; did you mean "{meant}"?' if meant else f"; send {self._expected()}"
                raise RequestError(400, f'unknown input "{tensor.name[:80]}"{hint}')
            if kind_of(tensor.datatype) != kind_of(wanted) or (
                tensor.datatype.startswith("FP") and not wanted.startswith("FP")
            ):
                raise RequestError(
                    400, f'input "{tensor.name}" is {tensor.datatype}; send {wanted}'
                )
        missing = [name for name in self._columns if name not in values]
        if missing:
            raise RequestError(400, f"missing inputs: {choices_text(missing)}")

    def _matrix(
        self, inputs: list[RequestTensor], values: list[object] | np.ndarray
    ) -> tuple[Rows, int]:
        tensor = inputs[0]
        if len(inputs) > 1:
            raise RequestError(400, f"send {self._expected()}, not both")
        if tensor.datatype != "FP32":
            raise RequestError(400, f'input "{MATRIX}" is {tensor.datatype}; send FP32')
        if len(tensor.shape) != 2 or tensor.shape[1] != self._width or tensor.shape[0] < 1:
            raise RequestError(
                400, f'input "{MATRIX}": shape {tensor.shape}; send [n, {self._width}]'
            )
        if isinstance(values, list) and None in values:
            raise RequestError(400, f'input "{MATRIX}": every value must be a number, not null')
        return values, tensor.shape[0]  # type: ignore[return-value]

    def _requested_outputs(self, request: _AnyRequest) -> tuple[tuple[str, bool], ...]:
        binary = bool((request.parameters or {}).get("binary_data_output", False))
        if not request.outputs:
            return tuple((name, True) for name in self._outputs) if binary else ()
        self.check_outputs([output.name for output in request.outputs])
        return tuple(
            (item.name, bool((item.parameters or {}).get("binary_data", binary)))
            for item in request.outputs
        )

    def check_outputs(self, names: Sequence[str]) -> None:
        """Raise RequestError for an output that the model does not have."""
        for name in names:
            if name not in self._outputs:
                raise RequestError(
                    400, f'unknown output "{name[:80]}"; use {choices_text(self._outputs)}'
                )

    def _expected(self) -> str:
        matrix = f'"{MATRIX}" (FP32 [n, {self._width}])'
        if not self._columns:
            return matrix
        columns = f"the columns {choices_text(list(self._columns))}"
        return columns if MATRIX in self._columns else f"{matrix} or {columns}"
