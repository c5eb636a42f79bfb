"""Errors of the serving model against published runs: throughput, time a token, time to first token, whole time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Annotated

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Catalog
from gpuyard.document import Doc, Plain
from gpuyard.errors import Infeasible
from gpuyard.perf.inference import Calibration, read_calibration
from gpuyard.perf.inference.case import Case, Cases
from gpuyard.perf.inference.cells import Row, number
from gpuyard.perf.inference.published import output_tokens_per_s, read_cases
from gpuyard.perf.score import Errors, errors
from gpuyard.simulate.serving.published import Prediction, predict

__all__ = ["Group", "Metrics", "RowScore", "Score", "measured", "predictions", "score", "score_json", "scored"]

Reals = npt.NDArray[np.float64]
NAMES = ("throughput", "tpot", "ttft", "e2e")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The errors of each figure, over the rows that state it."""

    throughput: Errors
    tpot: Errors
    ttft: Errors
    e2e: Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The errors of the rows that have something in common."""

    name: str
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class RowScore:
    """One row: its figures (tokens a second, then seconds) as predicted and as measured; None where not stated."""

    id: str
    engine: str
    chip: str
    scenario: str
    kind: Annotated[str, Doc("dense or moe")]
    predicted: tuple[float | None, ...]
    measured: tuple[float | None, ...]
    error: Annotated[tuple[float | None, ...], Doc("predicted over measured, less one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The model's errors on a table of runs; fractions, so 0.05 is five per cent."""

    rows: int
    scored: int
    unsupported: tuple[tuple[str, str], ...]
    metrics: Metrics
    by_engine: tuple[Group, ...]
    by_chip: tuple[Group, ...]
    by_scenario: tuple[Group, ...]
    by_kind: tuple[Group, ...]
    per_row: tuple[RowScore, ...]


def score(rows: Iterable[Row], catalog: Catalog, trust: str = "AB", calibration: Calibration | None = None) -> Score:
    """The serving model against the rows of a table of published runs."""
    cases = read_cases(rows, catalog, trust)
    return scored(cases, predictions(cases.cases, calibration or read_calibration()))


def measured(row: Row) -> tuple[float, float, float, float]:
    """The stated figures in tokens a second and seconds, NaN where there is none."""
    tpot = number(row, "tpot_ms_mean")
    if tpot != tpot:
        tpot = number(row, "itl_ms_mean")
    ttft, e2e = number(row, "ttft_ms_mean"), number(row, "e2e_ms_mean")
    return output_tokens_per_s(row), tpot / 1e3, ttft / 1e3, e2e / 1e3


def predictions(cases: Sequence[Case], calibration: Calibration) -> Reals:
    """The four figures of every case, one row each; NaN where it cannot run."""
    result = np.full((len(cases), 4), np.nan)
    seen: dict[tuple[object, ...], Prediction | Infeasible] = {}
    for i, case in enumerate(cases):
        key = (case.shape, case.chip, case.precision, case.engine, case.layouts, case.prefill, case.load)
        if key not in seen:  # many submitters run the same machine
            seen[key] = predict(case, calibration)
        found = seen[key]
        if not isinstance(found, Infeasible):
            result[i] = found.output_tokens_per_s, found.tpot_s, found.ttft_s, found.e2e_s
    return result


def scored(cases: Cases, predicted: Reals) -> Score:
    """The errors of predictions, by groups."""
    truth = np.array([measured(case.row) for case in cases.cases]).reshape(-1, 4)
    usable = np.isfinite(predicted) & np.isfinite(truth)
    return Score(
        rows=cases.rows,
        scored=int(usable.any(axis=1).sum()),
        unsupported=cases.unsupported,
        metrics=_metrics(predicted, truth),
        by_engine=_grouped(cases.cases, predicted, truth, lambda case: case.engine.name),
        by_chip=_grouped(cases.cases, predicted, truth, lambda case: case.chip.name),
        by_scenario=_grouped(cases.cases, predicted, truth, lambda case: case.row["scenario"]),
        by_kind=_grouped(cases.cases, predicted, truth, lambda case: "moe" if case.shape.experts else "dense"),
        per_row=tuple(_row(case, predicted[i], truth[i]) for i, case in enumerate(cases.cases)),
    )


def _metrics(predicted: Reals, truth: Reals) -> Metrics:
    """The errors of each column."""
    return Metrics(**{name: errors(predicted[:, k], truth[:, k]) for k, name in enumerate(NAMES)})


def _grouped(cases: Sequence[Case], predicted: Reals, truth: Reals, key: Callable[[Case], str]) -> tuple[Group, ...]:
    """The errors of each group, in the order of their names."""
    names = np.array([key(case) for case in cases])
    return tuple(
        Group(name=str(name), metrics=_metrics(predicted[names == name], truth[names == name]))
        for name in np.unique(names)
    )


def _row(case: Case, predicted: Reals, truth: Reals) -> RowScore:
    """One row's score."""
    return RowScore(
        id=case.row["id"],
        engine=case.engine.name,
        chip=case.chip.name,
        scenario=case.row["scenario"],
        kind="moe" if case.shape.experts else "dense",
        predicted=_known(predicted),
        measured=_known(truth),
        error=_known(predicted / truth - 1.0),
    )


def _known(values: Reals) -> tuple[float | None, ...]:
    """Numbers, None where there is none."""
    return tuple(float(value) if np.isfinite(value) else None for value in values)


def score_json(found: Score) -> dict[str, Plain]:
    """The scores as scripts read them: every key always there, groups by name, errors as fractions."""
    return {
        "rows": found.rows,
        "scored": found.scored,
        "unsupported": [{"id": name, "reason": reason} for name, reason in found.unsupported],
        "metrics": _plain(found.metrics),
        **{
            name: {group.name: _plain(group.metrics) for group in getattr(found, name)}
            for name in ("by_engine", "by_chip", "by_scenario", "by_kind")
        },
        "per_row": [_plain_row(row) for row in found.per_row],
    }


def _plain(metrics: Metrics) -> dict[str, Plain]:
    """Errors as plain values, null where there are no rows."""
    return {
        name: {field.name: getattr(getattr(metrics, name), field.name) for field in fields(Errors)} for name in NAMES
    }


def _plain_row(row: RowScore) -> dict[str, Plain]:
    """One row as plain values."""
    figures: dict[str, Plain] = {
        name: {"predicted": row.predicted[k], "measured": row.measured[k], "error": row.error[k]}
        for k, name in enumerate(NAMES)
        if row.measured[k] is not None
    }
    return {
        "id": row.id, "engine": row.engine, "chip": row.chip, "scenario": row.scenario, "kind": row.kind, **figures,
    }  # fmt: skip
