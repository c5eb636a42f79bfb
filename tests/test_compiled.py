"""Compiled functions are the functions they were, and are kept on disk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled, compiled_inline, compiled_within


@compiled_inline
def squared(number: float) -> float:
    """The number times itself."""
    return number * number


@compiled
def sum_of_squares(numbers: npt.NDArray[np.float64]) -> float:
    """The squares, added."""
    total = 0.0
    for number in numbers:
        total += squared(number)
    return total


@compiled_within
def halved(number: float) -> float:
    """Half the number."""
    return number / 2.0


@compiled
def quarter(number: float) -> float:
    """A fourth of the number."""
    return halved(halved(number))


def test_a_function_within_others_is_one_of_its_own_too() -> None:
    assert quarter(10.0) == 2.5
    assert halved(10.0) == 5.0


def test_a_compiled_function_gives_what_python_would() -> None:
    numbers = np.arange(5.0)
    assert sum_of_squares(numbers) == 30.0
    assert sum_of_squares.py_func(numbers) == 30.0  # type: ignore[attr-defined]


