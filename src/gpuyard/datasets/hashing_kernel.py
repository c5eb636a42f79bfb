"""The kernel of `hashing`."""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit


@jit
def crc32(data: np.ndarray, offsets: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """Write the CRC-32 of every text of a buffer."""
    for row in range(len(out)):
        crc = np.uint32(0xFFFFFFFF)
        for at in range(offsets[row], offsets[row + 1]):
            crc = table[(crc ^ data[at]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        out[row] = crc ^ np.uint32(0xFFFFFFFF)
