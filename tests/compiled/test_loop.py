"""Compiled functions are the functions they were: what they give is what Numba's own call of them gives."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


@compiled
def down_to_zero(number: int) -> int:
    """How many times it calls itself."""
    return 0 if number <= 0 else 1 + down_to_zero(number - 1)


@compiled
def swapped(one: int, other: float, third: bool) -> tuple[bool, float, int]:
    """The three, last first."""
    return third, other, one


@compiled
def shifted(table: Any, by: Any, out: Any) -> None:
    """Writes the table with a number added."""
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            out[row, column] = table[row, column] + by


@compiled
def ordered(values: Any) -> Any:
    """The values in order, and where each was; both are made inside."""
    order = np.argsort(values, kind="mergesort")
    return values[order], order


@compiled
def remainder(one: int, other: int) -> int:
    """What is left of a division."""
    return one % other


@compiled
def powers(base: float, exponent: float) -> float:
    """Calls of the C library."""
    return float(np.exp(exponent) + base**exponent + np.sin(base))


def with_numba(loop: Any) -> Any:
    """The same function, compiled and called by Numba."""
    return numba.njit(loop.py_func)


def test_a_function_within_others_is_one_of_its_own_too() -> None:
    assert quarter(10.0) == 2.5
    assert halved(10.0) == 5.0


def test_a_function_may_call_itself() -> None:
    assert down_to_zero(7) == 7


def test_a_compiled_function_gives_what_python_would() -> None:
    numbers = np.arange(5.0)
    assert sum_of_squares(numbers) == 30.0
    assert sum_of_squares.py_func(numbers) == 30.0  # type: ignore[attr-defined]


def test_an_error_inside_is_raised() -> None:
    assert remainder(7, 4) == 3
    with pytest.raises(ZeroDivisionError):
        remainder(7, 0)


def test_a_number_that_does_not_fit_is_not_cut_off() -> None:
    assert swapped(2**63 - 1, 0.5, True) == (True, 0.5, 2**63 - 1)
    assert swapped(2**63, 0.5, True) == (True, 0.5, 2**63)  # as Numba takes it: without a sign


@settings(max_examples=50, deadline=None)
@given(one=st.integers(-(2**63), 2**63 - 1), other=st.floats(allow_nan=False), third=st.booleans())
def test_numbers_come_back_as_they_were(one: int, other: float, third: bool) -> None:
    found = swapped(one, other, third)
    assert found == (third, other, one)
    assert [type(each) for each in found] == [bool, float, int]  # type: ignore[attr-defined]
    assert swapped(np.int64(one), np.float64(other), np.bool_(third)) == found


@settings(max_examples=50, deadline=None)
@given(base=st.floats(0.01, 100.0), exponent=st.floats(-20.0, 20.0))
def test_the_c_library_is_the_same(base: float, exponent: float) -> None:
    assert powers(base, exponent) == POWERS(base, exponent)


POWERS = with_numba(powers)
SHIFTED = with_numba(shifted)
ORDERED = with_numba(ordered)
DTYPES = ("i1", "u2", "i4", "u8", "f4", "f8", "b1")


@pytest.mark.parametrize(("dtype", "layout"), [*((dtype, "C") for dtype in DTYPES), ("i4", "F"), ("f8", "A")])
def test_arrays_of_every_kind_and_layout(dtype: str, layout: str) -> None:
    whole = np.random.default_rng(1).integers(0, 100, (6, 10)).astype(dtype)
    table = {"C": whole, "F": np.asfortranarray(whole), "A": whole[::2, ::3]}[layout]
    found, wanted = np.zeros(table.shape), np.zeros(table.shape)
    shifted(table, np.dtype(dtype).type(1), found)
    SHIFTED(table, np.dtype(dtype).type(1), wanted)
    assert np.array_equal(found, wanted)
    assert found.any()


def test_an_array_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    numbers = np.arange(4.0)
    numbers.setflags(write=False)
    assert sum_of_squares(numbers) == 14.0
    numbers.tofile(tmp_path / "numbers")
    assert sum_of_squares(np.memmap(tmp_path / "numbers")[:0].view(np.float64)) == 0.0
    assert sum_of_squares(np.memmap(tmp_path / "numbers", dtype=np.float64, mode="r")) == 14.0


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.integers(-100, 100), max_size=40))
def test_arrays_that_are_made_inside_come_out(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    for found, wanted in zip(ordered(array), ORDERED(array), strict=True):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)


def test_memory_of_arrays_is_given_back() -> None:
    array = np.arange(1 << 19)[::-1].copy()  # 4 MB, and three times as much inside
    ordered(array)
    before = resident_bytes()
    for _ in range(30):
        ordered(array)
    assert resident_bytes() - before < 100e6


def resident_bytes() -> float:
    """What this process holds."""
    return float(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_threads_may_call_at_once() -> None:
    arrays = [np.full(10_000, float(number)) for number in range(8)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sum_of_squares, arrays)) == [10_000.0 * number**2 for number in range(8)]


def test_a_loop_is_pickled_by_its_name() -> None:
    assert pickle.loads(pickle.dumps(sum_of_squares)) is sum_of_squares


def test_what_machine_code_cannot_be_handed_goes_through_numba() -> None:
    assert total_of((1, 2, 3)) == 6


@compiled
def total_of(numbers: tuple[int, int, int]) -> int:
    """The sum of three."""
    return numbers[0] + numbers[1] + numbers[2]
