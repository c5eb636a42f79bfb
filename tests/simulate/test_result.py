"""Outcomes: percentiles, utilisation and the two indices of balance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpuyard.simulate.result import FlowOutcome, jain_index, max_mean_ratio

LOADS = arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e9))


@given(loads=LOADS)
def test_result_indices_stay_in_range(loads: np.ndarray) -> None:  # type: ignore[type-arg]
    assert 1 - 1e-9 <= max_mean_ratio(loads) <= len(loads) + 1e-9
    assert 1 / len(loads) - 1e-9 <= jain_index(loads) <= 1 + 1e-9


def test_equal_loads_are_fair_and_one_load_is_not() -> None:
    assert max_mean_ratio(np.full(4, 3.0)) == jain_index(np.full(4, 3.0)) == 1.0
    assert max_mean_ratio(np.array([0.0, 0.0, 8.0, 0.0])) == 4.0
    assert jain_index(np.array([0.0, 0.0, 8.0, 0.0])) == 0.25
    assert max_mean_ratio(np.array([])) == jain_index(np.array([])) == 1.0


def test_times_leave_out_what_did_not_finish() -> None:
    outcome = FlowOutcome(
        began_s=np.array([0.0, 1.0, 0.0]),
        finish_s=np.array([2.0, 5.0, np.nan]),
        size_bytes=np.array([20, 40, 1]),
        link_bytes=np.array([50.0]),
        link_rate_bytes_per_s=np.array([20.0]),
    )
    assert outcome.duration_s == 5.0
    assert outcome.unfinished_count == 1
    assert outcome.mean_completion_s == 3.0
    assert outcome.percentile_s(100) == 4.0
    assert outcome.link_utilisation == pytest.approx([0.5])
    assert outcome.throughput_bytes_per_s[:2] == pytest.approx([10.0, 10.0])
