"""`gpuyard accuracy training`: the training performance model against measured runs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import Catalog
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.perf.calibration import read_calibration, scalar
from gpuyard.perf.error_bars import (
    LEVELS,
    ErrorBar,
    Level,
    RunKind,
    distance,
    model_key,
    read_error_bars,
    run_kind,
    training_error_bar,
)
from gpuyard.perf.interval import PredictionInterval
from gpuyard.perf.layout import Array
from gpuyard.perf.profiles import SoftwareProfile
from gpuyard.perf.published_network import network_contradiction
from gpuyard.perf.published_run import precision_contradiction
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import (
    ErrorStats,
    OnProgress,
    errors,
    group_folds,
    hold_out,
    ignore_progress,
    predict,
    predicted_bytes,
    predicted_step,
    scored_rows,
    source_of,
    three_points,
)
from gpuyard.perf.training import StepTime

Holdout = Literal["none", "groups", "sources"]
# runs: the profile is fitted to runs of this source; release: framework and date; family: the
# profile has no runs; user: set by --profile.
ProfileMatch = Literal["runs", "release", "family", "user"]
CONTRADICTED = 2.0  # times as wide where a row's text contradicts the inputs: an assumption
LEAST_ROWS = 100  # about twice what is fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingErrors:
    """Errors of a group of rows."""

    name: str
    errors: ErrorStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A row that the model cannot express, with the reason."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRowScore:
    """Predicted and measured values of one row."""

    id: str
    profile: str
    match: Annotated[ProfileMatch, Doc("what the software profile was matched by")]
    distance: Annotated[Level, Doc("what differs from the published runs of the fit")]
    new_model: Annotated[
        bool, Doc("no run of the fit and of this kind has the model's layers and width")
    ] = False
    predicted_s: float
    interval: Annotated[PredictionInterval | None, Doc("90 % interval of the step time")] = None
    measured_s: float | None = None
    error: Annotated[float | None, Doc("predicted over measured, minus one")] = None
    predicted_bytes: float
    measured_bytes: float | None = None
    memory_error_ratio: float | None = None
    terms: Annotated[
        Mapping[str, float], Doc("shares of the predicted step, the largest three")
    ] = field(default_factory=dict)
    assumed: Annotated[str, Doc("usual values of what the row leaves open")] = ""
    note: Annotated[str, Doc("text of the row that contradicts the prediction's inputs")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Errors of the model on a table of runs, as fractions: 0.05 is 5 %."""

    rows: int
    scored: int
    errors: ErrorStats
    unsupported: tuple[Unsupported, ...]
    by_chip: tuple[TrainingErrors, ...]
    by_source: tuple[TrainingErrors, ...]
    by_task: tuple[TrainingErrors, ...]
    by_kind: tuple[TrainingErrors, ...]
    by_match: tuple[TrainingErrors, ...]
    by_distance: tuple[TrainingErrors, ...]
    memory: ErrorStats
    per_row: tuple[TrainingRowScore, ...]
    holdout: Holdout = "none"
    three_points: Annotated[
        ErrorStats | None, Doc("sources held out, each stack's scalar set from three of its rows")
    ] = None


def score_training(
    path: Path,
    catalog: Catalog,
    profile: str = "",
    holdout: Holdout = "none",
    trust: str = "AB",
    on_progress: OnProgress = ignore_progress,
) -> Accuracy:
    """Score the training model on the runs of a CSV file."""
    runs = read_training_runs(path, catalog, profile, trust)
    calibration, three = read_calibration(), None
    rows = scored_rows(runs)
    predicted, terms = np.full(len(runs.rows), np.nan), [dict[str, float]()] * len(runs.rows)
    if len(runs.rows):
        step = predicted_step(runs, calibration, np.arange(len(runs.rows)))
        predicted, terms = step.total_s, _largest_terms(step)
    if holdout != "none" and len(rows) < LEAST_ROWS:
        raise InputError.one(
            str(path),
            f"{len(rows)} measured runs are too few to fit without some of them",
            f"give {LEAST_ROWS} or more, of several sources and models",
        )
    if holdout == "groups":
        predicted = hold_out(runs, group_folds(runs), calibration, refit, on_progress)
    elif holdout == "sources":
        names = [source_of(row["id"]) for row in runs.rows]
        predicted = hold_out(runs, names, calibration, refit, on_progress)
        three = errors(three_points(runs, predicted), runs.reference_s)
    memory_bytes = predicted_bytes(runs) if len(runs.rows) else np.array([])
    matches = [_match(runs, i, profile) for i in range(len(runs.rows))]
    levels = [_level(runs, i, match, holdout) for i, match in enumerate(matches)]
    bars = _Bars(items=[_error_bar(runs, i, level) for i, level in enumerate(levels)])
    return Accuracy(
        rows=len(runs.rows) + len(runs.unsupported),
        scored=len(rows),
        errors=errors(predicted, runs.reference_s, bounds=bars.bounds()),
        unsupported=tuple(Unsupported(id=name, reason=reason) for name, reason in runs.unsupported),
        by_chip=_grouped(runs, predicted, bars, lambda i: runs.silicon[i].name),
        by_source=_grouped(runs, predicted, bars, lambda i: source_of(runs.rows[i]["id"])),
        by_task=_grouped(runs, predicted, bars, lambda i: runs.rows[i]["task"]),
        by_kind=_grouped(runs, predicted, bars, lambda i: row_kind(runs, i)),
        by_match=_grouped(runs, predicted, bars, lambda i: matches[i]),
        by_distance=_grouped(runs, predicted, bars, lambda i: levels[i]),
        memory=errors(memory_bytes, runs.memory_bytes),
        per_row=tuple(
            replace(
                _row(runs, i, predicted, memory_bytes, bars.items[i]),
                match=matches[i],
                distance=levels[i],
                terms=terms[i],
            )
            for i in range(len(runs.rows))
        ),
        holdout=holdout,
        three_points=three,
    )


def read_training_runs(
    path: Path, catalog: Catalog, profile: str = "", trust: str = "AB"
) -> PublishedRuns:
    """Read a CSV file of training runs."""
    rows = read_rows(
        path,
        {"model", "chip"},
        "training runs",
        "model, chip, n_chips, global_batch and step_time_s, or model, chip, count, layout"
        " and tokens_per_s",
    )
    named = [row | {"id": row.get("id") or f"row-{i}"} for i, row in enumerate(rows, start=1)]
    return read_runs(named, catalog, trust, profile)


def read_rows(path: Path, needed: set[str], what: str, columns: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file that has at least the needed columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, restval="")  # short rows end in blank cells
            if not needed <= set(reader.fieldnames or ()):
                raise InputError.one(
                    str(path), f"not a table of {what}", f"give a CSV with at least {columns}"
                )
            return list(reader)
    except FileNotFoundError:
        raise InputError.one(str(path), "no such file", "check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError.one(
            str(path), f"not a CSV file: {error}", "save it as UTF-8 CSV"
        ) from None


def calibrated_profile(
    path: Path, base: SoftwareProfile, name: str, catalog: Catalog
) -> tuple[SoftwareProfile, Accuracy]:
    """Fit a profile's scalar to the measured steps of a file; return it with its errors."""
    runs = read_training_runs(path, catalog, base.name, "ABC")
    rows = scored_rows(runs)
    if not len(rows):
        why = (
            "; ".join(f"{row}: {reason}" for row, reason in runs.unsupported[:3])
            or "no row has step_time_s"
        )
        raise InputError.one(
            str(path),
            f"no measured step to calibrate with ({why})",
            "fill step_time_s and the layout",
        )
    calibration = read_calibration()
    ratio = float(
        np.exp(np.mean(np.log(runs.reference_s[rows] / predict(runs, calibration, rows))))
    )
    moe = bool(runs.arch.experts[rows[0]] > 0)
    fitted = (f"{path.name} {len(rows)} rows",)
    own = replace(base, name=name, fitted_on=fitted, scalar=scalar(calibration, base, moe) * ratio)
    after = predict(runs, calibration, rows, ratio)
    score = score_training(path, catalog, base.name, trust="ABC")
    return own, replace(score, errors=errors(after, runs.reference_s[rows]))


def _grouped(
    runs: PublishedRuns, predicted: Array, bars: _Bars, key: Callable[[int], str]
) -> tuple[TrainingErrors, ...]:
    names = np.array([key(i) for i in range(len(runs.rows))])
    return tuple(
        TrainingErrors(
            name=str(name),
            errors=errors(
                predicted[names == name],
                runs.reference_s[names == name],
                bounds=bars.bounds(names == name),
            ),
        )
        for name in np.unique(names)
    )


def _largest_terms(step: StepTime, count: int = 3) -> list[dict[str, float]]:
    """Return the largest terms of every step, as shares of it."""
    total = step.total_s
    names = [item.name for item in fields(StepTime)]
    shares = np.array([getattr(step, name) * np.ones_like(total) / total for name in names])
    order = np.argsort(-shares, axis=0)[:count]
    return [
        {names[k].removesuffix("_s"): round(float(shares[k, i]), 3) for k in order[:, i]}
        for i in range(len(total))
    ]


def _note(runs: PublishedRuns, index: int) -> str:
    row = runs.rows[index]
    return (
        runs.silicon[index].unmeasured
        or precision_contradiction(row)
        or network_contradiction(f"{row['network']}; {row['notes']}")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bars:
    """Error bars of rows, and their bounds as arrays."""

    items: list[ErrorBar]

    def bounds(self, mask: npt.NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
        low, high = (
            np.array([getattr(bar, side) for bar in self.items]) for side in ("low", "high")
        )
        return (low, high) if mask is None else (low[mask], high[mask])


def _level(runs: PublishedRuns, index: int, match: ProfileMatch, holdout: Holdout) -> Level:
    """Return how far a row is from the runs of the fit; farthest where its text contradicts."""
    if _note(runs, index):
        return "chip"
    if runs.rows[index]["assumed"]:
        match = "release"
    kind = row_kind(runs, index)
    level = distance(
        runs.silicon[index], runs.profiles[index], kind, unseen=match in ("release", "family")
    )
    least: dict[Holdout, Level] = {"none": "run", "groups": "group", "sources": "stack"}
    return max(level, least[holdout], key=LEVELS.index)


def _error_bar(runs: PublishedRuns, index: int, level: Level) -> ErrorBar:
    profile = runs.profiles[index].name
    bar = training_error_bar(level, row_kind(runs, index), profile, _model_key(runs, index))
    return bar.widened(CONTRADICTED) if _note(runs, index) else bar


def _model_key(runs: PublishedRuns, index: int) -> str:
    layers, hidden = float(runs.arch.layers[index]), float(runs.arch.hidden[index])
    return model_key(row_kind(runs, index), layers, hidden)


def row_kind(runs: PublishedRuns, index: int) -> RunKind:
    """Return the kind of a row."""
    adapters = bool(runs.arch.trains_weights[index] == 0)
    return run_kind(runs.silicon[index], bool(runs.arch.experts[index] > 0), adapters)


def _match(runs: PublishedRuns, index: int, named: str) -> ProfileMatch:
    """Return what the row's software profile was matched by."""
    if named:
        return "user"
    sources = {text.split()[0] for text in runs.profiles[index].fitted_on}
    if not sources:
        return "family"
    if runs.profiles[index].precedes(runs.rows[index]["measured_on"]):
        return "release"
    source = source_of(runs.rows[index]["id"])
    return "runs" if any(source.startswith(name) for name in sources) else "release"


def _row(
    runs: PublishedRuns,
    index: int,
    predicted: Array,
    memory_bytes: Array,
    bar: ErrorBar,
) -> TrainingRowScore:
    predicted_s = float(np.nan_to_num(predicted[index]))
    measured_s, measured_bytes = float(runs.reference_s[index]), float(runs.memory_bytes[index])
    timed, weighed = (
        np.isfinite(measured_s) and np.isfinite(predicted[index]),
        np.isfinite(measured_bytes),
    )
    return TrainingRowScore(
        id=runs.rows[index]["id"],
        profile=runs.profiles[index].name,
        match="runs",
        distance="run",
        new_model=_model_key(runs, index) not in read_error_bars().models,
        predicted_s=predicted_s,
        interval=bar.around(predicted_s) if predicted_s else None,
        measured_s=measured_s if timed else None,
        error=float(predicted[index]) / measured_s - 1.0 if timed else None,
        predicted_bytes=float(memory_bytes[index]),
        measured_bytes=measured_bytes if weighed else None,
        memory_error_ratio=float(memory_bytes[index]) / measured_bytes - 1.0 if weighed else None,
        assumed=runs.rows[index]["assumed"],
        note=_note(runs, index),
    )
