"""Fit the constants of the training model to published runs; needs SciPy.

Idea: alternate between constants (soft-L1 least squares on log step time, weak priors) and software
effects (robust ridge regression of the remaining log errors, solved in closed form inside).
Invariant: constants stay within their bounds; an effect without rows is 0.
Source: soft-L1 as in scipy.optimize.least_squares; ridge as a Gaussian prior on log effects.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import cast

import numpy as np

from gpuyard.perf.calibration import PATH, TrainingCalibration, effect_keys
from gpuyard.perf.chip_kernels import power_speed, ratio_keys, with_ratios
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.score import Index, inputs_of
from gpuyard.perf.training import step_time

RIDGE = {"family": 1.0, "profile": 1.0, "kind": 0.5, "moe": 0.7}  # rows of evidence for "no effect"
SOFT = 0.05  # log error beyond which a row counts linearly
HEADER = (
    "# Written by `python tools/fit_training.py`. start, low, high, prior: of the fit;"
    " value: its result.\n"
)


class _Space:
    """Names, bounds and starting values of the fitted parameters, from the calibration file."""

    def __init__(self) -> None:
        table = tomllib.loads(PATH.read_text(encoding="utf-8"))
        self.constants = [field.name for field in fields(TrainingConstants)]
        self.ratios = list(table["ratio"])
        self.cells = [
            *(table["constant"][name] for name in self.constants),
            *table["ratio"].values(),
        ]
        self.names = [*self.constants, *self.ratios]
        self.low = np.array([float(cell["low"]) for cell in self.cells])
        self.span = np.array([float(cell["high"]) for cell in self.cells]) - self.low
        self.start = np.array([float(cell["start"]) for cell in self.cells])
        self.prior = np.array([float(cell.get("prior", 1.0)) for cell in self.cells])

    def calibration(self, x: Array, effects: Mapping[str, float]) -> TrainingCalibration:
        """Return a parameter vector as a calibration."""
        values = dict(zip(self.names, x.tolist(), strict=True))
        return TrainingCalibration(
            constants=TrainingConstants(**{name: values[name] for name in self.constants}),
            ratios={name: values[name] for name in self.ratios},
            effects=effects,
        )

    def vector(self, calibration: TrainingCalibration) -> Array:
        constants = [float(getattr(calibration.constants, name)) for name in self.constants]
        return np.array(constants + [calibration.ratios[name] for name in self.ratios])


class _Subset:
    """Some rows, with the model evaluated on them for any constants."""

    def __init__(self, runs: PublishedRuns, rows: Index, space: _Space) -> None:
        self.space = space
        self.arch, self.layout, self.chip, self.soft = inputs_of(runs, rows)
        self.log_reference = np.log(runs.reference_s[rows])
        place = {name: index for index, name in enumerate(space.names)}
        keys = [ratio_keys(runs.silicon[i], runs.precisions[i]) for i in rows]
        self.gemm = np.array([place[key[0]] for key in keys])
        self.half = np.array([place[key[1]] for key in keys])
        self.factor = np.array([place[key[2]] if key[2] else -1 for key in keys])
        self.gain = np.array([runs.silicon[i].power_gain_ratio for i in rows])

    def log_time(self, x: Array, scalar: Array) -> Array:
        """Return log(step / scalar); the scalar matters where kernel launches bind."""
        constants = TrainingConstants(**dict(zip(self.space.constants, x.tolist(), strict=False)))
        factor = np.where(self.factor < 0, 1.0, x[self.factor])
        chip = with_ratios(
            self.chip, x[self.gemm], x[self.half], factor, power_speed(self.gain, constants)
        )
        step = step_time(self.arch, self.layout, chip, replace(self.soft, scalar=scalar), constants)
        return np.asarray(np.log(step.total_s / scalar), dtype=np.float64)


def _design(runs: PublishedRuns) -> tuple[Array, Array, list[str]]:
    """Return the design matrix (rows × effects), the ridge of each effect, and their names."""
    kinds = zip(runs.profiles, runs.arch.experts, strict=True)
    rows = [
        effect_keys(profile.family, profile.name, bool(experts > 0)) for profile, experts in kinds
    ]
    names = sorted({key for row in rows for key in row})
    place = {name: index for index, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)))
    for index, row in enumerate(rows):
        matrix[index, [place[key] for key in row]] = 1.0
    return matrix, np.array([RIDGE[name.split("|")[0]] for name in names]), names


def _effects(matrix: Array, ridge: Array, log_error: Array) -> Array:
    """Robust ridge regression of log errors on effects (iteratively reweighted)."""
    weight: Array = np.ones(len(log_error))
    effects: Array = np.zeros(matrix.shape[1])
    for _ in range(4):
        left = (matrix * weight[:, None]).T @ matrix + np.diag(ridge)
        effects = np.asarray(
            np.linalg.solve(left, matrix.T @ (weight * log_error)), dtype=np.float64
        )
        weight = 1.0 / np.sqrt(1.0 + ((log_error - matrix @ effects) / (1.2 * SOFT)) ** 2)
    return effects


def _settled(sub: _Subset, x: Array, matrix: Array, ridge: Array, effects: Array) -> Array:
    """Iterate effects to consistency with the launch overhead, which depends on them."""
    for _ in range(3):
        effects = _effects(
            matrix, ridge, sub.log_reference - sub.log_time(x, np.exp(matrix @ effects))
        )
    return effects


def fit(
    runs: PublishedRuns,
    rows: Index,
    start: TrainingCalibration | None = None,
    rounds: int = 2,
    evaluations: int = 40,
) -> TrainingCalibration:
    """Fit constants, ratios and effects to these rows."""
    space = _Space()
    sub = _Subset(runs, rows, space)
    design, ridge, names = _design(runs)
    matrix = design[rows]
    x = space.start if start is None else space.vector(start)
    effects = (
        np.array([start.effects.get(name, 0.0) for name in names])
        if start
        else np.zeros(len(names))
    )
    prior = (space.start - space.low) / space.span
    effects = _settled(sub, x, matrix, ridge, effects)
    for _ in range(rounds):
        held = np.exp(matrix @ effects)

        def residual(u: Array, held: Array = held) -> Array:
            """Return each row's log error after the effects, and the distance from the prior."""
            error = sub.log_reference - sub.log_time(space.low + u * space.span, held)
            left = (error - matrix @ _effects(matrix, ridge, error)) / SOFT
            return np.concatenate([left, space.prior * (u - prior)])

        u = np.clip((x - space.low) / space.span, 1e-3, 1.0 - 1e-3)
        x = space.low + _least_squares(residual, u, evaluations) * space.span
        effects = _settled(sub, x, matrix, ridge, effects)
    return space.calibration(x, dict(zip(names, effects.tolist(), strict=True)))


def refit(runs: PublishedRuns, rows: Index, start: TrainingCalibration) -> TrainingCalibration:
    """Return a quick fit that starts from another one."""
    return fit(runs, rows, start, rounds=1, evaluations=10)


def _least_squares(residual: Callable[[Array], Array], start: Array, evaluations: int) -> Array:
    """Return the vector in [0, 1] with the least soft-L1 residuals."""
    from scipy.optimize import least_squares

    solution = least_squares(
        residual,
        start,
        bounds=(0, 1),
        loss="soft_l1",
        max_nfev=evaluations,
        diff_step=np.full(len(start), 1e-3),
        x_scale=0.3,
    )
    return cast(Array, solution.x)


def calibration_text(calibration: TrainingCalibration, runs: PublishedRuns, rows: Index) -> str:
    """Return the calibration file with these values, their meanings and bounds."""
    space = _Space()
    parts = [HEADER]
    for index, (name, cell) in enumerate(zip(space.names, space.cells, strict=True)):
        table = "constant" if index < len(space.constants) else "ratio"
        lines = [f'[{table}."{name}"]', f"value = {space.vector(calibration)[index]:.6g}"]
        for key in ("start", "low", "high", "prior", "unit", "meaning"):
            if key in cell:
                lines.append(
                    f'{key} = "{cell[key]}"'
                    if isinstance(cell[key], str)
                    else f"{key} = {cell[key]:.6g}"
                )
        parts.append("\n".join(lines) + "\n")
    matrix, _, names = _design(runs)
    parts.append("[effect]  # natural logarithms; rows: how many published runs had it")
    for column in np.argsort(names):
        seen = int(matrix[rows, column].sum())
        if seen:
            parts.append(
                f'"{names[column]}" = {calibration.effects[names[column]]:.5f}  # rows {seen}'
            )
    return "\n".join(parts) + "\n"
