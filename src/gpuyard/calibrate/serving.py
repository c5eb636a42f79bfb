"""Fit the constants of the serving model to published runs.

Idea: maximum a posteriori. The loss is a robust sum of squared log errors plus squared log effects
over their prior spreads; Levenberg-Marquardt steps on the effects, rows iteratively reweighted.
Invariant: a round never raises the loss. Bounds are soft penalties until the end: a clipped
constant has no gradient, and the result would depend on the start.
Source: Marquardt, SIAM J. Appl. Math. 11 (1963); robust losses as in SciPy's least_squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.serving_gradient import FIGURES, FitRuns
from gpuyard.perf.inference.calibration import FittedEffect, ServingCalibration, read_effects
from gpuyard.perf.inference.constants import Effect, design, effects_of, read_constants

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WEIGHTS = np.array([0.2, 1.0, 0.5])  # of throughput, TPOT, TTFT
ROBUST_SCALE = np.array([0.015, 0.08, 0.08])  # log error beyond which the loss is robust
# Exponent of the robust weight: soft L1 for throughput; Cauchy for latencies, where some rows omit
# speculative decoding, prefix caching or queueing.
ROBUST_POWER = np.array([0.5, 1.0, 1.0])
MAX_MOVE = 1.0  # of an effect per round
BOUND_WIDTH = 0.03  # of the soft penalty beyond a bound of log(constant)
SLOPE_ROUNDS = 4  # rounds between updates of the coefficients' slopes
MIN_GAIN_RATIO = 5e-5  # of the loss: the fit ends when two consecutive rounds gain less
REWEIGHTINGS = 12  # of a held-out fit
INITIAL_DAMPING = 1e-2  # Marquardt's damping of the curvature
MAX_DAMPING_INCREASES = 12  # per round


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Fitted constants, and the effects with standard errors."""

    calibration: ServingCalibration
    effects: tuple[FittedEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """Move of a round, loss after it, damping used, and the gain predicted by the quadratic."""

    move: Reals
    loss: float
    damping: float
    predicted_gain: float

    def next_damping(self, gain: float) -> float:
        """Return less damping where the quadratic predicted the gain, more where it did not."""
        achieved = gain / max(self.predicted_gain, 1e-9)
        return (
            max(self.damping / 5.0, 1e-6)
            if achieved > 0.5
            else 4.0 * self.damping
            if achieved < 0.2
            else self.damping
        )


class _Problem:
    """Loss of some runs as a function of log(effects)."""

    def __init__(
        self, runs: FitRuns, rows: Ints, measured: Reals, effects: Sequence[Effect]
    ) -> None:
        self.runs, self.rows, self.effects = runs, rows, effects
        constants = read_constants()
        self.matrix = design(constants, effects)
        self.base = np.log([constant.prior for constant in constants])
        self.low = np.log([constant.low for constant in constants])
        self.high = np.log([constant.high for constant in constants])
        self.tight = np.array([effect.spread for effect in self.effects]) ** -2.0
        target = np.log(measured[rows, :FIGURES])
        self.known = np.isfinite(target) & (WEIGHTS > 0)
        self.target = target[self.known]
        spread = (WEIGHTS, ROBUST_SCALE, ROBUST_POWER)
        self.weight, self.soft, self.far = (
            np.broadcast_to(v, target.shape)[self.known] for v in spread
        )
        self.by_row: list[Reals] = []
        self.age = 0  # rounds since the coefficients' slopes were updated

    def point(self, x: Reals) -> Reals:
        """Return log(constants)."""
        return np.asarray(self.base + self.matrix @ x)

    def beyond(self, point: Reals) -> Reals:
        """Return how far constants are beyond their bounds, over BOUND_WIDTH."""
        return (
            np.maximum(point - self.high, 0.0) - np.maximum(self.low - point, 0.0)
        ) / BOUND_WIDTH

    def loss(self, x: Reals) -> float:
        """Return robust squared log errors + priors of effects + penalties beyond bounds."""
        point = self.point(x)
        predicted = self.runs.predict(point, self.rows)[self.known]
        square = ((np.log(np.maximum(predicted, 1e-9)) - self.target) / self.soft) ** 2
        cost = np.where(self.far < 1.0, 2.0 * (np.sqrt(1.0 + square) - 1.0), np.log1p(square))
        return float(
            (self.weight * cost).sum() + (self.tight * x**2).sum() + (self.beyond(point) ** 2).sum()
        )

    def linear(self, x: Reals) -> tuple[Reals, Reals]:
        """Return log errors and their slopes (known figures × effects)."""
        figures, jacobian = self._slopes(x)
        return np.log(np.maximum(figures, 1e-9)) - self.target, jacobian @ self.matrix

    def weights(self, error: Reals) -> Reals:
        """Return robust weights of squared log errors."""
        return np.asarray(self.weight / (1.0 + (error / self.soft) ** 2) ** self.far / self.soft**2)

    def _slopes(self, x: Reals) -> tuple[Reals, Reals]:
        """Return the known figures and their slopes over log(constants)."""
        point = self.point(x)
        rows = self.runs.rows(point)
        if self.age % SLOPE_ROUNDS == 0:
            self.by_row = self.runs.row_slopes(point, rows)
        self.age += 1
        figures, slopes = self.runs.slopes(point, self.rows, self.by_row, rows)
        return figures[self.known], slopes[self.known]

    def normal(self, x: Reals) -> tuple[Reals, Reals]:
        """Return gradient and Gauss-Newton Hessian of the loss, with robust row weights."""
        figures, jacobian = self._slopes(x)
        error = np.log(np.maximum(figures, 1e-9)) - self.target
        weight = self.weights(error)
        beyond = self.beyond(self.point(x))
        slope = jacobian.T @ (weight * error) + beyond / BOUND_WIDTH
        curve = jacobian.T @ (jacobian * weight[:, None]) + np.diag(
            (beyond != 0.0) / BOUND_WIDTH**2
        )
        return (
            self.matrix.T @ slope + self.tight * x,
            self.matrix.T @ curve @ self.matrix + np.diag(self.tight),
        )

    def lower(self, x: Reals, now: float, damping: float) -> _Step:
        """Return a step that lowers the loss; the most damped one if none does."""
        slope, curve = self.normal(x)
        for _ in range(MAX_DAMPING_INCREASES):
            full = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -slope)
            move: Reals = np.clip(full, -MAX_MOVE, MAX_MOVE)
            loss = self.loss(x + move)
            if loss < now:
                break
            damping *= 8.0
        predicted_gain = -float(2.0 * slope @ move + move @ curve @ move)
        return _Step(move=move, loss=loss, damping=damping, predicted_gain=predicted_gain)


def shipped_effects() -> tuple[Effect, ...]:
    """Return the effects of the shipped calibration, which a fit estimates again."""
    names = {effect.name for effect in read_effects()}
    return tuple(effect for effect in effects_of(read_constants()) if effect.name in names)


def fit(
    runs: FitRuns,
    rows: Ints,
    measured: Reals,
    rounds: int = 60,
    effects: Sequence[Effect] | None = None,
) -> FitResult:
    """Fit effects to these rows, starting from priors.

    One round with a small gain may have overshot, so two in a row end the fit.

    Args:
        measured: metrics of all runs, NaN where unknown.
        effects: what to fit; by default the effects of the shipped calibration.
    """
    problem = _Problem(runs, rows, measured, shipped_effects() if effects is None else effects)
    x = np.zeros(len(problem.effects))
    now, damping, little = problem.loss(x), INITIAL_DAMPING, 0
    for _ in range(rounds):
        fresh = problem.age % SLOPE_ROUNDS == 0
        step = problem.lower(x, now, damping)
        gain = now - step.loss
        if gain <= 0.0 and fresh:
            break
        if gain <= 0.0:  # with old slopes: try again with new ones
            problem.age, damping = 0, max(step.damping, INITIAL_DAMPING)
            continue
        x, now, damping = x + step.move, step.loss, step.next_damping(gain)
        little = little + 1 if gain < MIN_GAIN_RATIO * now else 0
        if little == 2:
            break
        if little:
            problem.age = 0
    return _result(problem, x)


def curvature(
    runs: FitRuns, rows: Ints, measured: Reals, effects: Sequence[Effect], point: Reals
) -> Reals:
    """Return the Gauss-Newton Hessian of the loss at log(effects)."""
    return _Problem(runs, rows, measured, effects).normal(point)[1]


def _result(problem: _Problem, x: Reals) -> FitResult:
    """Return constants and effects with their standard errors."""
    point = np.clip(problem.point(x), problem.low, problem.high)
    return FitResult(
        calibration=problem.runs.calibration(point),
        effects=tuple(
            FittedEffect(name=effect.name, factor=float(np.exp(value)), error=float(size))
            for effect, value, size in zip(
                problem.effects, x, _standard_errors(problem, x), strict=True
            )
        ),
    )


def _standard_errors(problem: _Problem, x: Reals) -> Reals:
    """Return cluster-robust standard errors of log(effects).

    Errors of one model on one engine release are correlated, so each such group is a cluster.
    Source: Liang and Zeger, Biometrika 73 (1986).
    """
    error, jacobian = problem.linear(x)
    weight = problem.weights(error)
    bread = np.linalg.inv(jacobian.T @ (jacobian * weight[:, None]) + np.diag(problem.tight))
    cases = [problem.runs.plans.cases[row] for row in problem.rows]
    names = [f"{case.row['model']}|{case.engine.name}|{case.row['engine_ver']}" for case in cases]
    _, group = np.unique(names, return_inverse=True)
    scores = np.zeros((int(group.max()) + 1, len(x)))
    np.add.at(scores, group[np.nonzero(problem.known)[0]], jacobian * (weight * error)[:, None])
    spread = bread @ (scores.T @ scores + np.diag(problem.tight)) @ bread
    return np.asarray(np.sqrt(np.diag(spread)))


class HeldOutFits:
    """Fits with some runs held out, linearised around the fit to all runs.

    Idea: logarithms of step times are nearly linear in logarithms of constants, so the fit without
    a group follows from the slopes at the fit to all runs, by reweighted least squares to
    convergence. Invariant: held-out runs affect the result only through the point of linearisation,
    and an effect that the other runs do not determine returns to its prior.
    """

    def __init__(self, runs: FitRuns, measured: Reals) -> None:
        rows = np.arange(len(measured))
        self._problem = _Problem(runs, rows, measured, shipped_effects())
        self._start = np.array([_log(e) for e in fit(runs, rows, measured).effects])
        self._error, self._slope = self._problem.linear(self._start)
        self._row = np.nonzero(self._problem.known)[0]

    def without(self, rows: Ints) -> ServingCalibration:
        """Return the constants fitted to all runs but these."""
        problem, rest = self._problem, ~np.isin(self._row, rows)
        slope = self._slope[rest]
        x = self._start
        for _ in range(REWEIGHTINGS):
            error = self._error + self._slope @ (x - self._start)
            weight = problem.weights(error)[rest]
            target = slope @ self._start - self._error[rest]
            curve = slope.T @ (slope * weight[:, None]) + np.diag(problem.tight)
            x = np.linalg.solve(curve, slope.T @ (weight * target))
        return problem.runs.calibration(np.clip(problem.point(x), problem.low, problem.high))


def _log(effect: FittedEffect) -> float:
    return float(np.log(effect.factor))
