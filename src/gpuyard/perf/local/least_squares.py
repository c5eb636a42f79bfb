"""Relative least squares with non-negative constants."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


def least_squares(terms: Reals, target: Reals) -> Reals:
    """Return non-negative constants with the least relative error of `terms @ constants`.

    Idea: the optimum of a non-negative fit is the unconstrained fit of some subset of constants
    (the others are 0), and there are few constants: try all subsets.
    """
    count = terms.shape[1]
    weighted, ones = terms / target[:, None], np.ones(len(target))
    best, lowest = np.zeros(count), np.inf
    for size in range(1, count + 1):
        for free in itertools.combinations(range(count), size):
            solution, *_ = np.linalg.lstsq(weighted[:, free], ones, rcond=None)
            if (solution < 0).any():
                continue
            error = float(((weighted[:, free] @ solution - ones) ** 2).sum())
            if error < lowest * (1 - 1e-9):
                best, lowest = np.zeros(count), error
                best[list(free)] = solution
    return best
