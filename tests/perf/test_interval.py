"""Prediction intervals on a log scale."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.interval import PredictionInterval

VALUES = st.floats(1e-9, 1e15)
RATIOS = st.floats(0.0, 20.0)


@given(VALUES, RATIOS)
def test_interval_is_symmetric_in_factors(value: float, ratio: float) -> None:
    interval = PredictionInterval.from_ratio(value, ratio)
    assert interval.high == pytest.approx(value * (1.0 + ratio))
    assert interval.low == pytest.approx(value / (1.0 + ratio))


@given(VALUES, st.floats(0.001, 20.0))
def test_limits_at_the_bounds_have_the_stated_chances(value: float, ratio: float) -> None:
    interval = PredictionInterval.from_ratio(value, ratio)
    assert interval.chance_below(interval.low) == pytest.approx(0.05, abs=1e-6)
    assert interval.chance_below(value) == pytest.approx(0.5)
    assert interval.chance_below(interval.high) == pytest.approx(0.95, abs=1e-6)


@given(VALUES, RATIOS, VALUES, VALUES)
def test_chance_grows_with_the_limit(
    value: float, ratio: float, limit: float, other: float
) -> None:
    interval = PredictionInterval.from_ratio(value, ratio)
    low, high = sorted((limit, other))
    assert interval.chance_below(low) <= interval.chance_below(high)
    assert interval.chance_above(low) == 1.0 - interval.chance_below(low)


def test_eighty_per_cent_bar_is_widened_to_ninety() -> None:
    interval = PredictionInterval.from_ratio(100.0, 0.2, coverage=0.8)
    # ln 1.2 is 1.2816 standard deviations, the interval reaches to 1.6449 of them.
    assert interval.high == pytest.approx(100.0 * 1.2 ** (1.6448536 / 1.2815516))
    assert interval.chance_below(120.0) == pytest.approx(0.9, abs=1e-6)


def test_each_side_has_its_spread() -> None:
    shifted = PredictionInterval(value=100.0, low=90.0, high=200.0)
    assert shifted.chance_below(90.0) == pytest.approx(0.05)
    assert shifted.chance_below(200.0) == pytest.approx(0.95)
    assert shifted.chance_below(110.0) < 0.6 < shifted.chance_above(95.0)


def test_prediction_without_spread_is_certain() -> None:
    exact = PredictionInterval.from_ratio(2.0, 0.0)
    assert [exact.chance_below(limit) for limit in (0.0, 1.99, 2.0, math.inf)] == [0, 0, 1, 1]


def test_no_time_is_below_zero() -> None:
    assert PredictionInterval.from_ratio(1.0, 3.0).chance_below(-1.0) == 0.0
    assert PredictionInterval.from_ratio(1.0, 3.0).chance_below(math.inf) == 1.0


def test_scaled_interval_has_the_same_chances() -> None:
    step = PredictionInterval.from_ratio(2.0, 0.3)
    assert step.scaled(1000.0).chance_below(2500.0) == pytest.approx(step.chance_below(2.5))


@pytest.mark.parametrize("ratio", [-0.5, math.nan])
def test_impossible_ratio_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="no interval"):
        PredictionInterval.from_ratio(1.0, ratio)
