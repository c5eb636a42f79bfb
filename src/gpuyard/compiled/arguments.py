"""Arguments and results between Python and machine code."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuyard.compiled.image import c_library

__all__ = ["Given", "Kind", "Result", "caller", "kinds_of"]

# A number is its NumPy code; an array is its dtype, dimensions and flags.
Kind = str | tuple[np.dtype[Any], int, int]
Given = str | tuple[str, int]  # a number, or an array by the code of its items and its dimensions
Result = Given | list[Given] | None  # one, a tuple of several, or nothing

_ARRAYS = (np.ndarray, np.memmap)
_C_ORDER, _FORTRAN_ORDER, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400  # NPY_ARRAY_…
_FLAGS = _C_ORDER | _FORTRAN_ORDER | _ALIGNED | _WRITEABLE
_C_TYPES: dict[str, Any] = {
    "b1": ctypes.c_bool, "f4": ctypes.c_float, "f8": ctypes.c_double,
    "i1": ctypes.c_int8, "i2": ctypes.c_int16, "i4": ctypes.c_int32, "i8": ctypes.c_int64,
    "u1": ctypes.c_uint8, "u2": ctypes.c_uint16, "u4": ctypes.c_uint32, "u8": ctypes.c_uint64,
}  # fmt: skip
_NUMBERS: dict[type, str] = {bool: "b1", int: "i8", float: "f8"} | {np.dtype(code).type: code for code in _C_TYPES}
_OK, _NOTHING = 0, -2  # how a function ended: it gave something, or None
_HEAD = 5  # words of an array before its shape: block, parent, items, size of one, address


def kinds_of(arguments: tuple[Any, ...]) -> tuple[Kind, ...] | None:
    """The kinds of the arguments; None if machine code cannot be handed one of them."""
    kinds: list[Kind] = []
    for value in arguments:
        if type(value) in _ARRAYS:
            flags = value.flags.num & _FLAGS
            kinds.append((value.dtype, value.ndim, flags & ~_FORTRAN_ORDER if flags & _C_ORDER else flags))
        elif (kind := _NUMBERS.get(type(value))) and (kind != "i8" or -(2**63) <= value < 2**63):
            kinds.append(kind)
        else:
            return None
    return tuple(kinds)


def caller(address: int, kinds: tuple[Kind, ...], result: Result) -> Callable[..., object]:
    """The function whose entry is at an address, for arguments of these kinds."""
    takes = [_C_TYPES[kind] if isinstance(kind, str) else ctypes.py_object for kind in kinds]
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *takes)
    function = entry(address)  # other threads run meanwhile
    parts = result if isinstance(result, list) else [] if result is None else [result]
    types = [_C_TYPES[part] if isinstance(part, str) else ctypes.c_ssize_t * (_HEAD + 2 * part[1]) for part in parts]
    names = [f"_{number}" for number in range(len(parts))]
    given = type("Given", (ctypes.Structure,), {"_fields_": list(zip(names, types, strict=True))})

    def _call(*arguments: object) -> object:
        out, error = given(), ctypes.c_void_p()
        status = function(ctypes.addressof(out), ctypes.addressof(error), *arguments)
        if status not in (_OK, _NOTHING):
            raise _error(error.value, status)
        found = [_taken(getattr(out, name), part) for name, part in zip(names, parts, strict=True)]
        return tuple(found) if isinstance(result, list) else found[0] if found else None

    return _call


def _taken(value: Any, part: Given) -> object:
    """A number, or a copy of an array, whose block is given back with the last reference to it."""
    if isinstance(part, str):
        return value
    code, dimensions = part
    block, _, count, size, address, *shape = value[: _HEAD + dimensions]
    items = (ctypes.c_char * (count * size)).from_address(address) if count else b""
    copy = np.frombuffer(items, dtype=code).reshape(shape).copy()
    if block:
        references = ctypes.c_ssize_t.from_address(block)
        references.value -= 1
        if references.value == 0:
            c_library().free(ctypes.c_void_p(block))
    return copy


def _error(described: int | None, status: int) -> BaseException:
    """The exception that machine code describes: an address and a size of what was pickled when it was compiled."""
    address = ctypes.c_void_p.from_address(described).value if described else None
    if described is None or address is None:
        return RuntimeError(f"machine code ended with {status} and without a word")
    size = ctypes.c_int32.from_address(described + 8).value
    kind, words, _ = pickle.loads(ctypes.string_at(address, size))
    error: BaseException = kind(*words)
    return error
