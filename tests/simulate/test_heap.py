"""The binary heap agrees with a sorted list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.simulate import heap

KEYS = st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=40)


def in_order(ids: list[int], keys: list[int]) -> list[int]:
    return sorted(ids, key=lambda item: (keys[item], item))


def drain(ids: heap.Ids, size: int, keys: heap.Keys) -> list[int]:
    drained = []
    while size:
        drained.append(int(ids[0]))
        size = heap.pop(ids, size, keys)
    return drained


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(keys=KEYS, data=st.data())
def test_pushed_ids_leave_by_key_then_id(
    dtype: type[np.generic], keys: list[int], data: st.DataObject
) -> None:
    ids, size, values = np.empty(len(keys), dtype=np.int64), 0, np.array(keys, dtype=dtype)
    for item in data.draw(st.permutations(range(len(keys)))):
        size = heap.push(ids, size, values, item)
    assert drain(ids, size, values) == in_order(list(range(len(keys))), keys)


@given(keys=KEYS, data=st.data())
def test_built_heap_survives_changed_keys(keys: list[int], data: st.DataObject) -> None:
    members = list(data.draw(st.permutations(range(len(keys)))))
    ids, size, values = np.array(members), len(members), np.array(keys, dtype=np.float64)
    heap.build(ids, size, values)
    while size and data.draw(st.booleans()):
        place = data.draw(st.integers(min_value=0, max_value=size - 1))
        item = int(ids[place])
        keys[item] = data.draw(st.integers(min_value=0, max_value=9))
        smaller, values[item] = keys[item] < values[item], keys[item]
        if smaller:
            heap.sift_up(ids, values, place)
        else:
            heap.sift_down(ids, size, values, place)
    assert drain(ids, size, values) == in_order(members, keys)
