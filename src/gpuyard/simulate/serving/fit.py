"""Fits the constants of the serving model to published runs: soft-L1 on the log error, priors. Needs scipy."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.calibration import PATH, Calibration
from gpuyard.simulate.serving.schedules import Schedules

__all__ = ["Constant", "fit", "read_constants"]

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WEIGHTS = np.array([1.0, 1.0, 0.5, 0.0])  # of throughput, time a token, first token, whole time
SOFT = 0.08  # log error beyond which a row counts linearly
TINY = 1e-9
STEP = 0.02  # of a constant's logarithm, for slopes


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


def touched(plans: Schedules, name: str, rows: Ints) -> Ints:
    """Which of these rows a constant may change."""
    owner = name.split(".")[0]
    kinds = {c.kernels for c in {case.chip for case in plans.cases}}
    engines = {case.engine.name for case in plans.cases}
    links = {case.chip.link for case in plans.cases} | {"network"}
    found = []
    for k, i in enumerate(rows):
        case, layout = plans.cases[i], plans.layouts[i]
        if owner in kinds:
            hit = case.chip.kernels == owner
        elif owner in engines:
            hit = case.engine.name == owner
        elif owner in links:
            hit = layout.chips > 1 and (case.chip.link == owner or layout.chips > case.chip.link_chip_count)
        else:
            hit = True
        if hit:
            found.append(k)
    return np.array(found, dtype=np.int64)


class _Problem:
    """Log errors of some runs as a function of the logarithms of constants over their priors."""

    def __init__(self, plans: Schedules, rows: Ints, measured: Reals, start: Calibration, names: Sequence[str]) -> None:
        constants = {constant.name: constant for constant in read_constants()}
        places = {name: touched(plans, name, rows) for name in names}
        self.plans, self.rows, self.start = plans, rows, start
        self.free = [constants[name] for name in names if len(places[name])]
        self.places = [places[constant.name] for constant in self.free]
        self.target = np.log(measured[rows])
        self.known = np.isfinite(self.target) & (WEIGHTS > 0)
        self.spread = np.array([constant.spread for constant in self.free])

    def calibration(self, x: Reals) -> Calibration:
        """The constants at a point."""
        moved = {c.name: c.prior * float(np.exp(v)) for c, v in zip(self.free, x, strict=True)}
        return Calibration(values={**self.start.values, **moved})

    def errors(self, x: Reals, part: Ints) -> Reals:
        """Log errors of some rows, one column a metric."""
        predicted = np.maximum(self.plans.predict(self.calibration(x), self.rows[part]), TINY)
        return np.asarray(np.log(predicted) - self.target[part])

    def residuals(self, x: Reals) -> Reals:
        """Weighted errors of every row, then how far each constant is from its prior."""
        found = (self.errors(x, np.arange(len(self.rows))) * WEIGHTS)[self.known]
        return np.concatenate([found / SOFT, x / self.spread])

    def slopes(self, x: Reals) -> Reals:
        """The residuals' slopes; a constant moves only the rows that it touches."""
        count = int(self.known.sum())
        place = np.full(self.known.shape, -1)
        place[self.known] = np.arange(count)
        result = np.zeros((count + len(self.free), len(self.free)))
        base = self.errors(x, np.arange(len(self.rows)))
        for k, hit in enumerate(self.places):
            moved = x.copy()
            moved[k] += STEP
            change = (self.errors(moved, hit) - base[hit]) * WEIGHTS / STEP / SOFT
            inside = self.known[hit]
            result[place[hit][inside], k] = change[inside]
            result[count + k, k] = 1.0 / self.spread[k]
        return result


def fit(
    plans: Schedules, rows: Ints, measured: Reals, start: Calibration, names: Sequence[str], rounds: int = 12
) -> Calibration:
    """The calibration that fits these rows best; measured: the four metrics of every run, NaN where there is none."""
    from scipy.optimize import least_squares

    problem = _Problem(plans, rows, measured, start, names)
    now = np.array([np.log(start[c.name] / c.prior) for c in problem.free])
    low = np.array([np.log(c.low / c.prior) for c in problem.free]) - 1e-9
    high = np.array([np.log(c.high / c.prior) for c in problem.free]) + 1e-9
    found = least_squares(
        problem.residuals,
        np.clip(now, low, high),
        problem.slopes,
        bounds=(low, high),
        loss="soft_l1",
        x_scale=0.3,
        max_nfev=rounds,
    )
    return problem.calibration(np.asarray(found.x))
