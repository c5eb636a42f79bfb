"""Deduplication by an integer key, dense or sparse, matches a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.datasets.steps.rows import Deduplicate

TYPES = (np.int8, np.int32, np.int64, np.uint16, np.uint64)


def later(parts: list[np.ndarray]) -> list[list[int]]:
    seen: set[int] = set()
    repeats: list[list[int]] = []
    for part in parts:
        repeats.append([])
        for place, key in enumerate(part.tolist()):
            if key in seen:
                repeats[-1].append(place)
            seen.add(key)
    return repeats


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=30), min_size=1, max_size=4),
    st.sampled_from(TYPES),
    st.booleans(),
    st.booleans(),
)
def test_deduplicate_keeps_first_row_of_every_key(
    keys: list[list[int]], dtype: type, edge: bool, far: bool
) -> None:
    limits = np.iinfo(dtype)
    first = int(limits.max) - 40 if edge else int(limits.min)
    parts = [np.array([first + key for key in part], dtype=dtype) for part in keys]
    if far:  # from one end of the type to the other
        parts.append(np.array([limits.min, limits.max, limits.min], dtype=dtype))
    dropped = Deduplicate(columns=("key",)).rows_to_drop([(part,) for part in parts], 1e6)
    assert [part.tolist() for part in dropped] == later(parts)
