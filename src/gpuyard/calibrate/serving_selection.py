"""Choose which effects of the serving model to fit.

Idea: backward elimination on the quadratic at the fit of all effects. Fixing an effect at 1 raises
the loss by its square over its variance given the others; the cheapest goes first. Invariant: the
covariance is that of the remaining effects, so one of several interchangeable effects remains.
Source: Hocking, Biometrics 32 (1976), backward elimination.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.serving import curvature, fit
from gpuyard.calibrate.serving_gradient import FitRuns
from gpuyard.perf.inference.constants import Effect, effects_of, read_constants

Reals = npt.NDArray[np.float64]


def select_effects(runs: FitRuns, measured: Reals, count: int) -> tuple[Effect, ...]:
    """Return the `count` effects that the runs determine best."""
    effects = effects_of(read_constants())
    rows = np.arange(len(measured))
    result = fit(runs, rows, measured, effects=effects)
    point = np.log([effect.factor for effect in result.effects])
    left = eliminated(point, curvature(runs, rows, measured, effects, point), count)
    return tuple(effects[index] for index in left)


def eliminated(point: Reals, curve: Reals, count: int) -> tuple[int, ...]:
    """Return the remaining indices after fixing the cheapest effects at 0, one by one."""
    left = np.arange(len(point))
    covariance = np.linalg.inv(curve)
    while len(left) > count:
        cheapest = int(np.argmin(point**2 / np.diag(covariance)))
        column = covariance[:, cheapest] / covariance[cheapest, cheapest]
        point = point - column * point[cheapest]
        covariance = covariance - np.outer(column, covariance[cheapest])
        rest = np.arange(len(left)) != cheapest
        left, point, covariance = left[rest], point[rest], covariance[np.ix_(rest, rest)]
    return tuple(int(index) for index in left)
