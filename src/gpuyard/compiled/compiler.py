"""Numba, loaded when a loop is not kept: the machine code of a loop, or the loop as Numba itself calls it."""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable, Sequence
from typing import Any, cast

from gpuyard.compiled.arguments import Given, Kind, Result
from gpuyard.compiled.fingerprint import names_in
from gpuyard.compiled.glue import ENTRY, glue_object, shape_of_call
from gpuyard.compiled.image import Image, NotKeptError, flattened
from gpuyard.compiled.part import Part

__all__ = ["Options", "callee", "image_of", "with_numba"]

Options = tuple[tuple[str, object], ...]  # of `numba.njit`


def callee(function: types.FunctionType, options: Options, learn: Callable[[object], None]) -> object:
    """The function for Numba to call from others; `learn` has it before its parts are made, of which it may be one."""
    copy = _copied(function)
    made = _numba().njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **dict(options))(copy)
    learn(made)
    _hand_parts(copy)
    return cast(object, made)


def with_numba(function: types.FunctionType, options: Options, made_from: bytes) -> Callable[..., object]:
    """The function as Numba compiles, keeps and calls it; its files are named by what it was made from, if known."""
    copy = _copied(function)
    copy.__qualname__ = f"{function.__qualname__}_{made_from.hex()}"
    _hand_parts(copy)
    return cast(Callable[..., object], _numba().njit(cache=bool(made_from), nogil=True, **dict(options))(copy))


def image_of(dispatcher: Any, arguments: Sequence[object], kinds: tuple[Kind, ...]) -> tuple[Image, Result]:
    """The machine code for such arguments; NotKeptError if it needs Numba when it runs."""
    numba = _numba()
    if numba.config.DISABLE_JIT:
        raise NotKeptError("Numba is told not to compile")
    signature = tuple(numba.typeof(value) for value in arguments)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    name, library = compiled.fndesc.llvm_func_name, compiled.library
    shape = str(library.get_function(name).global_value_type)
    if shape != shape_of_call(kinds):
        raise NotKeptError(f"it is called as {shape}")
    result = _result(compiled.signature.return_type)
    if not hasattr(library, "_get_compiled_object"):
        raise NotKeptError("this Numba does not hand its machine code out")
    return flattened((library._get_compiled_object(), glue_object(name, kinds)), ENTRY), result


def _numba() -> Any:
    """Numba."""
    return importlib.import_module("numba")


def _copied(function: types.FunctionType) -> types.FunctionType:
    """The function with globals of its own."""
    copy = types.FunctionType(
        function.__code__, dict(function.__globals__), function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__ = function.__qualname__
    return copy


def _hand_parts(copy: types.FunctionType) -> None:
    """Puts what Numba is handed in the place of parts."""
    for name in names_in(copy.__code__):
        value = copy.__globals__.get(name)
        if isinstance(value, Part):
            copy.__globals__[name] = value.for_numba()


def _result(given: Any) -> Result:
    """What a type of Numba's is to Python; NotKeptError for what is neither numbers nor arrays of them."""
    kinds = _numba().types
    if given == kinds.none:
        return None
    if isinstance(given, kinds.BaseTuple) and len(given):
        return [_given(each) for each in given]
    return _given(given)


def _given(given: Any) -> Given:
    """A number by its NumPy code; an array by that of its items and its dimensions."""
    if isinstance(given, _numba().types.Array) and given.layout == "C":
        return _number(given.dtype), int(given.ndim)
    return _number(given)


def _number(given: Any) -> str:
    """The NumPy code of a number."""
    kinds = _numba().types
    if isinstance(given, kinds.Boolean):
        return "b1"
    if isinstance(given, kinds.Integer):
        return f"{'i' if given.signed else 'u'}{given.bitwidth // 8}"
    if isinstance(given, kinds.Float) and given.bitwidth >= 32:
        return f"f{given.bitwidth // 8}"
    raise NotKeptError(f"it gives {given}")
