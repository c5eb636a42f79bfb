"""Arrays that machine code makes for itself: the functions of Numba's runtime that it calls, in its own bytes.

An array is one block: a count of references, a destructor with its argument (none), the address of the items, their
size, an allocator (none), and then the items. `numba/core/runtime/nrt.cpp` has the same for any allocator.
"""

from __future__ import annotations

import ctypes

from gpuyard.compiled.image import NotKeptError, c_library

__all__ = ["give_back", "runtime_object"]

_LAYOUT = "{i64, i8*, i8*, i8*, i64}"  # of a block, as far as compiled code knows it
_SOURCE = """
declare i8* @malloc(i64)
declare void @free(i8*)

define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align32) {
  %align = zext i32 %align32 to i64
  %spare = add i64 %align, 48
  %total = add i64 %size, %spare
  %block = call i8* @malloc(i64 %total)
  %none = icmp eq i8* %block, null
  br i1 %none, label %done, label %fill
fill:
  %base = ptrtoint i8* %block to i64
  %far = add i64 %base, %spare
  %rest = urem i64 %far, %align
  %items = sub i64 %far, %rest
  %words = bitcast i8* %block to i64*
  %word1 = getelementptr i64, i64* %words, i64 1
  %word2 = getelementptr i64, i64* %words, i64 2
  %word3 = getelementptr i64, i64* %words, i64 3
  %word4 = getelementptr i64, i64* %words, i64 4
  %word5 = getelementptr i64, i64* %words, i64 5
  store i64 1, i64* %words
  store i64 0, i64* %word1
  store i64 0, i64* %word2
  store i64 %items, i64* %word3
  store i64 %size, i64* %word4
  store i64 0, i64* %word5
  br label %done
done:
  ret i8* %block
}

define void @NRT_MemInfo_call_dtor(i8* %block) {
  call void @free(i8* %block)
  ret void
}

define i8* @NRT_Allocate(i64 %size) {
  %block = call i8* @malloc(i64 %size)
  ret i8* %block
}

define void @NRT_Free(i8* %block) {
  call void @free(i8* %block)
  ret void
}
"""


def runtime_object() -> bytes:
    """The functions as an ELF object; NotKeptError if this Numba's blocks are others."""
    from llvmlite import binding  # type: ignore[import-untyped]
    from numba.core.runtime import nrtdynmod

    if str(getattr(nrtdynmod, "_meminfo_struct_type", "")).replace("ptr", "i8*") != _LAYOUT:
        raise NotKeptError("its arrays are blocks of another layout")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(opt=2, reloc="static", codemodel="jitdefault", jit=True)
    module = binding.parse_assembly(f'target triple = "{binding.get_default_triple()}"\n{_SOURCE}')
    made: bytes = machine.emit_object(module)
    return made


def give_back(block: int) -> None:
    """Gives up a reference to a block that machine code handed out, and the block with the last one."""
    count = ctypes.c_ssize_t.from_address(block)
    count.value -= 1
    if count.value == 0:
        free = c_library().free
        free.argtypes = [ctypes.c_void_p]
        free(block)
