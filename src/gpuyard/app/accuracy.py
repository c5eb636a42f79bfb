"""`gpuyard accuracy training`: the training performance model against measured runs."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from gpuyard.calibrate.training import refit
from gpuyard.catalog.load import Catalog
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError
from gpuyard.perf.calibration import read_calibration, scalar
from gpuyard.perf.error_bars import run_kind, training_error_ratio
from gpuyard.perf.interval import PredictionInterval
from gpuyard.perf.layout import Array
from gpuyard.perf.profiles import SoftwareProfile
from gpuyard.perf.published_network import network_contradiction
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import (
    ErrorStats,
    OnProgress,
    errors,
    hold_out_groups,
    hold_out_sources,
    ignore_progress,
    predict,
    predicted_bytes,
    scored_rows,
    source_of,
)

Holdout = Literal["none", "groups", "sources"]
# runs: the profile is fitted to runs of this source; release: framework and date; family: the
# profile has no runs; user: set by --profile.
ProfileMatch = Literal["runs", "release", "family", "user"]
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
    predicted_s: float
    interval: Annotated[PredictionInterval | None, Doc("90 % interval of the step time")] = None
    measured_s: float | None = None
    error: Annotated[float | None, Doc("predicted over measured, minus one")] = None
    predicted_bytes: float
    measured_bytes: float | None = None
    memory_error_ratio: float | None = None
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
    predicted = np.full(len(runs.rows), np.nan)
    if len(runs.rows):
        predicted = predict(runs, calibration, np.arange(len(runs.rows)))
    if holdout != "none" and len(rows) < LEAST_ROWS:
        raise InputError.one(
            str(path),
            f"{len(rows)} measured runs are too few to fit without some of them",
            f"give {LEAST_ROWS} or more, of several sources and models",
        )
    if holdout == "groups":
        predicted = hold_out_groups(runs, calibration, refit, on_progress=on_progress)
    elif holdout == "sources":
        predicted, tuned = hold_out_sources(runs, calibration, refit, on_progress)
        three = errors(tuned, runs.reference_s)
    memory_bytes = predicted_bytes(runs) if len(runs.rows) else np.array([])
    matches = [_match(runs, i, profile) for i in range(len(runs.rows))]
    bars = np.array([_error_ratio(runs, i, match) for i, match in enumerate(matches)])
    return Accuracy(
        rows=len(runs.rows) + len(runs.unsupported),
        scored=len(rows),
        errors=errors(predicted, runs.reference_s, bars),
        unsupported=tuple(Unsupported(id=name, reason=reason) for name, reason in runs.unsupported),
        by_chip=_grouped(runs, predicted, bars, lambda i: runs.silicon[i].name),
        by_source=_grouped(runs, predicted, bars, lambda i: source_of(runs.rows[i]["id"])),
        by_task=_grouped(runs, predicted, bars, lambda i: runs.rows[i]["task"]),
        by_kind=_grouped(runs, predicted, bars, lambda i: _kind(runs, i)),
        by_match=_grouped(runs, predicted, bars, lambda i: matches[i]),
        memory=errors(memory_bytes, runs.memory_bytes),
        per_row=tuple(
            _row(runs, i, predicted, memory_bytes, bars, matches[i]) for i in range(len(runs.rows))
        ),
        holdout=holdout,
        three_points=three,
    )


def read_training_runs(
    path: Path, catalog: Catalog, profile: str = "", trust: str = "AB"
) -> PublishedRuns:
    """Read a CSV file of training runs."""
    rows = read_rows(
        path, {"model", "chip", "n_chips"}, "training runs", "model, chip, n_chips, global_batch"
    )
    return read_runs(rows, catalog, trust, profile)


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


def _kind(runs: PublishedRuns, index: int) -> str:
    if runs.silicon[index].generation == "tpu":
        return "tpu"
    return "moe" if runs.arch.experts[index] > 0 else "dense"


def _grouped(
    runs: PublishedRuns, predicted: Array, bars: Array, key: Callable[[int], str]
) -> tuple[TrainingErrors, ...]:
    names = np.array([key(i) for i in range(len(runs.rows))])
    return tuple(
        TrainingErrors(
            name=str(name),
            errors=errors(
                predicted[names == name], runs.reference_s[names == name], bars[names == name]
            ),
        )
        for name in np.unique(names)
    )


def _note(runs: PublishedRuns, index: int) -> str:
    row = runs.rows[index]
    return network_contradiction(f"{row['network']}; {row['notes']}")


def _error_ratio(runs: PublishedRuns, index: int, match: ProfileMatch) -> float:
    """Return the error bar of a row; as of an unmeasured chip where its text contradicts inputs."""
    moe = bool(runs.arch.experts[index] > 0)
    unseen = match in ("release", "family")
    kind = run_kind(runs.silicon[index], runs.profiles[index], moe, unseen)
    return training_error_ratio("uncalibrated" if _note(runs, index) else kind)


def _match(runs: PublishedRuns, index: int, named: str) -> ProfileMatch:
    """Return what the row's software profile was matched by."""
    if named:
        return "user"
    sources = {text.split()[0] for text in runs.profiles[index].fitted_on}
    if not sources:
        return "family"
    source = source_of(runs.rows[index]["id"])
    return "runs" if any(source.startswith(name) for name in sources) else "release"


def _row(
    runs: PublishedRuns,
    index: int,
    predicted: Array,
    memory_bytes: Array,
    bars: Array,
    match: ProfileMatch,
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
        match=match,
        predicted_s=predicted_s,
        interval=(
            PredictionInterval.from_ratio(predicted_s, float(bars[index])) if predicted_s else None
        ),
        measured_s=measured_s if timed else None,
        error=float(predicted[index]) / measured_s - 1.0 if timed else None,
        predicted_bytes=float(memory_bytes[index]),
        measured_bytes=measured_bytes if weighed else None,
        memory_error_ratio=float(memory_bytes[index]) / measured_bytes - 1.0 if weighed else None,
        note=_note(runs, index),
    )
