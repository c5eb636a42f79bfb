"""`gpuyard accuracy training` and `gpuyard calibrate`: the model against measured steps."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from gpuyard.catalog import Catalog, load_catalog
from gpuyard.document import Doc
from gpuyard.errors import InputError
from gpuyard.perf.calibration import read_calibration, scalar
from gpuyard.perf.fit import refit
from gpuyard.perf.layout import Array
from gpuyard.perf.profiles import Profile
from gpuyard.perf.runs import Runs, read_runs
from gpuyard.perf.score import (
    Errors,
    Told,
    errors,
    hold_out_groups,
    hold_out_sources,
    predict,
    predicted_bytes,
    scored_rows,
    source_of,
    unheard,
)

__all__ = [
    "Accuracy", "Group", "Holdout", "RowScore", "Unsupported", "calibrated_profile", "read_rows", "score_training",
]  # fmt: skip

Holdout = Literal["none", "groups", "sources"]
LEAST_ROWS = 100  # about twice what is fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The errors of the rows that have something in common."""

    name: str
    errors: Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A row that the model cannot express."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScore:
    """One row: predicted and measured."""

    id: str
    profile: str
    predicted_s: float
    measured_s: float | None = None
    error: Annotated[float | None, Doc("predicted over measured, less one")] = None
    predicted_bytes: float
    measured_bytes: float | None = None
    memory_error_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The model's errors on a table of runs; fractions, so 0.05 is five per cent."""

    rows: int
    scored: int
    errors: Errors
    unsupported: tuple[Unsupported, ...]
    by_chip: tuple[Group, ...]
    by_source: tuple[Group, ...]
    by_task: tuple[Group, ...]
    by_kind: tuple[Group, ...]
    memory: Errors
    per_row: tuple[RowScore, ...]
    holdout: Holdout = "none"
    three_points: Annotated[Errors | None, Doc("sources held out, each stack's scalar set from three of its rows")] = (
        None
    )


def score_training(
    path: Path,
    layers: Sequence[Path] = (),
    profile: str = "",
    holdout: Holdout = "none",
    trust: str = "AB",
    told: Told = unheard,
) -> Accuracy:
    """The training model against the runs of a CSV file."""
    runs = read_table(path, load_catalog(layers), profile, trust)
    calibration, three = read_calibration(), None
    rows = scored_rows(runs)
    predicted = np.full(len(runs.rows), np.nan)
    if len(runs.rows):
        predicted = predict(runs, calibration, np.arange(len(runs.rows)))
    if holdout != "none" and len(rows) < LEAST_ROWS:
        raise InputError.one(
            str(path), f"{len(rows)} measured runs are too few to fit without some of them",
            f"give {LEAST_ROWS} or more, of several sources and models",
        )  # fmt: skip
    if holdout == "groups":
        predicted = hold_out_groups(runs, calibration, refit, told=told)
    elif holdout == "sources":
        predicted, tuned = hold_out_sources(runs, calibration, refit, told)
        three = errors(tuned, runs.reference_s)
    held = predicted_bytes(runs) if len(runs.rows) else np.array([])
    return Accuracy(
        rows=len(runs.rows) + len(runs.unsupported),
        scored=len(rows),
        errors=errors(predicted, runs.reference_s),
        unsupported=tuple(Unsupported(id=name, reason=reason) for name, reason in runs.unsupported),
        by_chip=_grouped(runs, predicted, lambda i: runs.silicon[i].name),
        by_source=_grouped(runs, predicted, lambda i: source_of(runs.rows[i]["id"])),
        by_task=_grouped(runs, predicted, lambda i: runs.rows[i]["task"]),
        by_kind=_grouped(runs, predicted, lambda i: _kind(runs, i)),
        memory=errors(held, runs.memory_bytes),
        per_row=tuple(_row(runs, i, predicted, held) for i in range(len(runs.rows))),
        holdout=holdout,
        three_points=three,
    )


def read_table(path: Path, catalog: Catalog, profile: str = "", trust: str = "AB") -> Runs:
    """The runs of a CSV file in the columns of a table of training runs."""
    rows = read_rows(path, {"model", "chip", "n_chips"}, "training runs", "model, chip, n_chips, global_batch")
    return read_runs(rows, catalog, trust, profile)


def read_rows(path: Path, needed: set[str], what: str, columns: str) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least those columns."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if not needed <= set(reader.fieldnames or ()):
                raise InputError.one(str(path), f"not a table of {what}", f"give a CSV with at least {columns}")
            return list(reader)
    except FileNotFoundError:
        raise InputError.one(str(path), "no such file", "check the path") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError.one(str(path), f"not a CSV file: {error}", "save it as UTF-8 CSV") from None


def calibrated_profile(path: Path, base: Profile, name: str, layers: Sequence[Path] = ()) -> tuple[Profile, Accuracy]:
    """The profile with its scalar set to the measured steps of a file, and how well it then fits them."""
    runs = read_table(path, load_catalog(layers), base.name, "ABC")
    rows = scored_rows(runs)
    if not len(rows):
        why = "; ".join(f"{row}: {reason}" for row, reason in runs.unsupported[:3]) or "no row has step_time_s"
        raise InputError.one(
            str(path), f"no measured step to calibrate with ({why})", "fill step_time_s and the layout"
        )
    calibration = read_calibration()
    ratio = float(np.exp(np.mean(np.log(runs.reference_s[rows] / predict(runs, calibration, rows)))))
    moe = bool(runs.arch.experts[rows[0]] > 0)
    fitted = (f"{path.name} {len(rows)} rows",)
    own = replace(base, name=name, fitted_on=fitted, scalar=scalar(calibration, base, moe) * ratio)
    after = predict(runs, calibration, rows, ratio)
    whole = score_training(path, layers, base.name, trust="ABC")
    return own, replace(whole, errors=errors(after, runs.reference_s[rows]))


def _kind(runs: Runs, index: int) -> str:
    """Dense or mixture of experts, or TPU."""
    if runs.silicon[index].generation == "tpu":
        return "tpu"
    return "moe" if runs.arch.experts[index] > 0 else "dense"


def _grouped(runs: Runs, predicted: Array, key: Callable[[int], str]) -> tuple[Group, ...]:
    """The errors of each group, in the order of their names."""
    names = np.array([key(i) for i in range(len(runs.rows))])
    return tuple(
        Group(name=str(name), errors=errors(predicted[names == name], runs.reference_s[names == name]))
        for name in np.unique(names)
    )


def _row(runs: Runs, index: int, predicted: Array, held: Array) -> RowScore:
    """One row's score; what was not measured is left out."""
    measured_s, measured_bytes = float(runs.reference_s[index]), float(runs.memory_bytes[index])
    timed, weighed = np.isfinite(measured_s) and np.isfinite(predicted[index]), np.isfinite(measured_bytes)
    return RowScore(
        id=runs.rows[index]["id"],
        profile=runs.profiles[index].name,
        predicted_s=float(np.nan_to_num(predicted[index])),
        measured_s=measured_s if timed else None,
        error=float(predicted[index]) / measured_s - 1.0 if timed else None,
        predicted_bytes=float(held[index]),
        measured_bytes=measured_bytes if weighed else None,
        memory_error_ratio=float(held[index]) / measured_bytes - 1.0 if weighed else None,
    )
