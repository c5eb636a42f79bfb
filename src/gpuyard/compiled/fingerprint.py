"""What machine code was made from, as one number: functions with all that they reach, the compiler, the processor.

A function is told by its bytecode and by the values of the globals that it names, constants and functions alike, in
whatever file they stand. So a change of a constant or of a function elsewhere is a change of the function.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import types
from collections.abc import Iterator

import numpy as np

from gpuyard.compiled.image import NotKeptError
from gpuyard.compiled.part import Part

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL with it, which takes 4 MB
except ImportError:  # a Python that was built without
    from hashlib import blake2b

__all__ = ["digest", "fingerprint", "machine", "names_in"]

_SIZE = 16
_KNOWN = ("numpy", "numba", "llvmlite", "math", "builtins", "typing")  # told by their versions


def digest(*parts: bytes) -> bytes:
    """A number for these bytes."""
    told = blake2b(digest_size=_SIZE)
    for part in parts:
        told.update(len(part).to_bytes(8, "little") + part)
    return told.digest()


def fingerprint(value: object) -> bytes:
    """A number for a function and all that it reaches; NotKeptError if it reaches what cannot be told."""
    told: list[str] = []
    _tell(value, told, {})
    return digest("\n".join(told).encode())


def _tell(value: object, told: list[str], seen: dict[int, int]) -> None:
    """Adds what there is to say of a value."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.dtype, np.generic)):
        told.append(f"{type(value).__name__} {value!r}")
    elif isinstance(value, np.ndarray):
        told.append(f"array {value.dtype!r} {value.shape} {value.tobytes().hex()}")
    elif isinstance(value, tuple | list | frozenset):
        told.append(f"{type(value).__name__} of {len(value)}")
        for each in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            _tell(each, told, seen)
    elif id(value) in seen:
        told.append(f"number {seen[id(value)]}")
    elif isinstance(value, Part):
        seen[id(value)] = len(seen)
        _tell((type(value).__name__, *value.ingredients), told, seen)
    elif (home := _package(value)) in _KNOWN:
        told.append(f"{type(value).__name__} {home} {getattr(value, '__name__', '')}")
    elif isinstance(value, types.FunctionType):
        seen[id(value)] = len(seen)
        _tell_function(value, told, seen)
    elif isinstance(value, types.CodeType):
        told.append(f"{value.co_code.hex()} {value.co_names} {value.co_varnames} {value.co_freevars}")
        _tell(value.co_consts, told, seen)
    else:
        raise NotKeptError(f"it reads {value!r}")


def _package(value: object) -> str:
    """The package in which something with a name is defined; nothing for other values."""
    named = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return str(named or "").split(".")[0]


def _tell_function(function: types.FunctionType, told: list[str], seen: dict[int, int]) -> None:
    """Adds its code and the globals that it names; of a module, the attributes that it names."""
    _tell(function.__code__, told, seen)
    _tell(function.__defaults__, told, seen)
    _tell(tuple(cell.cell_contents for cell in function.__closure__ or ()), told, seen)
    names = sorted(set(names_in(function.__code__)))
    for name in names:
        value = function.__globals__.get(name, _tell)
        if value is _tell:
            continue
        told.append(f"{name} is")
        if isinstance(value, types.ModuleType) and _package(value) not in _KNOWN:
            for attribute in names:
                if attribute in vars(value):
                    told.append(f"{name}.{attribute} is")
                    _tell(vars(value)[attribute], told, seen)
        else:
            _tell(value, told, seen)


def names_in(code: types.CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function, with those of functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


@functools.cache
def machine() -> bytes:
    """A number for the processor, Python, NumPy, Numba, its settings and this room; NotKeptError elsewhere."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise NotKeptError("only Linux on x86-64 is known")
    told = _read("/proc/cpuinfo").split(b"\n\n")[0]  # of the first: the others are like it
    processor = [line for line in told.decode().splitlines() if line.startswith(_OF_PROCESSOR)]
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith("NUMBA_"))
    versions = [_read(os.path.join(_folder(name), "_version.py")) for name in ("numba", "llvmlite")]
    here = os.path.dirname(__file__)
    own = [_read(os.path.join(here, name)) for name in sorted(os.listdir(here)) if name.endswith(".py")]
    return digest("\n".join((sys.version, np.__version__, *processor, *settings)).encode(), *versions, *own)


_OF_PROCESSOR = ("vendor_id", "cpu family", "model", "flags")


def _folder(package: str) -> str:
    """Where a package is, without loading it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise NotKeptError(f"{package} is not there")
    return found.submodule_search_locations[0]


def _read(path: str) -> bytes:
    """What is in a file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise NotKeptError(f"{path} cannot be read") from error
