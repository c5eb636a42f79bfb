"""Errors of the training model on published runs, in sample and held out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from gpuyard.perf.calibration import TrainingCalibration, scalar
from gpuyard.perf.chip_kernels import power_speed, ratio_keys, with_ratios
from gpuyard.perf.layout import Architecture, Array, Layout, Software, TrainingChip
from gpuyard.perf.memory import memory
from gpuyard.perf.published_run import Row
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.training import step_time

Index = npt.NDArray[np.int64]
# Arguments: runs, rows to fit on, starting values.
Fit = Callable[[PublishedRuns, Index, TrainingCalibration], TrainingCalibration]
OnProgress = Callable[[int, int], None]  # fits done, fits in all
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


def errors(predicted: Array, measured: Array, error_ratio: Array | None = None) -> ErrorStats:
    """Return the errors over the rows where both values are known.

    error_ratio: error bars at 90 %, on a log scale; without them there is no coverage.
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
        # Tolerance of rounding: a measurement on the bound counts as inside.
        bound = np.log1p(error_ratio[known]) + 1e-12
        coverage = float((np.abs(np.log(predicted[known] / measured[known])) <= bound).mean())
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
    """Return predicted step times of some rows; `multiply` adjusts their scalars."""
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
    return step_time(arch, layout, chip, soft, calibration.constants).total_s


def predicted_bytes(runs: PublishedRuns) -> Array:
    """Return the predicted peak memory per chip of every row."""
    return memory(runs.arch, runs.layout, runs.chip, runs.soft).total_bytes


def ignore_progress(_done: int, _total: int) -> None:
    """Do nothing."""


def hold_out_groups(
    runs: PublishedRuns,
    start: TrainingCalibration,
    fit: Fit,
    seed: int = 0,
    on_progress: OnProgress = ignore_progress,
) -> Array:
    """Return predictions with each row's (source, model, chip) group held out of the fit."""
    rows = scored_rows(runs)
    group = np.array([group_of(row) for row in runs.rows])
    names = np.unique(group[rows])
    np.random.default_rng(seed).shuffle(names)
    fold = {name: index % GROUP_FOLDS for index, name in enumerate(names)}
    result = np.full(len(runs.rows), np.nan)
    for number in range(GROUP_FOLDS):
        on_progress(number, GROUP_FOLDS)
        test = np.array([i for i in rows if fold[group[i]] == number], dtype=np.int64)
        result[test] = predict(runs, fit(runs, np.setdiff1d(rows, test), start), test)
    return result


def hold_out_sources(
    runs: PublishedRuns,
    start: TrainingCalibration,
    fit: Fit,
    on_progress: OnProgress = ignore_progress,
) -> tuple[Array, Array]:
    """Return predictions with each source held out, without and with a scalar per stack.

    The scalar is fitted to three rows, spread evenly over the source's rows of a stack. They are
    not scored, nor are stacks with no more rows than that.
    """
    rows = scored_rows(runs)
    source = np.array([source_of(row["id"]) for row in runs.rows])
    kinds = zip(runs.profiles, runs.arch.experts, strict=True)
    stack = np.array([f"{profile.name}|{experts > 0}" for profile, experts in kinds])
    bare, tuned = np.full(len(runs.rows), np.nan), np.full(len(runs.rows), np.nan)
    names = np.unique(source[rows])
    for number, name in enumerate(names):
        on_progress(number, len(names))
        test = rows[source[rows] == name]
        fitted = fit(runs, np.setdiff1d(rows, test), start)
        bare[test] = predict(runs, fitted, test)
        for own in (test[stack[test] == item] for item in np.unique(stack[test])):
            if len(own) <= POINTS:
                continue
            known = own[np.linspace(0, len(own) - 1, POINTS).astype(int)]
            rest = np.setdiff1d(own, known)
            ratio = float(np.median(runs.reference_s[known] / bare[known]))
            tuned[rest] = predict(runs, fitted, rest, ratio)
    return bare, tuned
