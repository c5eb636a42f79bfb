"""What is added to Numba's machine code so that it runs without Numba: an entry for Python, and memory for arrays.

The entry takes NumPy's arrays as they are and hands each on as Numba does inside a program: its owner and its parent
(none: it outlives the call), its number of items, the size of one, its address, its shape and its strides.

An array that machine code makes is one block: a count of references, a destructor with its argument (none), the
address of the items, their size, an allocator (none), and then the items; as in `numba/core/runtime/nrt.cpp`.
"""

from __future__ import annotations

import ctypes
import importlib
from typing import Any

import numpy as np

from gpuyard.compiled.arguments import Kind
from gpuyard.compiled.image import NotKeptError

__all__ = ["ENTRY", "glue_object", "shape_of_call"]

ENTRY = "gpuyard_entry"
_DATA, _SHAPE, _STRIDES = 16, 32, 40  # in NumPy's PyArrayObject
_NUMBERS = {"b1": "i8", "f4": "float", "f8": "double"}  # as LLVM writes them; others are whole
_BLOCK = "{i64, i8*, i8*, i8*, i64}"  # as far as compiled code knows it
_RUNTIME = """
declare ptr @malloc(i64)
declare void @free(ptr)

define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align32) {
  %align = zext i32 %align32 to i64
  %spare = add i64 %align, 48
  %total = add i64 %size, %spare
  %block = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %fill
fill:
  %base = ptrtoint ptr %block to i64
  %end = add i64 %base, %spare
  %over = urem i64 %end, %align
  %items = sub i64 %end, %over
  %head0 = insertvalue [6 x i64] zeroinitializer, i64 1, 0
  %head1 = insertvalue [6 x i64] %head0, i64 %items, 3
  %head2 = insertvalue [6 x i64] %head1, i64 %size, 4
  store [6 x i64] %head2, ptr %block
  br label %done
done:
  ret ptr %block
}

define void @NRT_MemInfo_call_dtor(ptr %block) {
  call void @free(ptr %block)
  ret void
}

define ptr @NRT_Allocate(i64 %size) {
  %block = call ptr @malloc(i64 %size)
  ret ptr %block
}

define void @NRT_Free(ptr %block) {
  call void @free(ptr %block)
  ret void
}
"""


def shape_of_call(kinds: tuple[Kind, ...]) -> str:
    """The type of Numba's function for such arguments: where its result and its error go, then the arguments."""
    return f"i32 ({', '.join(['ptr', 'ptr', *(word for kind in kinds for word in _words(kind))])})"


def _words(kind: Kind) -> list[str]:
    """The types of what is handed on for an argument."""
    if isinstance(kind, str):
        return [_NUMBERS.get(kind, f"i{8 * int(kind[1])}")]
    return ["ptr", "ptr", "i64", "i64", "ptr", *["i64"] * 2 * kind[1]]


def glue_object(function: str, kinds: tuple[Kind, ...]) -> bytes:
    """The entry of a function of Numba's, and what it may call, as an ELF object; NotKeptError for another Numba."""
    blocks = importlib.import_module("numba.core.runtime.nrtdynmod")
    if str(getattr(blocks, "_meminfo_struct_type", "")) != _BLOCK:
        raise NotKeptError("its arrays are blocks of another layout")
    if not _arrays_are_known():
        raise NotKeptError("NumPy's arrays are of another layout")
    llvm: Any = importlib.import_module("llvmlite.binding")
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="static", codemodel="jitdefault", jit=True)
    source = f'target triple = "{target.triple}"\n{_RUNTIME}\n{_entry(function, kinds)}'
    made: bytes = machine.emit_object(llvm.parse_assembly(source))
    return made


def _entry(function: str, kinds: tuple[Kind, ...]) -> str:
    """The source of the entry."""
    takes, lines, hands = ["ptr %out", "ptr %error"], list[str](), ["ptr %out", "ptr %error"]
    for number, kind in enumerate(kinds):
        name = f"%a{number}"
        if isinstance(kind, str):
            takes.append(f"{_words(kind)[0]} {name}")
            hands.append(f"{_words(kind)[0]} {name}")
        else:
            takes.append(f"ptr {name}")
            lines += _array(name, kind[1])
            sizes = [f"i64 {name}.{what}{axis}" for what in ("n", "s") for axis in range(kind[1])]
            hands += [
                "ptr null",
                "ptr null",
                f"i64 {name}.count",
                f"i64 {kind[0].itemsize}",
                f"ptr {name}.data",
                *sizes,
            ]
    types = shape_of_call(kinds).removeprefix("i32 ")
    return "\n".join([
        f'declare i32 @"{function}"{types}',
        f"define i32 @{ENTRY}({', '.join(takes)}) {{",
        *lines,
        f'  %status = call i32 @"{function}"({", ".join(hands)})',
        "  ret i32 %status",
        "}",
    ])  # fmt: skip


def _array(name: str, dimensions: int) -> list[str]:
    """Reads an array's address, shape, strides and number of items."""
    lines = []
    for what, offset in (("data", _DATA), ("n", _SHAPE), ("s", _STRIDES)):
        lines.append(f"  {name}.{what}.at = getelementptr i8, ptr {name}, i64 {offset}")
        lines.append(f"  {name}.{what} = load ptr, ptr {name}.{what}.at")
    for axis in range(dimensions):
        for what in ("n", "s"):
            lines.append(f"  {name}.{what}{axis}.at = getelementptr i64, ptr {name}.{what}, i64 {axis}")
            lines.append(f"  {name}.{what}{axis} = load i64, ptr {name}.{what}{axis}.at")
    counts = [f"{name}.count{axis}" for axis in range(dimensions)] + [f"{name}.count"]
    lines.append(f"  {counts[0]} = add i64 1, 0")
    for axis in range(dimensions):
        lines.append(f"  {counts[axis + 1]} = mul i64 {counts[axis]}, {name}.n{axis}")
    return lines


def _arrays_are_known() -> bool:
    """True if an array's address, shape and strides are where they are thought to be."""
    sample = np.zeros((2, 3), dtype=np.int32)
    words = [ctypes.c_ssize_t.from_address(id(sample) + offset).value for offset in (_DATA, _SHAPE, _STRIDES)]
    if words[0] != sample.ctypes.data:
        return False
    shape, strides = (list((ctypes.c_ssize_t * 2).from_address(word)) for word in words[1:])
    return shape == [2, 3] and strides == [12, 4]
