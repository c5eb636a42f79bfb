"""What a request costs a core: constants of the inference server and its runtime, from models that were served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.local.least import least_squares
from gpuyard.perf.local.profile import ServingProbe

__all__ = ["Served", "fit_serving"]

FLOOR_RATIO = 0.05
TERMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that was served: numbers in a row, its operations, nodes visited, and the measured time of a core."""

    values: int
    flop: float
    visits: float
    cost_s: float


def _terms(models: Sequence[Served]) -> npt.NDArray[np.float64]:
    """What the constants multiply."""
    return np.array([[1.0, model.values, model.flop, model.visits] for model in models])


def fit_serving(models: Sequence[Served]) -> ServingProbe:
    """The constants with the least relative error, none below zero; the error of leaving each model out."""
    terms, costs = _terms(models), np.array([model.cost_s for model in models])
    found = least_squares(terms, costs)
    errors = []
    for left_out in range(len(models)) if len(models) > TERMS else ():
        kept = np.arange(len(models)) != left_out
        errors.append(abs(float(terms[left_out] @ least_squares(terms[kept], costs[kept])) / costs[left_out] - 1.0))
    return ServingProbe(
        request_s=float(found[0]), value_s=float(found[1]), flop_s=float(found[2]), visit_s=float(found[3]),
        error_ratio=max(FLOOR_RATIO, float(np.mean(errors)) if errors else 0.5),
    )  # fmt: skip
