"""A request for inference as it is read: which rows, which outputs, in which form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import cast

import msgspec
import numpy as np

from gpuyard.errors import nearest, one_of
from gpuyard.serving.failures import RequestError
from gpuyard.serving.tensors import BYTES, DATATYPES, from_binary, from_json, kind_of

__all__ = ["MATRIX", "Ask", "Columns", "Reader", "Rows"]

MATRIX = "x"
Columns = tuple[Sequence[object] | np.ndarray, ...]  # one sequence for each column, in the model's order
Rows = list[float] | np.ndarray | Columns  # x flat in JSON, x as an array, or columns


class _Numbers(msgspec.Struct):
    """A tensor of numbers in JSON."""

    name: str
    shape: list[int]
    datatype: str
    data: list[float]


class _NumbersAsk(msgspec.Struct):
    """A request of such tensors, which is what most requests are; the other fields send it the long way."""

    inputs: list[_Numbers]
    id: str = ""
    outputs: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class _Values(msgspec.Struct):
    """A tensor of anything in JSON, not nested."""

    name: str
    shape: list[int]
    datatype: str
    data: list[int | float | str | bool | None]


class _ValuesAsk(msgspec.Struct):
    """A request of such tensors, for models that take texts or whole numbers."""

    inputs: list[_Values]
    id: str = ""
    outputs: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


class _Tensor(msgspec.Struct):
    """Any input."""

    name: str
    shape: list[int]
    datatype: str
    parameters: dict[str, object] | None = None
    data: msgspec.Raw = msgspec.Raw()


class _Wanted(msgspec.Struct):
    """An output that is asked for."""

    name: str
    parameters: dict[str, object] | None = None


class _AnyAsk(msgspec.Struct):
    """Any request."""

    inputs: list[_Tensor]
    id: str = ""
    outputs: list[_Wanted] | None = None
    parameters: dict[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request with anything unusual in it: an id, chosen outputs, binary answers."""

    rows: Rows
    count: int
    id: str = ""
    outputs: tuple[tuple[str, bool], ...] = ()  # name, and whether in binary; empty: all of them in JSON


_NUMBERS = msgspec.json.Decoder(_NumbersAsk)
_VALUES = msgspec.json.Decoder(_ValuesAsk)
_NUMBER = frozenset({float, int})
_TYPES: dict[str, frozenset[type]] = {
    "FP64": frozenset({float, int, NoneType}), "FP32": frozenset({float, int, NoneType}),
    "INT64": frozenset({int, NoneType}), "BOOL": frozenset({bool, NoneType}), BYTES: frozenset({str, NoneType}),
}  # fmt: skip
_ANY = msgspec.json.Decoder(_AnyAsk)


def _in_range(data: Sequence[object]) -> bool:
    """Whether the integers fit 64 bits."""
    return all(value is None or -(1 << 63) <= value < 1 << 63 for value in data)  # type: ignore[operator]


class Reader:
    """Reads the requests of one version: its width as a matrix, its columns, its outputs."""

    __slots__ = ("_columns", "_decoder", "_kinds", "_outputs", "_width")

    def __init__(self, width: int, columns: Mapping[str, str], outputs: Sequence[str]) -> None:
        self._width = width
        self._columns = dict(columns)  # name -> datatype; none: only the matrix
        numbers = all(datatype.startswith("FP") for datatype in columns.values())
        self._decoder: msgspec.json.Decoder[_NumbersAsk] | msgspec.json.Decoder[_ValuesAsk]
        self._decoder = _NUMBERS if numbers else _VALUES
        self._kinds = tuple((name, datatype, _TYPES.get(datatype, frozenset())) for name, datatype in columns.items())
        self._outputs = tuple(outputs)

    def read(self, body: bytes) -> tuple[Rows, int] | Ask:
        """The rows of a plain request, or all of one that is not plain."""
        try:
            ask = self._decoder.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return self.read_any(body, b"")
        inputs = ask.inputs
        if ask.id or len(ask.outputs) or len(ask.parameters) or not inputs:
            return self.read_any(body, b"")
        first = inputs[0]
        if first.name == MATRIX and MATRIX not in self._columns:
            shape, data = first.shape, first.data
            if (
                len(inputs) == 1 and first.datatype == "FP32" and len(shape) == 2 and shape[1] == self._width
                and shape[0] > 0 and len(data) == shape[0] * self._width and _NUMBER.issuperset(map(type, data))
            ):  # fmt: skip
                return cast(list[float], data), shape[0]
        elif len(inputs) == len(self._kinds) and self._fit(inputs, len(first.data)):
            return tuple(tensor.data for tensor in inputs), len(first.data)
        return self.read_any(body, b"")

    def _fit(self, inputs: Sequence[_Numbers | _Values], rows: int) -> bool:
        """Whether these are all the columns, in order, with as many values each and of the right kind."""
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
            if not types.issuperset(map(type, data)) or (datatype == "INT64" and not _in_range(data)):
                return False
        return True

    def read_any(self, head: bytes | memoryview, tail: bytes | memoryview) -> Ask:
        """A request in JSON and, behind it, the bytes of its binary tensors."""
        try:
            ask = _ANY.decode(head)
        except msgspec.ValidationError as error:
            raise RequestError(400, f"the request does not fit the protocol: {error}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise RequestError(400, f"the request is not JSON: {error}") from None
        values = self._values(ask.inputs, memoryview(tail))
        rows, count = self._rows(ask.inputs, values)
        return Ask(rows=rows, count=count, id=ask.id, outputs=self._wanted(ask))

    def _values(self, inputs: list[_Tensor], tail: memoryview) -> dict[str, list[object] | np.ndarray]:
        """The values of every input, by name."""
        values: dict[str, list[object] | np.ndarray] = {}
        position = 0
        for tensor in inputs:
            name, datatype = tensor.name, tensor.datatype
            if name in values:
                raise RequestError(400, f'input "{name}" stands twice')
            if datatype != BYTES and datatype not in DATATYPES:
                raise RequestError(
                    400, f'input "{name}": no datatype "{datatype}"; use {one_of((*DATATYPES, BYTES), 20)}'
                )
            if any(size < 0 or size > 1 << 40 for size in tensor.shape) or len(tensor.shape) > 8:
                raise RequestError(400, f'input "{name}": {tensor.shape} is not a shape')
            size_bytes = (tensor.parameters or {}).get("binary_data_size")
            if size_bytes is None:
                if not len(tensor.data):
                    raise RequestError(400, f'input "{name}" has no data')
                values[name] = from_json(name, datatype, tensor.shape, tensor.data)
                continue
            if type(size_bytes) is not int or not 0 <= size_bytes <= len(tail) - position:
                raise RequestError(400, f'input "{name}": binary_data_size is not the size of what follows')
            values[name] = from_binary(name, datatype, tensor.shape, tail[position : position + size_bytes])
            position += size_bytes
        if position != len(tail):
            raise RequestError(400, f"{len(tail) - position} bytes follow that belong to no input")
        return values

    def _rows(self, inputs: list[_Tensor], values: dict[str, list[object] | np.ndarray]) -> tuple[Rows, int]:
        """What the model is given: its columns, or its matrix."""
        if not inputs:
            raise RequestError(400, f"no inputs; send {self._expected()}")
        if MATRIX in values and MATRIX not in self._columns:
            return self._matrix(inputs, values[MATRIX])
        self._check_columns(inputs, values)
        count = int(math.prod(inputs[0].shape))
        for tensor in inputs:
            if tuple(tensor.shape) not in ((count,), (count, 1)) or count == 0:
                raise RequestError(
                    400, f'input "{tensor.name}": shape {tensor.shape}; use [n] or [n, 1], n the same for all'
                )
        return tuple(values[name] for name in self._columns), count

    def _check_columns(self, inputs: list[_Tensor], values: Mapping[str, object]) -> None:
        """Refuses names that are unknown or missing and types that do not fit."""
        for tensor in inputs:
            wanted = self._columns.get(tensor.name)
            if wanted is None:
                meant = nearest(tensor.name, self._columns)
                hint = f'; did you mean "{meant}"?' if meant else f"; send {self._expected()}"
                raise RequestError(400, f'no input "{tensor.name[:80]}"{hint}')
            if kind_of(tensor.datatype) != kind_of(wanted) or (
                tensor.datatype.startswith("FP") and not wanted.startswith("FP")
            ):
                raise RequestError(400, f'input "{tensor.name}" is {tensor.datatype}; send {wanted}')
        missing = [name for name in self._columns if name not in values]
        if missing:
            raise RequestError(400, f"inputs are missing: {one_of(missing)}")

    def _matrix(self, inputs: list[_Tensor], values: list[object] | np.ndarray) -> tuple[Rows, int]:
        """The one matrix."""
        tensor = inputs[0]
        if len(inputs) > 1:
            raise RequestError(400, f"send {self._expected()}, not both")
        if tensor.datatype != "FP32":
            raise RequestError(400, f'input "{MATRIX}" is {tensor.datatype}; send FP32')
        if len(tensor.shape) != 2 or tensor.shape[1] != self._width or tensor.shape[0] < 1:
            raise RequestError(400, f'input "{MATRIX}": shape {tensor.shape}; send [n, {self._width}]')
        if isinstance(values, list) and None in values:
            raise RequestError(400, f'input "{MATRIX}" has a null; every value must be a number')
        return values, tensor.shape[0]  # type: ignore[return-value]

    def _wanted(self, ask: _AnyAsk) -> tuple[tuple[str, bool], ...]:
        """The outputs that are asked for, and their form."""
        binary = bool((ask.parameters or {}).get("binary_data_output", False))
        if not ask.outputs:
            return tuple((name, True) for name in self._outputs) if binary else ()
        for output in ask.outputs:
            if output.name not in self._outputs:
                raise RequestError(400, f'no output "{output.name[:80]}"; ask for {one_of(self._outputs)}')
        return tuple((item.name, bool((item.parameters or {}).get("binary_data", binary))) for item in ask.outputs)

    def _expected(self) -> str:
        """The inputs, in words."""
        matrix = f'"{MATRIX}" (FP32 [n, {self._width}])'
        if not self._columns:
            return matrix
        columns = f"the columns {one_of(list(self._columns))}"
        return columns if MATRIX in self._columns else f"{matrix} or {columns}"
