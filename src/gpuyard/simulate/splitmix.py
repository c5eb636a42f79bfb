"""SplitMix64: a good 64-bit hash in five operations.

Source: G. L. Steele, D. Lea, C. H. Flood, "Fast Splittable Pseudorandom Number Generators",
OOPSLA 2014.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit

Words = TypeVar("Words", np.uint64, npt.NDArray[np.uint64])
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64_array(value: Words) -> Words:
    """Hash 64-bit numbers."""
    mixed = value + GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


mix64 = jit(forceinline=True, allocates=False)(mix64_array)  # the same for one number, compiled
