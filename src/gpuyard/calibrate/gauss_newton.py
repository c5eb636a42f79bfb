"""Maximum a posteriori fits of logarithms, shared by the performance models.

Idea: Gauss-Newton on rows reweighted for the soft-L1 loss, with a normal prior on every parameter.
A physical constant is fitted on a log scale, or on a logit scale below its limit, so it cannot
reach a bound. A constant that the data does not determine keeps its prior and the standard
deviation of the prior.
Source: soft-L1 as in scipy.optimize.least_squares; cluster-robust standard errors as in K.-Y. Liang
and S. L. Zeger, Biometrika 73 (1986) 13-22.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuyard.perf.layout import Array

ROUNDS = 12
STEP = 1e-4  # of finite differences
TOLERANCE = 1e-5  # largest change of a predicted logarithm in the last round
LOOSE_TOLERANCE = 1e-3  # the same for held-out fits: 0.1 %
SOURCE_ROWS = 10.0  # rows of one source beyond this number count with their square root
# Predictions and their derivatives (rows × parameters) at a point.
Slopes = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedParameter:
    """A fitted number, its standard error and its prior."""

    name: str
    value: float
    standard_error: float  # of the value
    prior_z: float  # distance from the prior's centre, in its standard deviations

    def lines(self) -> tuple[str, str]:
        """Return the fit's lines of a data file."""
        return f"value = {self.value:.6g}", f"standard_error = {self.standard_error:.2g}"


class ConstantScale:
    """Physical constants as unbounded numbers with a standard normal prior."""

    def __init__(self, cells: Sequence[Mapping[str, float]]) -> None:
        self.spread = np.array([float(cell["spread"]) for cell in cells])
        self.limit = np.array([float(cell.get("limit", np.inf)) for cell in cells])
        self.centre = self._unbounded(np.array([float(cell["start"]) for cell in cells]))

    def _unbounded(self, value: Array) -> Array:
        return np.asarray(np.log(value) - np.log1p(-value / self.limit), dtype=np.float64)

    def values(self, point: Array) -> Array:
        """Return the constants of a point; 0 is the centre of the prior."""
        power = np.exp(self.centre + self.spread * point)
        return np.asarray(power / (1.0 + power / self.limit), dtype=np.float64)

    def point(self, values: Array) -> Array:
        """Return the point of constants: the inverse of `values`."""
        return np.asarray((self._unbounded(values) - self.centre) / self.spread, dtype=np.float64)

    def slopes(self, point: Array) -> Array:
        """Return the derivative of every constant by its own coordinate."""
        return (self.values(point + STEP) - self.values(point)) / STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The point with the lowest loss."""

    point: Array
    hessian: Array
    scores: Array  # gradient of each row's loss with respect to each parameter

    def standard_errors(self, clusters: Sequence[str]) -> Array:
        """Return standard errors that account for correlated errors within a cluster.

        The larger of the posterior's deviation and the cluster-robust one.
        """
        inverse = np.linalg.inv(self.hessian)
        _, place = np.unique(np.asarray(clusters), return_inverse=True)
        sums = np.zeros((place.max() + 1, self.scores.shape[1]))
        np.add.at(sums, place, self.scores)
        variance = np.maximum(np.diag(inverse @ (sums.T @ sums) @ inverse), np.diag(inverse))
        return np.asarray(np.sqrt(variance), dtype=np.float64)


def solve(
    slopes: Slopes,
    target: Array,
    start: Array,
    penalty: Array,
    weight: Array,
    soft: float,
    tolerance: float = TOLERANCE,
) -> Solution:
    """Return the point with the lowest robust loss.

    Args:
        slopes: predicted logarithms and their derivatives.
        target: measured logarithms.
        start: a point near the solution saves rounds.
        penalty: 1 / variance of the prior of each parameter, around 0.
        weight: of each row.
        soft: error beyond which a row counts linearly.
        tolerance: largest change of a prediction in the last round.
    """
    point = start
    for _ in range(ROUNDS):
        here, by = slopes(point)
        error = target - here
        robust = weight / np.sqrt(1.0 + (error / soft) ** 2)
        scaled = by * (robust / soft**2)[:, None]
        hessian = scaled.T @ by + np.diag(penalty)
        move = np.linalg.solve(hessian, scaled.T @ error - penalty * point)
        move /= max(1.0, np.abs(move * np.sqrt(penalty)).max())  # one prior deviation at most
        point = point + move
        if np.abs(by @ move).max() < tolerance:
            break
    return Solution(point=point, hessian=hessian, scores=scaled * error[:, None])


def row_weights(sources: Sequence[str]) -> Array:
    """Return the weight of each row: large sources are down-weighted."""
    _, place, counts = np.unique(np.array(sources), return_inverse=True, return_counts=True)
    weight = 1.0 / np.sqrt(np.maximum(counts / SOURCE_ROWS, 1.0))
    return np.asarray(weight[place], dtype=np.float64)
