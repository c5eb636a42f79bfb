"""Machine code as one run of bytes that works at any address: made from an ELF object, mapped, and called.

Numba compiles for the large code model, in which every reference is a 64-bit address (R_X86_64_64). So an object
becomes bytes, the places that take the address of the bytes, and the places that take the address of a function of
the C library. Whatever else an object holds is refused, and the loop stays with Numba.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

__all__ = ["Image", "NotKeptError", "c_library", "flattened", "mapped"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")  # of the file
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
_RELOCATABLE, _X86_64 = 1, 62
_SYMBOLS, _RELOCATIONS, _UNWINDING = 2, 4, 0x70000001  # types of section
_WRITE, _TAKES_MEMORY = 1, 2  # flags of a section
_UNDEFINED, _COMMON = 0, 0xFFF2  # sections of a symbol that has none
_ADDRESS = 1  # R_X86_64_64


class NotKeptError(Exception):
    """This machine code, or this machine, is not one that can be kept and mapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Machine code before it has an address."""

    code: bytes
    entry: int  # where its function begins
    own: tuple[int, ...]  # places of 64-bit numbers to which its address is added
    foreign: tuple[tuple[int, str], ...]  # places to which the address of a function of the C library is added


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """What is needed of a section's header."""

    kind: int
    flags: int
    offset: int
    size: int
    names: int  # the section that holds a table's names
    about: int  # the section that relocations are for
    align: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Symbol:
    """What is needed of a symbol."""

    name: str
    section: int
    value: int
    size: int


def flattened(objects: Sequence[bytes], function: str) -> Image:
    """The image of relocatable ELF objects that use each other; NotKeptError if they hold what is not known here."""
    code, defined = bytearray(), dict[str, int]()
    own: list[int] = []
    asked: list[tuple[int, str]] = []
    for elf in objects:
        _add(elf, code, defined, own, asked)
    foreign = []
    for place, name in asked:
        if name in defined:
            own.append(place)
            _WORD.pack_into(code, place, (_WORD.unpack_from(code, place)[0] + defined[name]) % 2**64)
        else:
            foreign.append((place, name))
    _addresses({name for _, name in foreign})
    return Image(code=bytes(code), entry=defined[function], own=tuple(own), foreign=tuple(foreign))


def _add(elf: bytes, code: bytearray, defined: dict[str, int], own: list[int], asked: list[tuple[int, str]]) -> None:
    """Puts an object behind the others; what it takes from them or from the C library is asked for."""
    sections = _sections(elf)
    symbols = [symbol for table in sections if table.kind == _SYMBOLS for symbol in _symbols(elf, sections, table)]
    starts, places = {}, list[int | None]()
    for number, section in enumerate(sections):
        if section.flags & _TAKES_MEMORY and section.size and section.kind != _UNWINDING:
            if section.flags & _WRITE:
                raise NotKeptError("it has variables of its own")
            starts[number] = _put(code, elf[section.offset : section.offset + section.size], section.align)
    for symbol in symbols:
        place = starts[symbol.section] + symbol.value if symbol.section in starts else None
        if symbol.section == _COMMON:  # what Numba's wrappers for Python would use; here it stays empty
            place = _put(code, bytes(symbol.size), symbol.value)
        places.append(place)
        if place is not None and symbol.name:
            defined[symbol.name] = place
    for at, number, addend in _relocations(elf, sections, starts):
        place, symbol = places[number], symbols[number]
        if place is None and symbol.section != _UNDEFINED:
            raise NotKeptError(f"it refers to section {symbol.section}")
        if place is None:
            asked.append((at, symbol.name))
        else:
            own.append(at)
        _WORD.pack_into(code, at, ((place or 0) + addend) % 2**64)


def _put(code: bytearray, more: bytes, align: int) -> int:
    """Puts bytes at the next place of that alignment, and gives the place."""
    code.extend(bytes(-len(code) % max(align, 1)))
    code.extend(more)
    return len(code) - len(more)


def _sections(elf: bytes) -> list[_Section]:
    """The headers of all sections."""
    ident, kind, machine, _, _, _, start, _, _, _, _, size, count, _ = _HEADER.unpack_from(elf)
    if ident[:6] != b"\x7fELF\x02\x01" or kind != _RELOCATABLE or machine != _X86_64:
        raise NotKeptError("it is no relocatable object for x86-64")
    rows = (_SECTION.unpack_from(elf, start + number * size) for number in range(count))
    return [
        _Section(kind=kind, flags=flags, offset=offset, size=size, names=names, about=about, align=align)
        for _, kind, flags, _, offset, size, names, about, align, _ in rows
    ]


def _symbols(elf: bytes, sections: list[_Section], table: _Section) -> Iterator[_Symbol]:
    """All symbols of a table; one that stands for a section has no name and the value 0."""
    names = sections[table.names].offset
    for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
        name, _, _, section, value, size = _SYMBOL.unpack_from(elf, at)
        text = elf[names + name : elf.index(b"\0", names + name)].decode()
        yield _Symbol(name=text, section=section, value=value, size=size)


def _relocations(elf: bytes, sections: list[_Section], starts: dict[int, int]) -> Iterator[tuple[int, int, int]]:
    """Every place of the image that takes an address, the symbol whose address it is, and what is added."""
    for section in sections:
        if section.kind == _RELOCATIONS and section.about in starts:
            for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(elf, at)
                if info & 0xFFFFFFFF != _ADDRESS:
                    raise NotKeptError(f"it has a relocation of type {info & 0xFFFFFFFF}")
                yield starts[section.about] + offset, info >> 32, addend


def mapped(image: Image) -> int:
    """The address of the image's function, in memory that may be executed and no longer written."""
    memory = mmap.mmap(-1, len(image.code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = image.code
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    addresses = _addresses({name for _, name in image.foreign})
    for place, added in (*((at, base) for at in image.own), *((at, addresses[name]) for at, name in image.foreign)):
        _WORD.pack_into(memory, place, (_WORD.unpack_from(memory, place)[0] + added) % 2**64)
    protect = c_library().mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    if protect(base, len(image.code), mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise NotKeptError("memory may not be executed")
    _MAPPED.append(memory)
    return base + image.entry


_MAPPED: list[mmap.mmap] = []  # as long as the process lives


def _addresses(names: set[str]) -> dict[str, int]:
    """Where functions of the C library are; NotKeptError for one that it has not."""
    libraries = (c_library("libm.so.6"), c_library())
    found = {}
    for name in names:
        function = next((getattr(library, name) for library in libraries if hasattr(library, name)), None)
        if function is None:
            raise NotKeptError(f"it calls {name}")
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


@functools.cache
def c_library(name: str = "libc.so.6") -> ctypes.CDLL:
    """A library of the system; NotKeptError where it has another name."""
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise NotKeptError(f"there is no {name}") from error
