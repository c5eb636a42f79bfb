"""Arguments and results between Python and machine code, as Numba hands them over inside a program.

An array is its owner and parent (none: it outlives the call), its number of items, the size of one, its address, then
its shape and its strides. The result is written where the first argument points; an error's description where the
second does.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuyard.compiled.heap import give_back

__all__ = ["Given", "Kind", "Result", "caller", "handed", "shape_of_call"]

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
_LLVM_TYPES = {"b": "i8", "f4": "float", "f8": "double"}
_NUMBERS: dict[type, str] = {bool: "b1", int: "i8", float: "f8"} | {np.dtype(code).type: code for code in _C_TYPES}
_ARRAY = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_void_p)
_NOTHING = -2  # the status of a function that gives None


def handed(arguments: Sequence[Any]) -> tuple[tuple[Kind, ...], list[Any]] | None:
    """The kinds of the arguments, and the values that machine code is handed; None if it cannot be handed one."""
    kinds: list[Kind] = []
    values: list[Any] = []
    for value in arguments:
        if type(value) in _ARRAYS:
            flags = value.flags.num & _FLAGS
            kinds.append((value.dtype, value.ndim, flags & ~_FORTRAN_ORDER if flags & _C_ORDER else flags))
            values += (None, None, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif kind := _NUMBERS.get(type(value)):
            if kind == "i8" and not -(2**63) <= value < 2**63:
                return None
            kinds.append(kind)
            values.append(value)
        else:
            return None
    return tuple(kinds), values


def shape_of_call(kinds: tuple[Kind, ...]) -> str:
    """The type of a function for such arguments as LLVM writes it."""
    parts = ["ptr", "ptr"]
    for kind in kinds:
        if isinstance(kind, str):
            parts.append(_LLVM_TYPES.get(kind, _LLVM_TYPES.get(kind[0], f"i{8 * int(kind[1])}")))
        else:
            parts += ("ptr", "ptr", "i64", "i64", "ptr", *(("i64",) * 2 * kind[1]))
    return f"i32 ({', '.join(parts)})"


def caller(address: int, kinds: tuple[Kind, ...], result: Result) -> Callable[[list[Any]], object]:
    """The function at an address, to be called with what `handed` gives."""
    takes: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
    for kind in kinds:
        takes += (_C_TYPES[kind],) if isinstance(kind, str) else (*_ARRAY, *((ctypes.c_ssize_t,) * 2 * kind[1]))
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *takes)(address)  # other threads run meanwhile
    parts = result if isinstance(result, list) else [] if result is None else [result]
    types = [_C_TYPES[part] if isinstance(part, str) else ctypes.c_ssize_t * (5 + 2 * part[1]) for part in parts]
    names = [f"_{number}" for number in range(len(parts))]
    given = type("Given", (ctypes.Structure,), {"_fields_": list(zip(names, types, strict=True))})

    def _call(values: list[Any]) -> object:
        out, error = given(), ctypes.c_void_p()
        status = function(ctypes.addressof(out), ctypes.addressof(error), *values)
        if status not in (0, _NOTHING):
            raise _error(error)
        found = [_taken(getattr(out, name), part) for name, part in zip(names, parts, strict=True)]
        return tuple(found) if isinstance(result, list) else found[0] if found else None

    return _call


def _taken(value: Any, part: Given) -> object:
    """A number, or a copy of an array, whose block is given back."""
    if isinstance(part, str):
        return value
    code, dimensions = part
    block, _, count, size, address, *shape = value[: 5 + dimensions]
    items = (ctypes.c_char * (count * size)).from_address(address) if count else b""
    copy = np.frombuffer(items, dtype=code).reshape(shape).copy()
    if block:
        give_back(block)
    return copy


def _error(described: ctypes.c_void_p) -> BaseException:
    """The exception that machine code describes: an address and a size of what was pickled when it was compiled."""
    address = ctypes.c_void_p.from_address(described.value or 0).value or 0
    size = ctypes.c_int32.from_address((described.value or 0) + 8).value
    kind, words, _ = pickle.loads(ctypes.string_at(address, size))
    error: BaseException = kind(*words)
    return error
