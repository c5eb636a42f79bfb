"""Error bars from held-out errors."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.calibrate.error_bars import error_bars_text, weighted_quantile
from gpuyard.perf.error_bars import ErrorBar


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


def test_data_file_reads_back() -> None:
    text = error_bars_text({"run|dense": ErrorBar(low=-0.1, high=0.2)}, ["a|h100|dense"])
    table = tomllib.loads(text)
    assert table["bar"]["run|dense"] == {"low": -0.1, "high": 0.2}
    assert table["measured"]["cells"] == ["a|h100|dense"]
