"""Duplicates by a key of whole numbers: dense keys by bits, others by order, both as a plain loop finds them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.datasets.steps.dates import DateParts
from gpuyard.datasets.steps.rows import Deduplicate

TYPES = (np.int8, np.int32, np.int64, np.uint16, np.uint64)


def later(parts: list[np.ndarray]) -> list[list[int]]:
    """The places of keys that came before."""
    seen: set[int] = set()
    found: list[list[int]] = []
    for part in parts:
        found.append([])
        for place, key in enumerate(part.tolist()):
            if key in seen:
                found[-1].append(place)
            seen.add(key)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=4),
    st.sampled_from(TYPES),
    st.booleans(),
    st.booleans(),
)
def test_the_first_of_every_key_stays(keys: list[list[int]], dtype: type, edge: bool, far: bool) -> None:
    limits = np.iinfo(dtype)
    first = int(limits.max) - 40 if edge else int(limits.min)
    parts = [np.array([first + key for key in part], dtype=dtype) for part in keys]
    if far:  # from one end of the type to the other
        parts.append(np.array([limits.min, limits.max, limits.min], dtype=dtype))
    found = Deduplicate(columns=("key",)).doomed([(part,) for part in parts], 1e6)
    assert [part.tolist() for part in found] == later(parts)


@pytest.mark.parametrize("part", ["hour", "minute", "second"])
def test_parts_of_a_day_are_those_of_the_calendar(part: str) -> None:
    stamps = np.random.default_rng(0).integers(-(10**16), 10**16, 1000)  # from 1653 to 2286
    frame = pl.DataFrame({"time": pl.Series([*stamps.tolist(), -1, 0, None]).cast(pl.Datetime("us"))})
    made = frame.select(DateParts(columns=("time",), parts=(part,)).expressions()).to_series()  # type: ignore[arg-type]
    assert made.dtype == pl.Int8
    assert made.to_list() == getattr(frame["time"].dt, part)().to_list()
