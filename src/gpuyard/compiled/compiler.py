"""Numba, loaded when a loop is not kept: the object code of a loop, or the loop as Numba itself calls it."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any, cast

from gpuyard.compiled.arguments import Given, Kind, Result, shape_of_call
from gpuyard.compiled.fingerprint import names_in
from gpuyard.compiled.heap import runtime_object
from gpuyard.compiled.image import Image, Refused, flattened
from gpuyard.compiled.part import Part

__all__ = ["callee", "image_of", "with_numba"]

Options = tuple[tuple[str, Any], ...]


def callee(function: types.FunctionType, options: Options, own: Callable[[object], None]) -> object:
    """The function for Numba to call from other compiled functions; `own` learns it before its parts are made."""
    import numba

    copy = _copied(function)
    made = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **dict(options))(copy)
    own(made)
    _hand_parts(copy, function)
    return made


def with_numba(function: types.FunctionType, options: Options, made_from: bytes) -> Callable[..., object]:
    """The function as Numba compiles, keeps and calls it; what it was made from is in the name of Numba's files."""
    import numba

    copy = _copied(function)
    copy.__qualname__ = f"{function.__qualname__}_{made_from.hex()}"
    _hand_parts(copy, function)
    return cast(Callable[..., object], numba.njit(cache=bool(made_from), nogil=True, **dict(options))(copy))


def image_of(dispatcher: Any, arguments: Sequence[object], kinds: tuple[Kind, ...]) -> tuple[Image, Result]:
    """The machine code for such arguments; Refused if it needs Numba when it runs."""
    import numba

    if numba.config.DISABLE_JIT:
        raise Refused("Numba is told not to compile")
    signature = tuple(numba.typeof(value) for value in arguments)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    name = compiled.fndesc.llvm_func_name
    shape = str(compiled.library.get_function(name).global_value_type)
    if shape != shape_of_call(kinds):
        raise Refused(f"it is called as {shape}")
    result = _result(compiled.signature.return_type)
    return flattened((compiled.library._get_compiled_object(), runtime_object()), name), result


def _copied(function: types.FunctionType) -> types.FunctionType:
    """The function with globals of its own."""
    names = dict(function.__globals__)
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__qualname__ = function.__qualname__
    return copy


def _hand_parts(copy: types.FunctionType, function: types.FunctionType) -> None:
    """Puts what Numba is handed in the place of parts."""
    for name in names_in(function.__code__):
        value = function.__globals__.get(name)
        if isinstance(value, Part):
            copy.__globals__[name] = value.for_numba()


def _result(given: Any) -> Result:
    """What a type of Numba's is to Python; Refused for what is neither numbers nor arrays of them."""
    from numba import types as kinds

    if given == kinds.none:
        return None
    if isinstance(given, kinds.BaseTuple) and len(given):
        return [_given(each) for each in given]
    return _given(given)


def _given(given: Any) -> Given:
    """A number by its NumPy code; an array by that of its items and its dimensions."""
    from numba import types as kinds

    if isinstance(given, kinds.Array) and given.layout == "C":
        return _given(given.dtype), given.ndim
    if isinstance(given, kinds.Boolean):
        return "b1"
    if isinstance(given, kinds.Integer):
        return f"{'i' if given.signed else 'u'}{given.bitwidth // 8}"
    if isinstance(given, kinds.Float) and given.bitwidth >= 32:
        return f"f{given.bitwidth // 8}"
    raise Refused(f"it gives {given}")
