"""Fit the constants of the NCCL time model to published measurements.

Idea: the fit of the training model (calibrate/gauss_newton.py), on the log of a collective's time.
Systems of one provider's table are one family and are held out together.
Invariant: the same rows give the same constants, whatever the start.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.calibrate.error_bars import HELD_OUT_SPREAD, TAIL, weighted_quantile
from gpuyard.calibrate.gauss_newton import (
    LOOSE_TOLERANCE,
    STEP,
    TOLERANCE,
    ConstantScale,
    FittedParameter,
    row_weights,
    solve,
)
from gpuyard.perf.error_bars import ErrorBar
from gpuyard.perf.layout import Array
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, NcclConstants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective
from gpuyard.simulate.collectives.score import (
    CollectiveScore,
    collective_level,
    network_of,
    predicted_s,
    score_measured,
    score_rows,
)

SOFT = 0.08  # log error beyond which a row counts linearly
MIN_ROWS = 10  # of a level, for its own error bar
SIZES = ("small", "medium", "large", "unnamed")
LEVELS = (*SIZES, *(f"{size}-unmeasured" for size in SIZES))
HEADER = """\
# Constants of the NCCL time model (simulate/collectives/timing.py), written by `make refit`. value,
# standard_error: of the fit; start, spread: centre and deviation of the prior, on a log scale, or
# on a logit scale below the physical limit. A constant without a spread is not fitted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFit:
    """Result of a fit, with its uncertainty."""

    constants: NcclConstants
    parameters: tuple[FittedParameter, ...]


def family_of(item: MeasuredCollective) -> str:
    """Return the family of a measurement: a machine type of one provider."""
    return item.system.split("(")[0].split(" k8s")[0].split(" VM")[0].strip()


def fit_collectives(
    items: Sequence[MeasuredCollective],
    start: NcclConstants | None = None,
    tolerance: float = TOLERANCE,
) -> CollectiveFit:
    """Fit the constants to measurements, with standard errors."""
    table = tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8"))
    free = [name for name, cell in table.items() if "spread" in cell]
    fixed = {name: float(cell["value"]) for name, cell in table.items()}
    scale = ConstantScale([table[name] for name in free])

    def constants(point: Array) -> NcclConstants:
        values = dict(zip(free, scale.values(point).tolist(), strict=True))
        return NcclConstants(values=fixed | values)

    def slopes(point: Array) -> tuple[Array, Array]:
        here = np.log(predicted_s(items, constants(point)))
        columns = []
        for index in range(len(point)):
            there = point.copy()
            there[index] += STEP
            columns.append((np.log(predicted_s(items, constants(there))) - here) / STEP)
        return here, np.column_stack(columns)

    families = [family_of(item) for item in items]
    known = np.array([start.values[name] for name in free]) if start else None
    solution = solve(
        slopes,
        np.log([item.time_s for item in items]),
        np.zeros(len(free)) if known is None else scale.point(known),
        np.ones(len(free)),
        row_weights(families),
        SOFT,
        tolerance,
    )
    errors = solution.standard_errors(families) * scale.slopes(solution.point)
    return CollectiveFit(
        constants=constants(solution.point),
        parameters=tuple(
            FittedParameter(name=name, value=value, standard_error=error, prior_z=z)
            for name, value, error, z in zip(
                free,
                scale.values(solution.point).tolist(),
                errors.tolist(),
                solution.point.tolist(),
                strict=True,
            )
        ),
    )


def hold_out_families(items: Sequence[MeasuredCollective], start: NcclConstants) -> CollectiveScore:
    """Return predictions of every family by constants fitted without it."""
    rows = []
    for name in dict.fromkeys(family_of(item) for item in items):
        own = [item for item in items if family_of(item) == name]
        others = [item for item in items if family_of(item) != name]
        fitted = fit_collectives(others, start, LOOSE_TOLERANCE).constants
        known = frozenset(network_of(item) for item in others)
        score = score_measured(own, (), fitted)
        rows += [replace(row, level=collective_level(row.measured, known)) for row in score.rows]
    order = {id(item): place for place, item in enumerate(items)}
    return score_rows(tuple(sorted(rows, key=lambda row: order[id(row.measured)])), ())


def collective_error_bars(
    held_out: CollectiveScore, fitted: CollectiveScore
) -> dict[str, ErrorBar]:
    """Return the error bars of collectives by level.

    Args:
        held_out: each family predicted without it.
        fitted: the same rows in the same order, predicted by the fit to all of them. A network that
            one family alone has is near the fit once its rows are in it, so its errors in the fit,
            somewhat wider, count for the near levels.
    """
    samples: dict[str, list[tuple[str, float]]] = {level: [] for level in LEVELS}
    for row, own in zip(held_out.rows, fitted.rows, strict=True):
        if row.measured.coarse:
            continue
        family = family_of(row.measured)
        samples[row.level].append((family, float(np.log(row.measured.time_s / row.predicted_s))))
        if row.level != own.level:
            error = float(np.log(own.measured.time_s / own.predicted_s))
            samples[own.level].append((family, HELD_OUT_SPREAD * error))
    bars: dict[str, ErrorBar] = {}
    for level in LEVELS:
        near = bars.get(level.removesuffix("-unmeasured"))
        if len(samples[level]) < MIN_ROWS:
            if near is not None:
                bars[level] = near.widened(2.0)
            continue
        families, errors = zip(*samples[level], strict=True)
        low, high = (
            weighted_quantile(np.array(errors), families, share) for share in (TAIL, 1.0 - TAIL)
        )
        bar = ErrorBar(low=min(low, 0.0), high=max(high, 0.0))
        bars[level] = bar.hull(near) if near else bar
    return {f"{level}|collective": bar for level, bar in bars.items()}


def constants_text(fit: CollectiveFit, rows: int) -> str:
    """Return the data file of the constants."""
    table = tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8"))
    known = {item.name: item for item in fit.parameters}
    sections = [f"{HEADER}# Fitted on {rows} published rows; the rows name their sources.\n"]
    for name, cell in table.items():
        lines = list(known[name].lines()) if name in known else [f"value = {cell['value']:g}"]
        for key in ("start", "spread", "limit", "unit", "meaning"):
            if key in cell:
                text = f'"{cell[key]}"' if isinstance(cell[key], str) else f"{cell[key]:.6g}"
                lines.append(f"{key} = {text}")
        sections.append("\n".join([f'["{name}"]', *lines]) + "\n")
    return "\n".join(sections)
