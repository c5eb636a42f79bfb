"""Hot loops compiled to machine code, kept between runs, typed as the plain functions that they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

__all__ = ["compiled", "compiled_inline", "compiled_within"]

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """The function compiled at its first call; the machine code is kept on disk for the next process.

    The kept code is renewed when the function's own file changes, not when a compiled function
    of another file that it calls does: after such a change delete `*.nbi` beside the caller.
    """
    return cast(F, numba.njit(cache=True, nogil=True, forceinline=False)(function))


def compiled_within(function: F) -> F:
    """As `compiled`, its machine code put into that of its callers: for the few steps of a hot loop."""
    return cast(F, numba.njit(cache=True, nogil=True, forceinline=True)(function))


def compiled_inline(function: F) -> F:
    """As `compiled`, for small functions that are copied into their callers."""
    return cast(F, numba.njit(cache=True, nogil=True, inline="always")(function))
