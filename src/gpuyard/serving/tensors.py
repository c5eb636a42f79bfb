"""Tensors of the Open Inference Protocol: datatypes, values in JSON, and values in the binary extension.

Open Inference Protocol, "Tensor Data" (JSON) and "Binary Tensor Data Extension": little-endian, row-major, and BYTES
as a length of four bytes before each element. JSON values stand flat in row-major order or nested as the shape says.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gpuyard.serving.failures import RequestError

__all__ = ["BYTES", "DATATYPES", "datatype_of", "from_binary", "from_json", "kind_of", "to_binary"]

BYTES = "BYTES"
DATATYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"), "UINT16": np.dtype("<u2"), "UINT32": np.dtype("<u4"), "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"), "INT16": np.dtype("<i2"), "INT32": np.dtype("<i4"), "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
_LENGTH = struct.Struct("<I")
Values = np.ndarray | list[object]


def datatype_of(dtype: str) -> str:
    """The protocol's name of a NumPy type; texts, dates and objects travel as BYTES."""
    try:
        return _NAMES.get(np.dtype(dtype), BYTES)
    except TypeError:
        return BYTES


def kind_of(datatype: str) -> str:
    """`number`, `bool` or `text`."""
    if datatype == BYTES:
        return "text"
    return "bool" if datatype == "BOOL" else "number"


_DECODERS: dict[str, msgspec.json.Decoder[list[Any]]] = {
    "float": msgspec.json.Decoder(list[float | None]),
    "int": msgspec.json.Decoder(list[int | None]),
    "bool": msgspec.json.Decoder(list[bool | None]),
    "text": msgspec.json.Decoder(list[str | None]),
}
_ANY = msgspec.json.Decoder(list)
_KINDS = {"float": (float, int), "int": (int,), "bool": (bool,), "text": (str,)}


def _element(datatype: str) -> str:
    """What one element of the datatype is in JSON."""
    if datatype.startswith("FP"):
        return "float"
    return {"BOOL": "bool", BYTES: "text"}.get(datatype, "int")


def from_json(name: str, datatype: str, shape: Sequence[int], raw: bytes | msgspec.Raw) -> list[object]:
    """The values of a tensor, flat; null stands for a value that is missing."""
    element = _element(datatype)
    try:
        values: list[object] = _DECODERS[element].decode(raw)
    except msgspec.ValidationError:
        values = _nested(name, element, shape, raw)
    if len(values) != math.prod(shape):
        raise RequestError(400, f'input "{name}": {len(values)} values for the shape {list(shape)}')
    if element == "int":
        _in_range(name, datatype, values)
    return values


def _nested(name: str, element: str, shape: Sequence[int], raw: bytes | msgspec.Raw) -> list[object]:
    """The values of lists within lists, each as long as the shape says."""
    try:
        level: list[object] = _ANY.decode(raw)
    except msgspec.ValidationError:
        raise RequestError(400, f'input "{name}": data is not a list') from None
    for size in shape[1:]:
        deeper: list[object] = []
        for item in level:
            if not isinstance(item, list):
                break
            if len(item) != size:
                raise RequestError(400, f'input "{name}": {len(item)} values where the shape {list(shape)} has {size}')
            deeper += item
        else:
            level = deeper
            continue
        break
    kinds = _KINDS[element]
    for value in level:
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and element != "bool")):
            raise RequestError(
                400, f'input "{name}": {_short(value)} is not {"a" if element != "int" else "an"} {element}'
            )
    return level


def _in_range(name: str, datatype: str, values: list[object]) -> None:
    """Refuses integers that the datatype cannot hold."""
    limits = np.iinfo(DATATYPES[datatype].str)
    for value in values:
        if value is not None and not limits.min <= value <= limits.max:  # type: ignore[operator]
            raise RequestError(400, f'input "{name}": {_short(value)} does not fit {datatype}')


def _short(value: object) -> str:
    """The value, cut."""
    text = str(value) if not isinstance(value, list | dict) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:39]}…"


def from_binary(name: str, datatype: str, shape: Sequence[int], data: memoryview) -> Values:
    """The values of a tensor in the binary extension, flat."""
    count = math.prod(shape)
    if datatype == BYTES:
        return _texts(name, count, data)
    dtype = DATATYPES[datatype]
    if len(data) != count * dtype.itemsize:
        raise RequestError(400, f'input "{name}": {len(data)} bytes for {count} values of {datatype}')
    return np.frombuffer(data, dtype)


def _texts(name: str, count: int, data: memoryview) -> list[object]:
    """Elements that carry their length before them."""
    values: list[object] = []
    position = 0
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            break
        position = start + _LENGTH.unpack_from(data, position)[0]
        if position > len(data):
            break
        try:
            values.append(str(data[start:position], "utf-8"))
        except UnicodeDecodeError:
            raise RequestError(400, f'input "{name}": element {len(values)} is not UTF-8') from None
    if position != len(data) or len(values) != count:
        raise RequestError(400, f'input "{name}": the bytes do not hold {count} elements')
    return values


def to_binary(datatype: str, values: np.ndarray) -> bytes:
    """The values of an output in the binary extension."""
    if datatype != BYTES:
        return np.ascontiguousarray(values, DATATYPES[datatype]).tobytes()
    encoded = (str(value).encode() for value in values.ravel().tolist())
    return b"".join(_LENGTH.pack(len(text)) + text for text in encoded)
