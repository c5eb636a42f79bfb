"""Interpolated GEMM times: linear on logarithmic axes, nearest rate outside the grid."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.perf.local.profile import GemmTiming, Rate
from gpuyard.perf.local.step_work import StepGemm

Reals = npt.NDArray[np.float64]


class GemmRateGrid:
    """Measured rates of one kind of GEMM, over rows, inputs and outputs."""

    def __init__(self, timings: Sequence[GemmTiming]) -> None:
        by_shape = {(timing.rows, timing.inputs, timing.outputs): timing for timing in timings}
        rows, inputs, outputs = (sorted({shape[axis] for shape in by_shape}) for axis in range(3))
        rates = [by_shape[shape].flop_per_s for shape in itertools.product(rows, inputs, outputs)]
        self.axes = [np.log(side) for side in (rows, inputs, outputs)]
        self.rates = np.log(np.array(rates)).reshape(len(rows), len(inputs), len(outputs))

    def time_s(self, gemm: StepGemm) -> float:
        """Return the seconds of all GEMMs of this shape."""
        value = self.rates
        for axis, size in zip(self.axes, (gemm.rows, gemm.inputs, gemm.outputs), strict=True):
            value = _between(axis, value, float(np.log(size)))
        return gemm.flop / float(np.exp(value))


def _between(axis: Reals, values: Reals, at: float) -> Reals:
    """Interpolate along the first axis."""
    if len(axis) == 1:
        return values[0]  # type: ignore[no-any-return]
    high = int(np.clip(np.searchsorted(axis, at), 1, len(axis) - 1))
    share = float(np.clip((at - axis[high - 1]) / (axis[high] - axis[high - 1]), 0.0, 1.0))
    result: Reals = (1.0 - share) * values[high - 1] + share * values[high]
    return result


def rate_at(rates: Sequence[Rate], size_bytes: float) -> float:
    """Return the memory bandwidth for a working set of that size: a cache's, or main memory's.

    Smaller working sets are never slower: kernel launch overhead is a separate term.
    """
    table = sorted((rate.size, rate.value) for rate in rates)
    sizes = np.log([size for size, _ in table])
    values = np.log(np.maximum.accumulate([value for _, value in table[::-1]])[::-1])
    return float(np.exp(np.interp(np.log(max(1.0, size_bytes)), sizes, values)))
