"""Typed records in raw memory for compiled functions.

Compiled functions that are handed arrays copy and count them at every call, which costs more than
an event of the simulator does. They are handed one row instead, the head, which holds the addresses
of all tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype

Row = Any  # a record at an address; its fields are those of the dtype it was made with


def table(
    head: np.dtype[np.void], field: str, kind: np.dtype[np.void]
) -> Callable[[Row, int], Row]:
    """Return a compiled function (head, index) -> row of the table at an address in the head."""
    start, record = _start(head, field), from_dtype(kind)

    @intrinsic
    def _give(typing: object, of: Any, index: object) -> object:  # noqa: ARG001
        def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            address = _address(builder, arguments, start, kind.itemsize)
            return builder.inttoptr(address, context.get_value_type(record))

        return record(of, types.int64), _generate

    return cast(Callable[[Row, int], Row], _give)


def prefetch(
    head: np.dtype[np.void], field: str, kind: np.dtype[np.void]
) -> Callable[[Row, int], None]:
    """Return a compiled function that prefetches a row of a table."""
    start, size = _start(head, field), kind.itemsize
    insert: Any = cgutils.get_or_insert_function

    @intrinsic
    def _bring(typing: object, of: Any, index: object) -> object:  # noqa: ARG001
        def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            flag, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            shape = ir.FunctionType(ir.VoidType(), [pointer, flag, flag, flag])
            function = insert(builder.module, shape, "llvm.prefetch.p0")
            address = builder.inttoptr(_address(builder, arguments, start, size), pointer)
            builder.call(function, [address, flag(0), flag(3), flag(1)])  # to read, to keep, data
            return context.get_dummy_value()

        return types.void(of, types.int64), _generate

    return cast(Callable[[Row, int], None], _bring)


def _start(head: np.dtype[np.void], field: str) -> int:
    return head.fields[field][1] if head.fields else 0


def _address(builder: Any, arguments: Any, start: int, size: int) -> Any:
    """The address of a row: the pointer that the head holds at `start`, plus its offset."""
    word = ir.IntType(64)
    place = builder.add(builder.ptrtoint(arguments[0], word), word(start))
    base = builder.load(builder.inttoptr(place, word.as_pointer()))
    base.set_metadata(
        "invariant.load", builder.module.add_metadata([])
    )  # tables stay where they are during a call
    return builder.add(base, builder.mul(arguments[1], word(size)))


def aligned(count: int, kind: np.dtype[np.void], *, spare: int = 0) -> npt.NDArray[np.void]:
    """Return rows of zeros aligned to a cache line, followed by uninitialised spare rows."""
    size = (count + spare) * kind.itemsize
    raw = np.empty(size + 64, dtype=np.uint8)
    skip = -raw.ctypes.data % 64
    rows = raw[skip : skip + size].view(kind)
    raw[skip : skip + count * kind.itemsize] = 0
    return rows
