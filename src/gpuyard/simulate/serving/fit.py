"""Fits the constants of the serving model to published runs: effects that constants share, each with its prior."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.calibration import PATH, Calibration
from gpuyard.simulate.serving.effects import KEPT, design
from gpuyard.simulate.serving.slopes import FIGURES, Runs

__all__ = ["Constant", "Fitted", "fit", "read_constants"]

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WEIGHTS = np.array([0.2, 1.0, 0.5])  # of throughput, time a token, first token
SOFT = np.array([0.015, 0.08, 0.08])  # log error beyond which a row counts less than by its square
FAR = np.array([0.5, 1.0, 1.0])  # how fast: absolute errors of throughput; of latencies, where some runs are not what
# their rows say (speculative, cached, queued), a row that is far off hardly pulls at all (Cauchy)
BOLD = 1.0  # most that an effect moves in a round
WALL = 0.03  # how far a constant's logarithm goes beyond its bounds at little cost, until it is cut off at the end
RENEW = 4  # rounds after which slopes of coefficients are taken again
LEAST = 0.01  # an effect that is smaller is none
ENOUGH = 5e-5  # of the loss: the fit ends when two rounds in a row gain less
FIRST_DAMPING = 1e-2  # of the curvature, by Marquardt; later as far as the loss is like a parabola
TRIES = 12  # shorter steps, before a round gains nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
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
class Fitted:
    """The constants, and the factors that made them of their priors."""

    calibration: Calibration
    effects: Mapping[str, float]


def read_constants() -> tuple[Constant, ...]:
    """The constants with their bounds and priors."""
    table = tomllib.loads(PATH.read_text(encoding="utf-8"))["constant"]
    return tuple(
        Constant(
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
    """A round's move, the loss after it, the damping that it took, and how much a parabola would have gained."""

    move: Reals
    loss: float
    damping: float
    promised: float

    def next_damping(self, gain: float) -> float:
        """Less where the loss is like the parabola, more where it is not."""
        kept = gain / max(self.promised, 1e-9)
        return max(self.damping / 5.0, 1e-6) if kept > 0.5 else 4.0 * self.damping if kept < 0.2 else self.damping


class _Problem:
    """The loss of some runs as a function of the logarithms of effects."""

    def __init__(self, runs: Runs, rows: Ints, measured: Reals, constants: Sequence[Constant]) -> None:
        self.runs, self.rows = runs, rows
        self.effects, self.matrix = design([c.name for c in constants], [c.spread for c in constants])
        kept = [c.name.startswith(KEPT) for c in constants]
        self.base = np.log([c.value if keep else c.prior for c, keep in zip(constants, kept, strict=True)])
        self.low, self.high = np.log([c.low for c in constants]), np.log([c.high for c in constants])
        self.tight = np.array([effect.spread for effect in self.effects]) ** -2.0
        target = np.log(measured[rows, :FIGURES])
        self.known = np.isfinite(target) & (WEIGHTS > 0)
        self.target = target[self.known]
        spread = (WEIGHTS, SOFT, FAR)
        self.weight, self.soft, self.far = (np.broadcast_to(v, target.shape)[self.known] for v in spread)
        self.by_row: list[Reals] = []
        self.age = 0  # rounds since slopes of coefficients were taken

    def point(self, x: Reals) -> Reals:
        """The logarithms of constants."""
        return np.asarray(self.base + self.matrix @ x)

    def beyond(self, point: Reals) -> Reals:
        """How far constants are beyond their bounds, in widths of the wall."""
        return (np.maximum(point - self.high, 0.0) - np.maximum(self.low - point, 0.0)) / WALL

    def loss(self, x: Reals) -> float:
        """Log errors, how far effects are from none, and constants from their bounds."""
        point = self.point(x)
        found = self.runs.predict(point, self.rows)[self.known]
        square = ((np.log(np.maximum(found, 1e-9)) - self.target) / self.soft) ** 2
        cost = np.where(self.far < 1.0, 2.0 * (np.sqrt(1.0 + square) - 1.0), np.log1p(square))
        return float((self.weight * cost).sum() + (self.tight * x**2).sum() + (self.beyond(point) ** 2).sum())

    def normal(self, x: Reals) -> tuple[Reals, Reals]:
        """The loss's slope, and its curvature with rows that are far off counted less."""
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
        return self.matrix.T @ slope + self.tight * x, self.matrix.T @ curve @ self.matrix + np.diag(self.tight)

    def shorter(self, x: Reals, now: float, damping: float) -> _Step:
        """A step that lowers the loss; the last try if none does."""
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


def fit(runs: Runs, rows: Ints, measured: Reals, rounds: int = 60) -> Fitted:
    """The calibration that fits these rows best, from priors; measured: figures of all runs or NaN.

    Bounds are soft walls until the end: a constant that is cut off has no slope, and where a fit ends would depend on
    where it begins. One round that gains little may only have gone too far: two in a row end the fit.
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
        if gain <= 0.0:  # by old slopes; again, with new ones
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
    return Fitted(calibration=runs.calibration(point), effects=effects)
