"""Error bars from held-out errors."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.calibrate.error_bars import (
    FEW_SOURCES,
    TAIL_ROWS,
    conformal_bar,
    conformal_quantile,
    effective_count,
    error_bars_text,
    half_year,
    weighted_quantile,
)
from gpuyard.perf.error_bars import ErrorBar, ErrorBars


@given(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=60), st.floats(0.1, 0.9))
def test_quantile_of_equal_weights_is_the_usual_one(values: list[float], share: float) -> None:
    names = [str(i) for i in range(len(values))]
    found = weighted_quantile(np.array(values), names, share)
    usual = np.quantile(values, share, method="hazen")
    assert found == pytest.approx(usual, abs=1e-9)


def test_long_table_does_not_decide_a_quantile() -> None:
    values = np.concatenate([np.zeros(100), np.ones(10)])
    names = ["long"] * 100 + [str(i) for i in range(10)]
    assert np.quantile(values, 0.6) == 0.0
    assert weighted_quantile(values, names, 0.6) > 0.9


def test_conformal_quantile_covers_the_next_value_often_enough() -> None:
    # 1 to 19: the next value is at most the 19th in 95 of 100 cases, the 18th in 90.
    values = np.arange(1.0, 20.0)
    assert conformal_quantile(values, 0.95) == 19.0
    assert conformal_quantile(values, 0.9) == 18.0
    assert conformal_quantile(values[:5], 0.9) == 5.0  # all that is known


@given(st.integers(0, 10_000))
def test_bar_covers_further_runs_of_the_same_kind(seed: int) -> None:
    errors = np.random.default_rng(seed).normal(0.05, 0.1, 400)
    bar = conformal_bar(errors, np.array([str(i % 10) for i in range(400)]))
    inside = ((bar.low <= errors) & (errors <= bar.high)).mean()
    assert 0.88 <= inside <= 0.92
    assert bar.high > -bar.low  # errors are high on average, and many sources say so


def test_bar_of_few_sources_has_two_equal_sides() -> None:
    errors = np.linspace(0.1, 0.3, 100)  # of one source: the next may be off to the other side
    bar = conformal_bar(errors, np.array(["one"] * 100))
    assert bar.low == -bar.high
    assert bar.high > 0.25
    few = conformal_bar(errors[: TAIL_ROWS - 1], np.array([str(i) for i in range(TAIL_ROWS - 1)]))
    assert few.low == -few.high


def test_large_sources_count_as_few() -> None:
    equal = np.repeat([str(i) for i in range(8)], 10)
    assert effective_count(equal) == pytest.approx(8.0)
    one_large = np.array(["large"] * 90 + [str(i) for i in range(8)])
    assert effective_count(one_large) < FEW_SOURCES


@pytest.mark.parametrize(
    ("date", "name"),
    [("2025-10", "2025-2"), ("2025-06", "2025-1"), ("2024-2025", "2024-1"), ("", "")],
)
def test_half_year_is_the_one_in_which_a_date_begins(date: str, name: str) -> None:
    assert half_year(date) == name


def test_data_file_reads_back() -> None:
    text = error_bars_text(
        ErrorBars(
            bars={"run|dense": ErrorBar(low=-0.1, high=0.2)},
            cells=frozenset({"a|h100|dense"}),
            models=frozenset({"dense|80x8192"}),
        )
    )
    table = tomllib.loads(text)
    assert table["bar"]["run|dense"] == {"low": -0.1, "high": 0.2}
    assert table["measured"] == {"cells": ["a|h100|dense"], "models": ["dense|80x8192"]}
