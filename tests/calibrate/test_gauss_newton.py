"""Fits of logarithms: the solution, its prior and its standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.calibrate.gauss_newton import ConstantScale, row_weights, solve

LINE = np.column_stack([np.ones(40), np.linspace(-1.0, 1.0, 40)])


@given(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0))
def test_line_is_recovered(level: float, slope: float) -> None:
    truth = np.array([level, slope])
    solution = solve(
        lambda point: (LINE @ point, LINE), LINE @ truth, np.zeros(2), np.full(2, 1e-9), np.ones(40), 0.1
    )  # fmt: skip
    assert solution.point == pytest.approx(truth, abs=1e-4)


def test_parameter_without_evidence_stays_at_its_prior() -> None:
    blind = np.column_stack([np.ones(40), np.zeros(40)])
    solution = solve(
        lambda point: (blind @ point, blind),
        np.full(40, 0.3),
        np.array([0.0, 1.0]),
        np.ones(2),
        np.ones(40),
        0.1,
    )
    assert solution.point[1] == pytest.approx(0.0, abs=1e-6)
    errors = solution.standard_errors([str(i) for i in range(40)])
    assert errors[1] == pytest.approx(1.0)  # the prior's deviation
    assert errors[0] < 0.1


def test_outlier_pulls_little() -> None:
    target = LINE @ np.array([0.1, 0.2])
    target[3] += 5.0
    solution = solve(
        lambda point: (LINE @ point, LINE), target, np.zeros(2), np.full(2, 1e-6), np.ones(40), 0.02
    )
    assert solution.point == pytest.approx([0.1, 0.2], abs=0.01)


@given(st.floats(-4.0, 4.0))
def test_constants_stay_below_their_limit(u: float) -> None:
    scale = ConstantScale(
        [{"start": 0.8, "spread": 0.5, "limit": 1.0}, {"start": 1e-5, "spread": 1.0}]
    )
    values = scale.values(np.array([u, u]))
    assert 0.0 < values[0] < 1.0
    assert scale.point(values) == pytest.approx([u, u], abs=1e-6)
    assert (scale.slopes(np.array([u, u])) > 0.0).all()


def test_long_table_counts_with_its_square_root() -> None:
    weight = row_weights(["long"] * 40 + ["short"] * 5)
    assert weight[:40].sum() == pytest.approx(20.0)
    assert weight[40:].sum() == pytest.approx(5.0)
