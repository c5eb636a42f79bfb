"""Errors of the training model on published runs, in sample and held out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from gpuyard.perf.calibration import TrainingCalibration, scalar
from gpuyard.perf.chip_kernels import power_speed, ratio_keys, with_ratios
from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.memory import memory
from gpuyard.perf.published_run import Row
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.training import StepTime, step_time

Index = npt.NDArray[np.int64]
# Arguments: runs, rows to fit on, starting values.
Fit = Callable[[PublishedRuns, Index, TrainingCalibration], TrainingCalibration]
OnProgress = Callable[[int, int], None]  # fits done, fits in total
GROUP_FOLDS = 8
POINTS = 3  # measured steps that a stack's scalar is fitted to


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStats:
    """Mean, median, 90th percentile of |predicted / measured - 1|, and bias; None without rows."""

    rows: int
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None
    coverage: float | None = None  # share of measured values inside the stated 90 % interval


def errors(
    predicted: Array,
    measured: Array,
    error_ratio: Array | None = None,
    bounds: tuple[Array, Array] | None = None,
) -> ErrorStats:
    """Return the errors over the rows where both values are known.

    error_ratio: symmetric error bars at 90 %; bounds: logs of the lower and upper bound of
    measured over predicted instead. Without either there is no coverage.
    """
    known = np.isfinite(predicted) & np.isfinite(measured)
    ratio = predicted[known] / measured[known] - 1.0
    if not len(ratio):
        return ErrorStats(
            rows=0, mean_abs_error=None, median_abs_error=None, p90_abs_error=None, bias=None
        )
    size = np.abs(ratio)
    coverage = None
    if error_ratio is not None:
        bounds = -np.log1p(error_ratio), np.log1p(error_ratio)
    if bounds is not None:
        # Tolerance of rounding: a measurement on the bound counts as inside.
        log = -np.log1p(ratio)
        coverage = float(
            ((bounds[0][known] - 1e-12 <= log) & (log <= bounds[1][known] + 1e-12)).mean()
        )
    return ErrorStats(
        rows=len(ratio),
        mean_abs_error=float(size.mean()),
        median_abs_error=float(np.median(size)),
        p90_abs_error=float(np.quantile(size, 0.9)),
        bias=float(ratio.mean()),
        coverage=coverage,
    )


def source_of(row_id: str) -> str:
    """Return the source of a row: its id without the number; BLOOM's two logs are one."""
    return re.sub(r"-\d+[a-z]*$", "", row_id).replace("bloom-pre", "bloom")


def group_of(row: Row) -> str:
    """Return the group of a row: its source, model and chip."""
    return f"{source_of(row['id'])}|{row['model']}|{row['chip']}"


def scored_rows(runs: PublishedRuns) -> Index:
    """Return the rows with a measured step time."""
    return np.flatnonzero(np.isfinite(runs.reference_s))


def inputs_of(
    runs: PublishedRuns, rows: Index
) -> tuple[Architecture, Layout, TrainingChip, Software]:
    """Return the model inputs of some rows."""
    arch = Architecture(**{f.name: getattr(runs.arch, f.name)[rows] for f in fields(Architecture)})
    layout = Layout(**{f.name: getattr(runs.layout, f.name)[rows] for f in fields(Layout)})
    chip = TrainingChip(**{f.name: getattr(runs.chip, f.name)[rows] for f in fields(TrainingChip)})
    soft = Software(**{f.name: getattr(runs.soft, f.name)[rows] for f in fields(Software)})
    return arch, layout, chip, soft


def predict(
    runs: PublishedRuns, calibration: TrainingCalibration, rows: Index, multiply: float = 1.0
) -> Array:
    """Return predicted step times of some rows; `multiply` scales their device time."""
    return predicted_step(runs, calibration, rows, multiply).total_s


def predicted_step(
    runs: PublishedRuns, calibration: TrainingCalibration, rows: Index, multiply: float = 1.0
) -> StepTime:
    """Return the terms of the predicted steps of some rows."""
    arch, layout, chip, soft = inputs_of(runs, rows)
    keys = [ratio_keys(runs.silicon[i], runs.precisions[i]) for i in rows]
    gain = np.array([runs.silicon[i].power_gain_ratio for i in rows])
    chip = with_ratios(
        chip,
        np.array([calibration.ratios[key[0]] for key in keys]),
        np.array([calibration.ratios[key[1]] for key in keys]),
        np.array([calibration.ratios[key[2]] if key[2] else 1.0 for key in keys]),
        power_speed(gain, calibration.constants),
    )
    scalars = [scalar(calibration, runs.profiles[i], bool(runs.arch.experts[i] > 0)) for i in rows]
    soft = replace(soft, scalar=np.array(scalars) * multiply)
    return step_time(arch, layout, chip, soft, calibration.constants)


def predicted_bytes(runs: PublishedRuns) -> Array:
    """Return the predicted peak memory per chip of every row."""
    return memory(runs.arch, runs.layout, runs.chip, runs.soft).total_bytes


def ignore_progress(_done: int, _total: int) -> None:
    """Do nothing."""


def hold_out(
    runs: PublishedRuns,
    names: Sequence[str],
    start: TrainingCalibration,
    fit: Fit,
    on_progress: OnProgress = ignore_progress,
) -> Array:
    """Return predictions of every row by a fit with the rows of the same name held out."""
    rows, name_of = scored_rows(runs), np.array(names)
    result = np.full(len(runs.rows), np.nan)
    distinct = np.unique(name_of[rows])
    for number, name in enumerate(distinct):
        on_progress(number, len(distinct))
        test = rows[name_of[rows] == name]
        result[test] = predict(runs, fit(runs, np.setdiff1d(rows, test), start), test)
    return result


def group_folds(runs: PublishedRuns, seed: int = 0) -> list[str]:
    """Return the fold of every row; rows of one source, model and chip are in one fold."""
    groups = [group_of(row) for row in runs.rows]
    names = np.unique(groups)
    np.random.default_rng(seed).shuffle(names)
    fold = {name: str(index % GROUP_FOLDS) for index, name in enumerate(names)}
    return [fold[group] for group in groups]


def three_points(runs: PublishedRuns, bare: Array) -> Array:
    """Return held-out predictions scaled per software stack by three measured rows.

    The three rows are spread evenly over the source's rows of a stack. They are not scored, nor are
    stacks with three rows or fewer.
    """
    rows = scored_rows(runs)
    cells = zip(runs.rows, runs.profiles, runs.arch.experts > 0, strict=True)
    stack = np.array([f"{source_of(row['id'])}|{own.name}|{moe}" for row, own, moe in cells])
    tuned = np.full(len(runs.rows), np.nan)
    for own in (rows[stack[rows] == name] for name in np.unique(stack[rows])):
        if len(own) <= POINTS:
            continue
        known = own[np.linspace(0, len(own) - 1, POINTS).astype(int)]
        rest = np.setdiff1d(own, known)
        tuned[rest] = bare[rest] * float(np.median(runs.reference_s[known] / bare[known]))
    return tuned
