"""A binary heap of ids, ordered by an array of keys, for compiled loops.

`heap[:size]` holds ids and `keys[id]` is an id's key, so one key array can serve several heaps.
The caller owns the arrays and the size. Invariant: a place is never ordered before its parent
`(place - 1) // 2`, so `heap[0]` is the first id. Equal keys are ordered by id: the order in which
ids leave depends on the keys alone, not on the order of insertion.

Source: J. W. J. Williams, "Algorithm 232: Heapsort", CACM 7(6), 1964; building in linear time:
R. W. Floyd, "Algorithm 245: Treesort 3", CACM 7(12), 1964.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit

Ids = npt.NDArray[np.int64]
Keys = npt.NDArray[Any]


@jit(forceinline=True, allocates=False)
def _precedes(keys: Keys, one: int, other: int) -> bool:
    return bool(keys[one] < keys[other] or (keys[one] == keys[other] and one < other))


@jit(forceinline=True, allocates=False)
def sift_up(heap: Ids, keys: Keys, place: int) -> None:
    """Restore the order after the id at `place` was added or its key became smaller."""
    item = heap[place]
    while place > 0:
        parent = (place - 1) >> 1
        if _precedes(keys, heap[parent], item):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


@jit(forceinline=True, allocates=False)
def sift_down(heap: Ids, size: int, keys: Keys, place: int) -> None:
    """Restore the order after the id at `place` was replaced or its key became larger."""
    item = heap[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _precedes(keys, heap[child + 1], heap[child]):
            child += 1
        if _precedes(keys, item, heap[child]):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = item


@jit(allocates=False)
def build(heap: Ids, size: int, keys: Keys) -> None:
    """Order `heap[:size]`, which holds ids in any order, in linear time."""
    for place in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, keys, place)


@jit(allocates=False)
def push(heap: Ids, size: int, keys: Keys, item: int) -> int:
    """Add an id; return the new size."""
    heap[size] = item
    sift_up(heap, keys, size)
    return size + 1


@jit(allocates=False)
def pop(heap: Ids, size: int, keys: Keys) -> int:
    """Remove the first id, `heap[0]`; return the new size."""
    heap[0] = heap[size - 1]
    sift_down(heap, size - 1, keys, 0)
    return size - 1
