"""The kernel of `rows`."""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit


@jit
def seen_before(keys: np.ndarray, low: int, seen: np.ndarray, out: np.ndarray) -> int:
    """Write the places of keys that were seen before, and return their number."""
    count = 0
    for place in range(len(keys)):
        at = np.uint64(np.int64(keys[place]) - np.int64(low))
        bit = np.uint8(1 << (at & np.uint64(7)))
        if seen[at >> np.uint64(3)] & bit:
            out[count] = place
            count += 1
        else:
            seen[at >> np.uint64(3)] |= bit
    return count
