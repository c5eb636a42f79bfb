"""Error bars of the training model from held-out predictions.

Idea: every run is predicted by fits with its group (source, model and chip), its model, its
software release, its source or its chip held out, and every recent run by a fit to the runs of
earlier half-years, as the next release will be. The error bar at a distance is the split conformal
one of the errors at that distance, by kind of run: each run counts once, and the quantile is the
order statistic that covers the next of n + 1 exchangeable runs. Errors of one source share a sign.
A kind with few sources cannot say which sign the next source has, so its bars hold the sizes of
errors, on both sides.
Invariant: bars contain 0 and do not narrow with distance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.calibration import TrainingCalibration
from gpuyard.perf.error_bars import (
    KINDS,
    LEVELS,
    ErrorBar,
    ErrorBars,
    Level,
    RunKind,
    cell_of,
    model_key,
    run_kind,
)
from gpuyard.perf.layout import Array
from gpuyard.perf.runs import PublishedRuns
from gpuyard.perf.score import (
    Fit,
    Index,
    OnProgress,
    group_folds,
    group_of,
    hold_out,
    ignore_progress,
    predict,
    scored_rows,
    source_of,
)

TAIL = 0.05  # on either side of a bar
OWN_ROWS = 20  # a profile with N rows of a kind has its own bar for further runs
FEW_SOURCES = 5.0  # effective number below which both sides of a bar are equally long
EARLIER_SHARE = 0.5  # of the runs, for a fit that predicts later ones
TAIL_ROWS = 40  # with fewer, the quantile of one tail would be about its largest error
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
    model: Array  # by fits without the model
    later: Array  # by fits to earlier half-years


def held_out_steps(
    runs: PublishedRuns,
    calibration: TrainingCalibration,
    fit: Fit,
    on_progress: OnProgress = ignore_progress,
) -> HeldOutSteps:
    """Return step times with groups, models, releases, sources and chips held out."""
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
        model=hold_out(runs, [row["model"] for row in runs.rows], calibration, fit, on_progress),
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


def training_error_bars(
    runs: PublishedRuns, steps: HeldOutSteps, rows: Index | None = None
) -> dict[str, ErrorBar]:
    """Return error bars by level and kind, of new models, and of profiles with many rows.

    rows: that count; default: all with a measured step time.
    """
    rows = scored_rows(runs) if rows is None else rows
    kinds = np.array(kinds_of(runs))
    sources = np.array([source_of(row["id"]) for row in runs.rows])
    groups = np.array([group_of(row) for row in runs.rows])
    profiles = np.array([profile.name for profile in runs.profiles])
    near = np.log(runs.reference_s / steps.fitted) * HELD_OUT_SPREAD
    bars: dict[str, ErrorBar] = {}
    for kind in KINDS:
        own = rows[kinds[rows] == kind]
        last = bars[f"run|{kind}"] = conformal_bar(near[own], sources[own])
        for level in LEVELS[1:]:
            error = np.log(runs.reference_s / steps.by_level[level])[own]
            of = sources[own]
            if level == "release":
                later = own[np.isfinite(steps.later[own])]
                error = np.append(error, np.log(runs.reference_s / steps.later)[later])
                of = np.append(of, sources[later])
            last = bars[f"{level}|{kind}"] = last.hull(conformal_bar(error, of))
        new = np.log(runs.reference_s / steps.model)[own]
        bars[f"model|{kind}"] = conformal_bar(new, sources[own])
        for name in np.unique(profiles[own]):
            same = own[profiles[own] == name]
            if len(same) >= OWN_ROWS:
                bars[f"run|{kind}|{name}"] = conformal_bar(near[same], groups[same])
    return bars


def conformal_bar(errors: Array, clusters: npt.NDArray[np.str_]) -> ErrorBar:
    """Return the bar that covers 90 % of further errors.

    Both sides have the same length where there are few rows or clusters.
    """
    if len(errors) < TAIL_ROWS or effective_count(clusters) < FEW_SOURCES:
        size = max(conformal_quantile(np.abs(errors), 1.0 - 2.0 * TAIL), MIN_ERROR)
        return ErrorBar(low=-size, high=size)
    low, high = (conformal_quantile(side, 1.0 - TAIL) for side in (-errors, errors))
    return ErrorBar(low=min(-low, -MIN_ERROR), high=max(high, MIN_ERROR))


def effective_count(clusters: npt.NDArray[np.str_]) -> float:
    """Return the number of clusters of one size that vary as much as these."""
    counts = np.unique(clusters, return_counts=True)[1].astype(float)
    return float(counts.sum() ** 2 / (counts**2).sum())


def conformal_quantile(values: Array, share: float) -> float:
    """Return a bound that the next exchangeable value is below with this probability."""
    count = len(values)
    place = min(int(np.ceil((count + 1) * share)), count)
    return float(np.sort(values)[place - 1])


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


def measured_models(runs: PublishedRuns) -> list[str]:
    """Return the measured model sizes by kind of run, sorted."""
    kinds = kinds_of(runs)
    layers, hidden = (np.broadcast_to(x, len(kinds)) for x in (runs.arch.layers, runs.arch.hidden))
    return sorted({model_key(kinds[i], layers[i], hidden[i]) for i in scored_rows(runs)})


def error_bars_text(table: ErrorBars) -> str:
    """Return the data file."""
    sections = [HEADER]
    for name, bar in table.bars.items():
        sections.append(f'[bar."{name}"]\nlow = {bar.low:.4f}\nhigh = {bar.high:.4f}\n')
    cells, models = (
        "".join(f'  "{name}",\n' for name in sorted(names)) for names in (table.cells, table.models)
    )
    sections.append(
        "[measured]  # profile, chip and kind of run; kind of run, layers and width of the model\n"
        f"cells = [\n{cells}]\nmodels = [\n{models}]\n"
    )
    return "\n".join(sections)
