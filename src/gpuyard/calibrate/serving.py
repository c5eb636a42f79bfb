"""Fit the constants of the serving model to published runs.

Idea: maximum a posteriori. The loss is a robust sum of squared log errors plus squared log effects
over their prior spreads; Levenberg-Marquardt steps on the effects, rows iteratively reweighted.
Invariant: a round never raises the loss; bounds are soft walls until the end, since a clipped
constant has no gradient and the result would depend on the start.
Source: Marquardt, SIAM J. Appl. Math. 11 (1963); robust losses as in SciPy's least_squares.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.serving_effects import NOT_FITTED, design
from gpuyard.calibrate.serving_gradient import FIGURES, FitRuns
from gpuyard.perf.inference.calibration import PATH, ServingCalibration

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WEIGHTS = np.array([0.2, 1.0, 0.5])  # of throughput, TPOT, TTFT
SOFT = np.array([0.015, 0.08, 0.08])  # log error from which the loss is robust
# Exponent of the robust weight: soft L1 for throughput; Cauchy for latencies, where some runs are
# not what their rows say (speculative, cached, queued).
FAR = np.array([0.5, 1.0, 1.0])
BOLD = 1.0  # largest move of an effect per round
WALL = 0.03  # width of the soft wall beyond a bound of log(constant)
RENEW = 4  # rounds between updates of the coefficients' slopes
LEAST = 0.01  # smaller effects are set to 0
ENOUGH = 5e-5  # share of the loss: the fit ends when two consecutive rounds gain less
FIRST_DAMPING = 1e-2  # Marquardt's damping of the curvature
TRIES = 12  # damping increases per round


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedConstant:
    """One entry of the calibration file."""

    name: str
    value: float
    prior: float
    low: float
    high: float
    spread: float
    meaning: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """Fitted constants, and the factors on their priors."""

    calibration: ServingCalibration
    effects: Mapping[str, float]


def read_constants() -> tuple[FittedConstant, ...]:
    """Return the constants with bounds and priors."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))["constant"]
    return tuple(
        FittedConstant(
            name=name,
            value=float(cell["value"]),
            prior=float(cell["prior"]),
            low=float(cell["low"]),
            high=float(cell["high"]),
            spread=float(cell["spread"]),
            meaning=str(cell["meaning"]),
            source=str(cell["source"]),
        )
        for name, cell in table.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Step:
    """Move of a round, loss after it, damping used, and the gain that the quadratic promised."""

    move: Reals
    loss: float
    damping: float
    promised: float

    def next_damping(self, gain: float) -> float:
        """Return less damping where the quadratic was right, more where it was not."""
        achieved = gain / max(self.promised, 1e-9)
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
        self, runs: FitRuns, rows: Ints, measured: Reals, constants: Sequence[FittedConstant]
    ) -> None:
        self.runs, self.rows = runs, rows
        self.effects, self.matrix = design(
            [c.name for c in constants], [c.spread for c in constants]
        )
        fixed = [c.name.startswith(NOT_FITTED) for c in constants]
        self.base = np.log(
            [c.value if fix else c.prior for c, fix in zip(constants, fixed, strict=True)]
        )
        self.low = np.log([c.low for c in constants])
        self.high = np.log([c.high for c in constants])
        self.tight = np.array([effect.spread for effect in self.effects]) ** -2.0
        target = np.log(measured[rows, :FIGURES])
        self.known = np.isfinite(target) & (WEIGHTS > 0)
        self.target = target[self.known]
        spread = (WEIGHTS, SOFT, FAR)
        self.weight, self.soft, self.far = (
            np.broadcast_to(v, target.shape)[self.known] for v in spread
        )
        self.by_row: list[Reals] = []
        self.age = 0  # rounds since the coefficients' slopes were updated

    def point(self, x: Reals) -> Reals:
        """Return log(constants)."""
        return np.asarray(self.base + self.matrix @ x)

    def beyond(self, point: Reals) -> Reals:
        """Return how far constants are beyond their bounds, in wall widths."""
        return (np.maximum(point - self.high, 0.0) - np.maximum(self.low - point, 0.0)) / WALL

    def loss(self, x: Reals) -> float:
        """Return robust log errors + priors of effects + walls at bounds."""
        point = self.point(x)
        predicted = self.runs.predict(point, self.rows)[self.known]
        square = ((np.log(np.maximum(predicted, 1e-9)) - self.target) / self.soft) ** 2
        cost = np.where(self.far < 1.0, 2.0 * (np.sqrt(1.0 + square) - 1.0), np.log1p(square))
        return float(
            (self.weight * cost).sum() + (self.tight * x**2).sum() + (self.beyond(point) ** 2).sum()
        )

    def normal(self, x: Reals) -> tuple[Reals, Reals]:
        """Return gradient and Gauss-Newton Hessian of the loss, with robust row weights."""
        point = self.point(x)
        rows = self.runs.rows(point)
        if self.age % RENEW == 0:
            self.by_row = self.runs.row_slopes(point, rows)
        self.age += 1
        figures, slopes = self.runs.slopes(point, self.rows, self.by_row, rows)
        jacobian = slopes[self.known]
        error = np.log(np.maximum(figures[self.known], 1e-9)) - self.target
        weight = self.weight / (1.0 + (error / self.soft) ** 2) ** self.far / self.soft**2
        beyond = self.beyond(point)
        slope = jacobian.T @ (weight * error) + beyond / WALL
        curve = jacobian.T @ (jacobian * weight[:, None]) + np.diag((beyond != 0.0) / WALL**2)
        return (
            self.matrix.T @ slope + self.tight * x,
            self.matrix.T @ curve @ self.matrix + np.diag(self.tight),
        )

    def shorter(self, x: Reals, now: float, damping: float) -> _Step:
        """Return a step that lowers the loss; the last try if none does."""
        slope, curve = self.normal(x)
        for _ in range(TRIES):
            full = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -slope)
            move: Reals = np.clip(full, -BOLD, BOLD)
            loss = self.loss(x + move)
            if loss < now:
                break
            damping *= 8.0
        promised = -float(2.0 * slope @ move + move @ curve @ move)
        return _Step(move=move, loss=loss, damping=damping, promised=promised)


def fit(runs: FitRuns, rows: Ints, measured: Reals, rounds: int = 60) -> FitResult:
    """Fit the constants to these rows, starting from priors.

    A single round that gains little may have overshot: two in a row end the fit.

    Args:
        measured: metrics of all runs, NaN where unknown.
    """
    problem = _Problem(runs, rows, measured, read_constants())
    x = np.zeros(len(problem.effects))
    now, damping, little = problem.loss(x), FIRST_DAMPING, 0
    for _ in range(rounds):
        fresh = problem.age % RENEW == 0
        step = problem.shorter(x, now, damping)
        gain = now - step.loss
        if gain <= 0.0 and fresh:
            break
        if gain <= 0.0:  # with old slopes: try again with new ones
            problem.age, damping = 0, max(step.damping, FIRST_DAMPING)
            continue
        x, now, damping = x + step.move, step.loss, step.next_damping(gain)
        little = little + 1 if gain < ENOUGH * now else 0
        if little == 2:
            break
        if little:
            problem.age = 0
    x[np.abs(x) < LEAST] = 0.0
    effects = {effect.name: float(np.exp(v)) for effect, v in zip(problem.effects, x, strict=True)}
    point = np.clip(problem.point(x), problem.low, problem.high)
    return FitResult(calibration=runs.calibration(point), effects=effects)
