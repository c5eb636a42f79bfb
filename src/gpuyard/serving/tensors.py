"""Tensors of the Open Inference Protocol, in JSON and in the binary tensor data extension.

Binary data is little-endian and row-major; each BYTES element follows its four-byte length. JSON
values are flat in row-major order or nested by shape.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gpuyard.serving.request_errors import RequestError

BYTES = "BYTES"
DATATYPES: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype("?"),
    "UINT8": np.dtype("u1"), "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"), "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"), "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"), "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"), "FP32": np.dtype("<f4"), "FP64": np.dtype("<f8"),
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DATATYPES.items()}
_LENGTH = struct.Struct("<I")
Values = np.ndarray | list[object]


def datatype_of(dtype: str) -> str:
    """Return the protocol datatype of a NumPy type; strings, dates and objects are BYTES."""
    try:
        return _NAMES.get(np.dtype(dtype), BYTES)
    except TypeError:
        return BYTES


def kind_of(datatype: str) -> str:
    """Return `number`, `bool` or `text`."""
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
    if datatype.startswith("FP"):
        return "float"
    return {"BOOL": "bool", BYTES: "text"}.get(datatype, "int")


def from_json(
    name: str, datatype: str, shape: Sequence[int], raw: bytes | msgspec.Raw
) -> list[object]:
    """Return the values of a JSON tensor, flat; null is a missing value."""
    element = _element(datatype)
    try:
        values: list[object] = _DECODERS[element].decode(raw)
    except msgspec.ValidationError:
        values = _nested(name, element, shape, raw)
    if len(values) != math.prod(shape):
        raise RequestError(400, f'input "{name}": {len(values)} values for shape {list(shape)}')
    if element == "int":
        check_range(name, datatype, values)
    return values


def _nested(
    name: str, element: str, shape: Sequence[int], raw: bytes | msgspec.Raw
) -> list[object]:
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
                raise RequestError(
                    400,
                    f'input "{name}": {len(item)} values where shape {list(shape)} has {size}',
                )
            deeper += item
        else:
            level = deeper
            continue
        break
    kinds = _KINDS[element]
    for value in level:
        if value is not None and (
            not isinstance(value, kinds) or (isinstance(value, bool) and element != "bool")
        ):
            article = "an" if element == "int" else "a"
            raise RequestError(400, f'input "{name}": {_short(value)} is not {article} {element}')
    return level


def check_range(name: str, datatype: str, values: Sequence[object]) -> None:
    """Raise RequestError for an integer that the datatype cannot hold."""
    limits = np.iinfo(DATATYPES[datatype].str)
    for value in values:
        if value is not None and not limits.min <= value <= limits.max:  # type: ignore[operator]
            raise RequestError(400, f'input "{name}": {_short(value)} does not fit {datatype}')


def _short(value: object) -> str:
    text = str(value) if not isinstance(value, list | dict) else type(value).__name__
    return text if len(text) <= 40 else f"{text[:39]}…"


def from_binary(name: str, datatype: str, shape: Sequence[int], data: memoryview) -> Values:
    """Return the values of a binary tensor, flat."""
    count = math.prod(shape)
    if datatype == BYTES:
        return _texts(name, count, data)
    dtype = DATATYPES[datatype]
    if len(data) != count * dtype.itemsize:
        raise RequestError(400, f'input "{name}": {len(data)} bytes for {count} {datatype} values')
    return np.frombuffer(data, dtype)


def _texts(name: str, count: int, data: memoryview) -> list[object]:
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
        raise RequestError(400, f'input "{name}": the binary data does not hold {count} elements')
    return values


def to_binary(datatype: str, values: np.ndarray) -> bytes:
    """Encode the values of an output as binary tensor data."""
    if datatype != BYTES:
        return np.ascontiguousarray(values, DATATYPES[datatype]).tobytes()
    encoded = (str(value).encode() for value in values.ravel().tolist())
    return b"".join(_LENGTH.pack(len(text)) + text for text in encoded)
