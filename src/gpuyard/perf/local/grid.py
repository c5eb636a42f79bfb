"""Times of products between those that were measured: straight on logarithmic axes, at the nearest rate beyond them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.perf.local.profile import Rate, Timing
from gpuyard.perf.local.work import Product

__all__ = ["Grid", "rate_at"]

Reals = npt.NDArray[np.float64]


class Grid:
    """The measured rates of one kind of product, over rows, inputs and outputs."""

    def __init__(self, timings: Sequence[Timing]) -> None:
        found = {(timing.rows, timing.inputs, timing.outputs): timing for timing in timings}
        rows, inputs, outputs = (sorted({shape[axis] for shape in found}) for axis in range(3))
        rates = [found[shape].flop_per_s for shape in itertools.product(rows, inputs, outputs)]
        self.axes = [np.log(side) for side in (rows, inputs, outputs)]
        self.rates = np.log(np.array(rates)).reshape(len(rows), len(inputs), len(outputs))

    def time_s(self, product: Product) -> float:
        """How long all of them take."""
        value = self.rates
        for axis, size in zip(self.axes, (product.rows, product.inputs, product.outputs), strict=True):
            value = _between(axis, value, float(np.log(size)))
        return product.flop / float(np.exp(value))


def _between(axis: Reals, values: Reals, at: float) -> Reals:
    """The values at a place of their first axis."""
    if len(axis) == 1:
        return values[0]  # type: ignore[no-any-return]
    high = int(np.clip(np.searchsorted(axis, at), 1, len(axis) - 1))
    share = float(np.clip((at - axis[high - 1]) / (axis[high] - axis[high - 1]), 0.0, 1.0))
    found: Reals = (1.0 - share) * values[high - 1] + share * values[high]
    return found


def rate_at(rates: Sequence[Rate], size_bytes: float) -> float:
    """The memory's rate for so many bytes that are used again and again: of the caches that hold them, or beyond.

    Fewer bytes are never slower: what starting a kernel takes is an overhead, not a rate.
    """
    table = sorted((rate.size, rate.value) for rate in rates)
    sizes = np.log([size for size, _ in table])
    values = np.log(np.maximum.accumulate([value for _, value in table[::-1]])[::-1])
    return float(np.exp(np.interp(np.log(max(1.0, size_bytes)), sizes, values)))
