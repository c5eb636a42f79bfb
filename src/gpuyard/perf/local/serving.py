"""CPU cost per request of the local inference server, from served models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.local.least_squares import least_squares
from gpuyard.perf.local.profile import ServingProbe

MIN_ERROR_RATIO = 0.05
TERMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A served model: numbers per row, FLOPs, tree nodes visited, and measured core seconds."""

    values: int
    flop: float
    visits: float
    cost_s: float


def _terms(models: Sequence[Served]) -> npt.NDArray[np.float64]:
    return np.array([[1.0, model.values, model.flop, model.visits] for model in models])


def fit_serving(models: Sequence[Served]) -> ServingProbe:
    """Fit the cost of a request (relative least squares, non-negative) and its held-out error."""
    terms, costs = _terms(models), np.array([model.cost_s for model in models])
    constants = least_squares(terms, costs)
    errors = []
    for left_out in range(len(models)) if len(models) > TERMS else ():
        rest = np.arange(len(models)) != left_out
        predicted_s = float(terms[left_out] @ least_squares(terms[rest], costs[rest]))
        errors.append(abs(predicted_s / costs[left_out] - 1.0))
    return ServingProbe(
        request_s=float(constants[0]),
        value_s=float(constants[1]),
        flop_s=float(constants[2]),
        visit_s=float(constants[3]),
        error_ratio=max(MIN_ERROR_RATIO, float(np.mean(errors)) if errors else 0.5),
    )
