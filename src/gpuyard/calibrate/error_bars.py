"""Error bars of the training model from held-out predictions.

Idea: every run is predicted by fits with its group (source, model and chip), its software release,
its source or its chip held out, and every recent run by a fit to the runs of earlier half-years, as
the next release will be. The quantiles of the errors at each distance, by kind of run, are
the error bars of new cases at that distance. A group of n rows has the weight of √n rows, so that
one large table does not dominate.
Invariant: bars contain 0 and do not narrow with distance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.calibration import TrainingCalibration
from gpuyard.perf.error_bars import KINDS, LEVELS, ErrorBar, Level, RunKind, cell_of, run_kind
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.score import (
    Fit,
    OnProgress,
    group_folds,
    hold_out,
    ignore_progress,
    predict,
    scored_rows,
    source_of,
)

TAIL = 0.05  # on either side of a bar
OWN_ROWS = 20  # a profile with N rows of a kind has its own bar for further runs
LATER_ROWS = 20  # a kind with N later runs has a bar of its own for them
EARLIER_SHARE = 0.5  # of the runs, for a fit that predicts later ones
MIN_ERROR = 0.02  # log error between repeated measurements of one system
# Errors of held-out groups are spread by this factor over errors in the fit.
HELD_OUT_SPREAD = 1.15
HEADER = """\
# Written by `make refit`: 5 % and 95 % quantiles of log(measured / predicted) of held-out runs, by
# distance from the fit and kind of run (perf/error_bars.py says what the distances are).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutSteps:
    """Predicted step times by fits with similar runs held out; NaN where unscored."""

    fitted: Array
    by_level: Mapping[Level, Array]
    later: Array  # by fits to earlier half-years


def held_out_steps(
    runs: PublishedRuns,
    calibration: TrainingCalibration,
    fit: Fit,
    on_progress: OnProgress = ignore_progress,
) -> HeldOutSteps:
    """Return step times with groups, releases, sources and chips held out."""
    rows = scored_rows(runs)
    fitted = np.full(len(runs.rows), np.nan)
    fitted[rows] = predict(runs, calibration, rows)
    keys: dict[Level, Sequence[str]] = {
        "group": group_folds(runs),
        "release": [profile.name for profile in runs.profiles],
        "stack": [source_of(row["id"]) for row in runs.rows],
        "chip": [silicon.ratio for silicon in runs.silicon],
    }
    return HeldOutSteps(
        fitted=fitted,
        by_level={
            level: hold_out(runs, names, calibration, fit, on_progress)
            for level, names in keys.items()
        },
        later=later_steps(runs, calibration, fit),
    )


def later_steps(runs: PublishedRuns, calibration: TrainingCalibration, fit: Fit) -> Array:
    """Return step times predicted by fits to the runs of earlier half-years; NaN for early runs.

    At least half of the runs have to be earlier: a fit to fewer is not today's.
    """
    rows = scored_rows(runs)
    period = np.array([half_year(row["measured_on"]) for row in runs.rows])
    result = np.full(len(runs.rows), np.nan)
    for name in np.unique(period[rows]):
        earlier, test = rows[period[rows] < name], rows[period[rows] == name]
        if len(earlier) >= EARLIER_SHARE * len(rows):
            result[test] = predict(runs, fit(runs, earlier, calibration), test)
    return result


def half_year(date: str) -> str:
    """Return the half-year in which a date ("2025-10", "2024-2025", "2025-10..2025-11") begins."""
    match = re.match(r"(\d{4})(?:-(\d\d)(?!\d))?", date)
    if match is None:
        return ""
    return f"{match[1]}-{2 if (match[2] or '') > '06' else 1}"


def kinds_of(runs: PublishedRuns) -> list[RunKind]:
    """Return the kind of every run."""
    cells = zip(runs.silicon, runs.arch.experts > 0, runs.arch.trains_weights == 0, strict=True)
    return [run_kind(silicon, bool(moe), bool(adapters)) for silicon, moe, adapters in cells]


def training_error_bars(runs: PublishedRuns, steps: HeldOutSteps) -> dict[str, ErrorBar]:
    """Return error bars by level and kind, and those of profiles with many rows."""
    rows = scored_rows(runs)
    kinds = np.array(kinds_of(runs))
    profiles = np.array([profile.name for profile in runs.profiles])
    near = np.log(runs.reference_s / steps.fitted) * HELD_OUT_SPREAD
    bars: dict[str, ErrorBar] = {}
    for kind in KINDS:
        own = rows[kinds[rows] == kind]
        last = bars[f"run|{kind}"] = _bar(near[own], profiles[own])
        for level in LEVELS[1:]:
            error = np.log(runs.reference_s / steps.by_level[level])[own]
            clusters = np.array([source_of(runs.rows[i]["id"]) for i in own])
            bar = _bar(error, clusters if level in ("stack", "chip") else profiles[own])
            if level == "release":
                bar = _wider(bar, np.log(runs.reference_s / steps.later)[own], profiles[own])
            last = ErrorBar(low=min(bar.low, last.low), high=max(bar.high, last.high))
            bars[f"{level}|{kind}"] = last
        for name in np.unique(profiles[own]):
            same = own[profiles[own] == name]
            if len(same) >= OWN_ROWS:
                bars[f"run|{kind}|{name}"] = _bar(near[same], profiles[same])
    return bars


def _wider(bar: ErrorBar, errors: Array, clusters: npt.NDArray[np.str_]) -> ErrorBar:
    """Return a bar that also holds the known ones of these errors."""
    known = np.isfinite(errors)
    if known.sum() < LATER_ROWS:
        return bar
    own = _bar(errors[known], clusters[known])
    return ErrorBar(low=min(bar.low, own.low), high=max(bar.high, own.high))


def _bar(errors: Array, clusters: Sequence[str] | npt.NDArray[np.str_]) -> ErrorBar:
    low, high = (weighted_quantile(errors, clusters, share) for share in (TAIL, 1.0 - TAIL))
    return ErrorBar(low=min(low, -MIN_ERROR), high=max(high, MIN_ERROR))


def weighted_quantile(
    values: Array, clusters: Sequence[str] | npt.NDArray[np.str_], share: float
) -> float:
    """Return a quantile in which a cluster of n values weighs as much as √n."""
    _, place, counts = np.unique(np.asarray(clusters), return_inverse=True, return_counts=True)
    order = np.argsort(values)
    weight = (1.0 / np.sqrt(counts))[place][order]
    middle = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    return float(np.interp(share, middle, values[order]))


def measured_cells(runs: PublishedRuns) -> list[str]:
    """Return the measured combinations of profile, chip and kind of run, sorted."""
    kinds = kinds_of(runs)
    return sorted({cell_of(runs.silicon[i], runs.profiles[i], kinds[i]) for i in scored_rows(runs)})


def error_bars_text(bars: Mapping[str, ErrorBar], cells: Sequence[str]) -> str:
    """Return the data file."""
    sections = [HEADER]
    for name, bar in bars.items():
        sections.append(f'[bar."{name}"]\nlow = {bar.low:.4f}\nhigh = {bar.high:.4f}\n')
    lines = "".join(f'  "{cell}",\n' for cell in cells)
    sections.append(f"[measured]  # profile, chip and kind of run\ncells = [\n{lines}]\n")
    return "\n".join(sections)
