"""Errors of the step-time and memory models against published runs, in sample and with runs held out of the fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from gpuyard.perf.calibration import Calibration, scalar
from gpuyard.perf.layout import Architecture, Array, Layout, Machine, Software
from gpuyard.perf.memory import memory
from gpuyard.perf.runs import Runs
from gpuyard.perf.silicon import power_speed, ratio_keys, with_ratios
from gpuyard.perf.training import step_time

__all__ = [
    "Errors", "Fit", "Index", "Told", "errors", "hold_out_groups", "hold_out_sources", "predict", "predicted_bytes",
    "scored_rows", "source_of", "taken", "unheard",
]  # fmt: skip

Index = npt.NDArray[np.int64]
Fit = Callable[[Runs, Index, Calibration], Calibration]  # rows to fit on, and where to start
Told = Callable[[int, int], None]  # how many fits are done, of how many
GROUP_FOLDS = 8
POINTS = 3  # measured steps that set a stack's scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Mean, median and 90th percentile of |predicted / measured - 1|, and the bias; None without rows."""

    rows: int
    mean_abs_error: float | None
    median_abs_error: float | None
    p90_abs_error: float | None
    bias: float | None


def errors(predicted: Array, measured: Array) -> Errors:
    """Summary over the rows where both are known."""
    known = np.isfinite(predicted) & np.isfinite(measured)
    ratio = predicted[known] / measured[known] - 1.0
    if not len(ratio):
        return Errors(rows=0, mean_abs_error=None, median_abs_error=None, p90_abs_error=None, bias=None)
    size = np.abs(ratio)
    return Errors(
        rows=len(ratio),
        mean_abs_error=float(size.mean()),
        median_abs_error=float(np.median(size)),
        p90_abs_error=float(np.quantile(size, 0.9)),
        bias=float(ratio.mean()),
    )


def source_of(row_id: str) -> str:
    """The source a row belongs to: its id without the number (BLOOM's log and its prequel are one)."""
    return re.sub(r"-\d+[a-z]*$", "", row_id).replace("bloom-pre", "bloom")


def scored_rows(runs: Runs) -> Index:
    """Rows with a measured step time."""
    return np.flatnonzero(np.isfinite(runs.reference_s))


def taken(runs: Runs, rows: Index) -> tuple[Architecture, Layout, Machine, Software]:
    """The inputs of some rows."""
    arch = Architecture(**{f.name: getattr(runs.arch, f.name)[rows] for f in fields(Architecture)})
    layout = Layout(**{f.name: getattr(runs.layout, f.name)[rows] for f in fields(Layout)})
    chip = Machine(**{f.name: getattr(runs.chip, f.name)[rows] for f in fields(Machine)})
    soft = Software(**{f.name: getattr(runs.soft, f.name)[rows] for f in fields(Software)})
    return arch, layout, chip, soft


def predict(runs: Runs, calibration: Calibration, rows: Index, multiply: float = 1.0) -> Array:
    """Seconds of a step for some rows; `multiply` adjusts their scalars."""
    arch, layout, chip, soft = taken(runs, rows)
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


def predicted_bytes(runs: Runs) -> Array:
    """Memory of the fullest chip, for every row."""
    return memory(runs.arch, runs.layout, runs.chip, runs.soft).total_bytes


def unheard(_done: int, _total: int) -> None:
    """Progress that nobody follows."""


def hold_out_groups(runs: Runs, start: Calibration, fit: Fit, seed: int = 0, told: Told = unheard) -> Array:
    """Predictions with whole (source, model, chip) groups left out of the fit."""
    rows = scored_rows(runs)
    group = np.array([f"{source_of(row['id'])}|{row['model']}|{row['chip']}" for row in runs.rows])
    names = np.unique(group[rows])
    np.random.default_rng(seed).shuffle(names)
    fold = {name: index % GROUP_FOLDS for index, name in enumerate(names)}
    result = np.full(len(runs.rows), np.nan)
    for number in range(GROUP_FOLDS):
        told(number, GROUP_FOLDS)
        test = np.array([i for i in rows if fold[group[i]] == number], dtype=np.int64)
        result[test] = predict(runs, fit(runs, np.setdiff1d(rows, test), start), test)
    return result


def hold_out_sources(runs: Runs, start: Calibration, fit: Fit, told: Told = unheard) -> tuple[Array, Array]:
    """Predictions with a whole source left out: as they are, and with each stack's scalar set from three rows.

    The three, spread evenly over the source's rows of a stack, are not scored; nor are stacks of that few rows.
    """
    rows = scored_rows(runs)
    source = np.array([source_of(row["id"]) for row in runs.rows])
    kinds = zip(runs.profiles, runs.arch.experts, strict=True)
    stack = np.array([f"{profile.name}|{experts > 0}" for profile, experts in kinds])
    bare, tuned = np.full(len(runs.rows), np.nan), np.full(len(runs.rows), np.nan)
    names = np.unique(source[rows])
    for number, name in enumerate(names):
        told(number, len(names))
        test = rows[source[rows] == name]
        found = fit(runs, np.setdiff1d(rows, test), start)
        bare[test] = predict(runs, found, test)
        for own in (test[stack[test] == item] for item in np.unique(stack[test])):
            if len(own) <= POINTS:
                continue
            known = own[np.linspace(0, len(own) - 1, POINTS).astype(int)]
            rest = np.setdiff1d(own, known)
            tuned[rest] = predict(runs, found, rest, float(np.median(runs.reference_s[known] / bare[known])))
    return bare, tuned
