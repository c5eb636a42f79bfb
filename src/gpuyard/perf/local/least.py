"""Relative least squares with constants that are not below zero, for a handful of them."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

__all__ = ["least_squares"]

Reals = npt.NDArray[np.float64]


def least_squares(terms: Reals, wanted: Reals) -> Reals:
    """The constants whose sums of terms differ least from what is wanted, relative to it: the best over all sets of
    constants that may be above zero."""
    count = terms.shape[1]
    weighted, ones = terms / wanted[:, None], np.ones(len(wanted))
    best, least = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for free in itertools.combinations(range(count), size):
            found, *_ = np.linalg.lstsq(weighted[:, free], ones, rcond=None)
            if (found < 0).any():
                continue
            error = float(((weighted[:, free] @ found - ones) ** 2).sum())
            if error < least * (1 - 1e-9):
                best, least = np.zeros(count), error
                best[list(free)] = found
    return best
