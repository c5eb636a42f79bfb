"""The decorators, and what they make: a function that finds its machine code, or has it compiled and kept."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from gpuyard.compiled import compiler
from gpuyard.compiled.arguments import Kind, caller, kinds_of
from gpuyard.compiled.fingerprint import digest, fingerprint, machine
from gpuyard.compiled.image import NotKeptError, mapped
from gpuyard.compiled.part import Part
from gpuyard.compiled.store import Kept, keep, kept

__all__ = ["Loop", "compiled", "compiled_inline", "compiled_within"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function compiled at its first call; the machine code is kept on disk for the next process."""
    return cast(F, Loop(cast(types.FunctionType, function), forceinline=False))


def compiled_within(function: F) -> F:
    """As `compiled`, its machine code put into that of its callers: for the few steps of a hot loop."""
    return cast(F, Loop(cast(types.FunctionType, function), forceinline=True))


def compiled_inline(function: F) -> F:
    """As `compiled`, for small functions that are copied into their callers."""
    return cast(F, Loop(cast(types.FunctionType, function), inline="always"))


@functools.cache
def _tell_once() -> None:
    """Says why nothing seems to happen, to a person who waits."""
    if sys.stderr.isatty():
        sys.stderr.write("compiling for this processor, the first time only: half a minute or so …\n")
        sys.stderr.flush()


class Loop(Part):
    """A function that runs as machine code; `py_func` is the function itself."""

    def __init__(self, function: types.FunctionType, **options: object) -> None:
        """The options are those of `numba.njit`."""
        super().__init__(function, tuple(options.items()))
        self.py_func, self._options = function, tuple(options.items())
        self._calls: dict[tuple[Kind, ...], Callable[..., object]] = {}
        functools.update_wrapper(self, function)
        self._name = f"{function.__module__}.{function.__qualname__}"

    def __call__(self, *arguments: Any) -> object:
        """What the function gives."""
        kinds = kinds_of(arguments)
        if kinds is None:
            return self._with_numba(*arguments)
        call = self._calls.get(kinds)
        if call is None:
            call = self._calls[kinds] = self._call_for(kinds, arguments)
        return call(*arguments)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__  # by its name, as a function

    def made(self) -> object:
        """The function for Numba to call from others."""
        return compiler.callee(self.py_func, self._options, self._learn)

    def _learn(self, made: object) -> None:
        """A function that calls itself needs to be known before it is whole."""
        self._made = made

    def _call_for(self, kinds: tuple[Kind, ...], arguments: tuple[Any, ...]) -> Callable[..., object]:
        """The machine code that is kept, or else is compiled and kept; through Numba if it cannot be."""
        try:
            name = f"{self._name}-{digest(machine(), repr(kinds).encode()).hex()}.loop"
            source = self.py_func.__code__.co_filename
            found = kept(source, name, self._made_from)
            if found is None:
                found = self._compiled(kinds, arguments)
                keep(source, name, found)
            if found.image is not None:
                return caller(mapped(found.image), kinds, found.result)
        except NotKeptError:  # this machine, or what the function reaches, is none that code can be kept for
            pass
        return self._with_numba

    def _compiled(self, kinds: tuple[Kind, ...], arguments: tuple[Any, ...]) -> Kept:
        """The machine code, or why it needs Numba at every start."""
        _tell_once()
        try:
            image, result = compiler.image_of(self.for_numba(), arguments, kinds)
        except NotKeptError as reason:
            return Kept(made_from=self._made_from, image=None, why=str(reason))
        return Kept(made_from=self._made_from, image=image, result=result)

    @functools.cached_property
    def _made_from(self) -> bytes:
        """The number for what it reaches."""
        return fingerprint(self)

    @functools.cached_property
    def _with_numba(self) -> Callable[..., object]:
        """The function as Numba calls it."""
        try:
            return compiler.with_numba(self.py_func, self._options, self._made_from)
        except NotKeptError:
            return compiler.with_numba(self.py_func, self._options, b"")
