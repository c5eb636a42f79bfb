"""Mergeable statistics: partitions merge to the statistics of the whole column."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.datasets.aggregates import (
    CountsRequest,
    DistinctRequest,
    MomentsRequest,
    QuantilesRequest,
    as_text,
    thin_sorted,
)

VALUES = st.lists(st.none() | st.integers(-50, 50), max_size=40)


def gathered(request: Any, values: list[int | None]) -> Any:
    frame = pl.DataFrame({"x": values}, schema={"x": pl.Int64})
    row = frame.select(
        expression.alias(str(at)) for at, expression in enumerate(request.expressions())
    )
    return request.aggregate([row[name][0] for name in row.columns])


@given(VALUES, st.integers(0, 40))
def test_merged_moments_match_full_column(values: list[int | None], cut: int) -> None:
    request = MomentsRequest(column="x")
    merged = gathered(request, values[:cut]).merge(gathered(request, values[cut:]))
    present = np.array([value for value in values if value is not None], dtype=float)
    assert (merged.count, merged.nulls) == (len(present), len(values) - len(present))
    if len(present):
        assert merged.mean == pytest.approx(present.mean(), abs=1e-9)
        assert merged.std == pytest.approx(present.std(), abs=1e-9)
        assert (merged.min, merged.max) == (present.min(), present.max())


@given(VALUES, st.integers(-50, 50))
def test_filled_moments_match_filled_column(values: list[int | None], fill: int) -> None:
    request = MomentsRequest(column="x")
    statistic = gathered(request, values)
    filled = statistic.fill_nulls(fill, statistic.nulls)
    expected = gathered(request, [fill if value is None else value for value in values])
    assert (filled.count, filled.nulls) == (expected.count, 0)
    assert filled.mean == pytest.approx(expected.mean, abs=1e-9)
    assert filled.std == pytest.approx(expected.std, abs=1e-9)


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40), st.integers(0, 40))
def test_merged_quantiles_match_numpy(values: list[int], cut: int) -> None:
    request = QuantilesRequest(column="x")
    merged = gathered(request, values[:cut]).merge(gathered(request, values[cut:]))
    for ratio in (0.0, 0.25, 0.5, 0.99, 1.0):
        assert merged.at(ratio) == pytest.approx(np.quantile(values, ratio))


def test_thinned_quantiles_stay_within_one_rank() -> None:
    sketch = thin_sorted(np.arange(10_000.0), 100)
    assert len(sketch.values) == 100
    assert sketch.count == 10_000
    for ratio in (0.01, 0.5, 0.99):
        assert sketch.at(ratio) == pytest.approx(9999 * ratio, abs=100)


def test_merged_counts_are_sorted_by_frequency_then_value() -> None:
    request = CountsRequest(column="x")
    merged = gathered(request, [1, 2, None]).merge(gathered(request, [2, 3]))
    assert merged.nulls == 1
    assert merged.by_frequency() == [("2", 2), ("1", 1), ("3", 1)]


def test_distinct_values_stop_at_limit() -> None:
    request = DistinctRequest(column="x", limit=2)
    merged = gathered(request, [1, 2, 2]).merge(gathered(request, [2]))
    assert merged.complete
    assert merged.values == ("1", "2")
    assert not merged.merge(gathered(request, [3, 4, 5])).complete


def test_category_text_of_integral_float_has_no_decimal_point() -> None:
    assert [as_text(value) for value in (3.0, 3.5, True, "a", 1e300)] == [
        "3",
        "3.5",
        "1",
        "a",
        "1e+300",
    ]
