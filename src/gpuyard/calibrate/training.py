"""Fit the constants of the training model to published runs.

Idea: one fit of all constants, GEMM ratios and software effects on the log of the step time
(calibrate/gauss_newton.py).
Invariant: the same rows give the same fit, whatever the start; an effect without rows is 0.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np

from gpuyard.calibrate.gauss_newton import (
    LOOSE_TOLERANCE,
    STEP,
    TOLERANCE,
    ConstantScale,
    FittedParameter,
    row_weights,
    solve,
)
from gpuyard.perf.calibration import PATH, TrainingCalibration, effect_keys
from gpuyard.perf.chip_kernels import power_speed, ratio_keys, with_ratios
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.score import Index, group_of, inputs_of, source_of
from gpuyard.perf.training import step_time

SOFT = 0.05  # log error beyond which a row counts linearly
# Prior standard deviation of an effect, on a log scale: family, release after release, MoE.
EFFECT_SPREAD = {"family": 0.05, "profile": 0.05, "kind": 0.07, "moe": 0.06}
HEADER = """\
# Written by `make refit`. value, standard_error: of the fit. start, spread: centre and deviation
# of the prior, on a log scale, or on a logit scale below the physical limit. effect: on the log of
# a software stack's scalar; rows: published runs that have it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFit:
    """Result of a fit, with its uncertainty."""

    calibration: TrainingCalibration
    parameters: tuple[FittedParameter, ...]


class ParameterSpace:
    """Constants and ratios of the calibration file as unbounded numbers with a standard prior."""

    def __init__(self) -> None:
        table = tomllib.loads(PATH.read_text(encoding="utf-8"))
        self.constants = [field.name for field in fields(TrainingConstants)]
        self.ratios = list(table["ratio"])
        self.cells = [
            *(table["constant"][name] for name in self.constants),
            *table["ratio"].values(),
        ]
        self.names = [*self.constants, *self.ratios]
        self.scale = ConstantScale(self.cells)

    def calibration(self, u: Array, effects: Mapping[str, float]) -> TrainingCalibration:
        """Return a point as a calibration."""
        values = dict(zip(self.names, self.scale.values(u).tolist(), strict=True))
        return TrainingCalibration(
            constants=TrainingConstants(**{name: values[name] for name in self.constants}),
            ratios={name: values[name] for name in self.ratios},
            effects=effects,
        )

    def point_of(self, calibration: TrainingCalibration) -> Array:
        """Return a calibration as a point."""
        constants = [float(getattr(calibration.constants, name)) for name in self.constants]
        return self.scale.point(
            np.array(constants + [calibration.ratios[key] for key in self.ratios])
        )


class _Subset:
    """The training model on some rows, as a function of the constants."""

    def __init__(self, runs: PublishedRuns, rows: Index, space: ParameterSpace) -> None:
        self.space = space
        self.arch, self.layout, self.chip, self.soft = inputs_of(runs, rows)
        self.log_reference = np.log(runs.reference_s[rows])
        place = {name: index for index, name in enumerate(space.names)}
        keys = [ratio_keys(runs.silicon[i], runs.precisions[i]) for i in rows]
        self.gemm = np.array([place[key[0]] for key in keys])
        self.half = np.array([place[key[1]] for key in keys])
        self.factor = np.array([place[key[2]] if key[2] else -1 for key in keys])
        self.gain = np.array([runs.silicon[i].power_gain_ratio for i in rows])

    def log_time(self, u: Array, log_scalar: Array) -> Array:
        """Return the log of the step time."""
        x = self.space.scale.values(u)
        constants = TrainingConstants(**dict(zip(self.space.constants, x.tolist(), strict=False)))
        factor = np.where(self.factor < 0, 1.0, x[self.factor])
        chip = with_ratios(
            self.chip, x[self.gemm], x[self.half], factor, power_speed(self.gain, constants)
        )
        soft = replace(self.soft, scalar=np.exp(log_scalar))
        step = step_time(self.arch, self.layout, chip, soft, constants)
        return np.asarray(np.log(step.total_s), dtype=np.float64)

    def slopes(self, u: Array, design: Array, effects: Array) -> tuple[Array, Array]:
        """Return the log step times and their derivatives by constants, ratios and effects."""
        log_scalar = design @ effects
        here = self.log_time(u, log_scalar)
        columns = []
        for index in range(len(u)):
            there = u.copy()
            there[index] += STEP
            columns.append((self.log_time(there, log_scalar) - here) / STEP)
        by_scalar = (self.log_time(u, log_scalar + STEP) - here) / STEP
        return here, np.column_stack([*columns, by_scalar[:, None] * design])


def _design(runs: PublishedRuns, rows: Index) -> tuple[Array, list[str]]:
    """Return the design matrix (rows × effects) and the names of the effects."""
    chosen = [effect_keys(runs.profiles[i], bool(runs.arch.experts[i] > 0)) for i in rows]
    names = sorted({key for keys in chosen for key in keys})
    place = {name: index for index, name in enumerate(names)}
    matrix = np.zeros((len(rows), len(names)))
    for index, keys in enumerate(chosen):
        matrix[index, [place[key] for key in keys]] = 1.0
    return matrix, names


def fit_training(
    runs: PublishedRuns,
    rows: Index,
    start: TrainingCalibration | None = None,
    tolerance: float = TOLERANCE,
) -> TrainingFit:
    """Fit constants, ratios and effects to these rows, with standard errors."""
    space = ParameterSpace()
    subset = _Subset(runs, rows, space)
    design, names = _design(runs, rows)
    sd = np.array([EFFECT_SPREAD[name.split("|")[0]] for name in names])
    count = len(space.names)
    penalty = np.concatenate([np.ones(count), 1.0 / sd**2])
    point = np.zeros(count + len(names))
    if start is not None:
        point[:count] = space.point_of(start)
        point[count:] = [start.effects.get(name, 0.0) for name in names]
    solution = solve(
        lambda point: subset.slopes(point[:count], design, point[count:]),
        subset.log_reference,
        point,
        penalty,
        row_weights([source_of(runs.rows[i]["id"]) for i in rows]),
        SOFT,
        tolerance,
    )
    constants, effects = solution.point[:count], solution.point[count:]
    values = np.concatenate([space.scale.values(constants), effects])
    errors = solution.standard_errors([group_of(runs.rows[i]) for i in rows])
    errors[:count] *= space.scale.slopes(constants)
    return TrainingFit(
        calibration=space.calibration(constants, dict(zip(names, effects.tolist(), strict=True))),
        parameters=tuple(
            FittedParameter(name=name, value=value, standard_error=error, prior_z=z)
            for name, value, error, z in zip(
                [*space.names, *names],
                values.tolist(),
                errors.tolist(),
                (solution.point * np.sqrt(penalty)).tolist(),
                strict=True,
            )
        ),
    )


def refit(runs: PublishedRuns, rows: Index, start: TrainingCalibration) -> TrainingCalibration:
    """Return the calibration of these rows; a start near the solution saves rounds."""
    return fit_training(runs, rows, start, tolerance=LOOSE_TOLERANCE).calibration


def calibration_text(fit: TrainingFit, runs: PublishedRuns, rows: Index) -> str:
    """Return the calibration file with these values, their standard errors and their priors."""
    space = ParameterSpace()
    known = {item.name: item for item in fit.parameters}
    sections = [HEADER]
    for index, (name, cell) in enumerate(zip(space.names, space.cells, strict=True)):
        table = "constant" if index < len(space.constants) else "ratio"
        lines = [f'[{table}."{name}"]', *known.pop(name).lines()]
        for key in ("start", "spread", "limit", "unit", "meaning"):
            if key in cell:
                text = f'"{cell[key]}"' if isinstance(cell[key], str) else f"{cell[key]:.6g}"
                lines.append(f"{key} = {text}")
        sections.append("\n".join(lines) + "\n")
    design, names = _design(runs, rows)
    for name, count in zip(names, design.sum(axis=0).astype(int), strict=True):
        sections.append("\n".join([f'[effect."{name}"]', *known[name].lines()]))
        sections.append(f"rows = {count}\n")
    return "\n".join(sections)
