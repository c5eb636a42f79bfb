"""Times of products and rates of memory between the measured ones."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.local.grid import GemmRateGrid, rate_at
from gpuyard.perf.local.profile import GemmTiming, Rate
from gpuyard.perf.local.step_work import StepGemm

SIDES = (16, 64, 256)


def timing(rows: int, inputs: int, outputs: int, time_s: float) -> GemmTiming:
    """A product that took so long."""
    return GemmTiming(
        kind="forward",
        by="jax",
        rows=rows,
        inputs=inputs,
        outputs=outputs,
        time_s=time_s,
        spread_ratio=0.0,
    )


# A time that is a power of each size is straight on logarithmic axes.
STRAIGHT = GemmRateGrid(
    [timing(r, i, o, 1e-9 * r**0.5 * i**0.75 * o) for r, i, o in itertools.product(SIDES, repeat=3)]
)


def product(rows: int, inputs: int, outputs: int, count: float = 1.0) -> StepGemm:
    """A forward product."""
    return StepGemm(kind="forward", rows=rows, inputs=inputs, outputs=outputs, count=count)


@given(
    rows=st.integers(16, 256),
    inputs=st.integers(16, 256),
    outputs=st.integers(16, 256),
    count=st.integers(1, 9),
)
def test_powers_are_exact_between_grid_points(
    rows: int, inputs: int, outputs: int, count: int
) -> None:
    found = STRAIGHT.time_s(product(rows, inputs, outputs, count))
    assert found == pytest.approx(count * 1e-9 * rows**0.5 * inputs**0.75 * outputs)


@given(st.integers(1, 10))
def test_beyond_the_grid_the_rate_is_that_of_its_edge(times: int) -> None:
    edge = STRAIGHT.time_s(product(256, 64, 64))
    assert STRAIGHT.time_s(product(256 * times, 64, 64)) == pytest.approx(times * edge)
    assert STRAIGHT.time_s(product(8, 64, 64)) == pytest.approx(
        STRAIGHT.time_s(product(16, 64, 64)) / 2
    )


def test_one_timing_is_a_rate_for_all() -> None:
    alone = GemmRateGrid([timing(16, 16, 16, 1e-6)])
    assert alone.time_s(product(32, 16, 64)) == pytest.approx(8e-6)


def test_memory_is_as_fast_as_what_holds_the_bytes() -> None:
    rates = [
        Rate(kind="memory", by="jax", size=size, value=value, spread_ratio=0.0)
        for size, value in ((1e4, 9e10), (1e8, 1e10))
    ]
    assert rate_at(rates, 1.0) == pytest.approx(9e10)
    assert rate_at(rates, 1e6) == pytest.approx(3e10)  # half way on logarithmic axes
    assert rate_at(rates, 1e12) == pytest.approx(1e10)
