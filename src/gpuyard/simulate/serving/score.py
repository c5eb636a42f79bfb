"""Errors of the serving model on published runs: throughput, TPOT, TTFT, E2E."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt

from gpuyard.catalog.load import Catalog
from gpuyard.document.field_types import Doc
from gpuyard.document.frozen_json import Plain
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.benchmark_load import output_tokens_per_s
from gpuyard.perf.inference.calibration import ServingCalibration, read_calibration
from gpuyard.perf.inference.case import ServingBenchmark, ServingBenchmarks
from gpuyard.perf.inference.error_bars import Interval, Metric, interval
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.perf.inference.run_columns import Row, number
from gpuyard.perf.score import ErrorStats, errors
from gpuyard.simulate.serving.predict_published import ServingPrediction, predict

Reals = npt.NDArray[np.float64]
METRICS: tuple[Metric, ...] = ("throughput", "tpot", "ttft", "e2e")
NAMES: tuple[str, ...] = METRICS


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingMetricErrors:
    """Errors per metric, over the rows that report it."""

    throughput: ErrorStats
    tpot: ErrorStats
    ttft: ErrorStats
    e2e: ErrorStats


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingErrors:
    """Errors of a group of rows."""

    name: str
    metrics: ServingMetricErrors


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRowScore:
    """One row: throughput and latencies, predicted and measured; None where not reported."""

    id: str
    engine: str
    chip: str
    scenario: str
    kind: Annotated[str, Doc("dense or moe")]
    predicted: tuple[float | None, ...]
    measured: tuple[float | None, ...]
    error: Annotated[tuple[float | None, ...], Doc("predicted over measured, less one")]
    low: Annotated[tuple[float | None, ...], Doc("lower bound of the 90 % interval")]
    high: Annotated[tuple[float | None, ...], Doc("upper bound of the 90 % interval")]
    note: Annotated[str, Doc("why the intervals are wide; blank where they are not")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingScore:
    """Errors of the serving model on a table of runs, as fractions: 0.05 is 5 %."""

    rows: int
    scored: int
    unsupported: tuple[tuple[str, str], ...]
    metrics: ServingMetricErrors
    by_engine: tuple[ServingErrors, ...]
    by_chip: tuple[ServingErrors, ...]
    by_scenario: tuple[ServingErrors, ...]
    by_kind: tuple[ServingErrors, ...]
    per_row: tuple[ServingRowScore, ...]


def score(
    rows: Iterable[Row],
    catalog: Catalog,
    trust: str = "AB",
    calibration: ServingCalibration | None = None,
) -> ServingScore:
    """Return the errors of the serving model on a table of published runs."""
    cases = read_cases(rows, catalog, trust)
    return scored(cases, predictions(cases.cases, calibration or read_calibration()))


def measured(row: Row) -> tuple[float, float, float, float]:
    """Return measured throughput (tokens/s), TPOT, TTFT and E2E latency (s); NaN where missing."""
    tpot = number(row, "tpot_ms_mean")
    if tpot != tpot:
        tpot = number(row, "itl_ms_mean")
    ttft, e2e = number(row, "ttft_ms_mean"), number(row, "e2e_ms_mean")
    return output_tokens_per_s(row), tpot / 1e3, ttft / 1e3, e2e / 1e3


def predictions(cases: Sequence[ServingBenchmark], calibration: ServingCalibration) -> Reals:
    """Return four predicted metrics per case, one row per case; NaN where it does not fit."""
    result = np.full((len(cases), 4), np.nan)
    seen: dict[tuple[object, ...], ServingPrediction | Infeasible] = {}
    for i, case in enumerate(cases):
        key = (
            case.shape,
            case.chip,
            case.precision,
            case.engine,
            case.layouts,
            case.prefill,
            case.load,
        )
        if key not in seen:  # several submitters report the same system
            seen[key] = predict(case, calibration)
        entry = seen[key]
        if not isinstance(entry, Infeasible):
            result[i] = entry.output_tokens_per_s, entry.tpot_s, entry.ttft_s, entry.e2e_s
    return result


def scored(cases: ServingBenchmarks, predicted: Reals) -> ServingScore:
    """Return the errors of predictions, in total and by group."""
    truth = np.array([measured(case.row) for case in cases.cases]).reshape(-1, 4)
    usable = np.isfinite(predicted) & np.isfinite(truth)
    bars = np.array([_bounds(case) for case in cases.cases]).reshape(-1, 4, 2)
    grouped = functools.partial(_grouped, cases.cases, predicted, truth, bars)
    return ServingScore(
        rows=cases.rows,
        scored=int(usable.any(axis=1).sum()),
        unsupported=cases.unsupported,
        metrics=_metrics(predicted, truth, bars),
        by_engine=grouped(lambda case: case.engine.name),
        by_chip=grouped(lambda case: case.chip.name),
        by_scenario=grouped(lambda case: case.row["scenario"]),
        by_kind=grouped(lambda case: case.shape.kind),
        per_row=tuple(
            _row(case, predicted[i], truth[i], bars[i]) for i, case in enumerate(cases.cases)
        ),
    )


def _bounds(case: ServingBenchmark) -> tuple[tuple[float, float], ...]:
    """Return the logarithms of the bounds of measured over predicted, of the four metrics."""
    intervals = [_interval(case, metric) for metric in METRICS]
    return tuple((bounds.low, bounds.high) for bounds in intervals)


def _interval(case: ServingBenchmark, metric: Metric) -> Interval:
    return interval(
        metric,
        case.chip,
        case.engine,
        case.prefill is not None,
        load=case.load.kind,
        kind=case.shape.kind,
    )


def _metrics(predicted: Reals, truth: Reals, bars: Reals) -> ServingMetricErrors:
    return ServingMetricErrors(
        **{name: _errors(predicted[:, k], truth[:, k], bars[:, k]) for k, name in enumerate(NAMES)}
    )


def _errors(predicted: Reals, truth: Reals, bars: Reals) -> ErrorStats:
    """Return errors, with the share of measured values inside asymmetric intervals."""
    known = np.isfinite(predicted) & np.isfinite(truth)
    if not known.any():
        return errors(predicted, truth)
    ratio = np.log(truth[known] / predicted[known])
    inside = (bars[known, 0] - 1e-12 <= ratio) & (ratio <= bars[known, 1] + 1e-12)
    return replace(errors(predicted, truth), coverage=float(inside.mean()))


def _grouped(
    cases: Sequence[ServingBenchmark],
    predicted: Reals,
    truth: Reals,
    bars: Reals,
    key: Callable[[ServingBenchmark], str],
) -> tuple[ServingErrors, ...]:
    """Return the errors per group, sorted by name."""
    names = np.array([key(case) for case in cases])
    return tuple(
        ServingErrors(
            name=str(name),
            metrics=_metrics(predicted[names == name], truth[names == name], bars[names == name]),
        )
        for name in np.unique(names)
    )


def _row(case: ServingBenchmark, predicted: Reals, truth: Reals, bars: Reals) -> ServingRowScore:
    return ServingRowScore(
        id=case.row["id"],
        engine=case.engine.name,
        chip=case.chip.name,
        scenario=case.row["scenario"],
        kind=case.shape.kind,
        predicted=_known(predicted),
        measured=_known(truth),
        error=_known(predicted / truth - 1.0),
        low=_known(predicted * np.exp(bars[:, 0])),
        high=_known(predicted * np.exp(bars[:, 1])),
        note=_interval(case, "tpot").note,
    )


def _known(values: Reals) -> tuple[float | None, ...]:
    return tuple(float(value) if np.isfinite(value) else None for value in values)


def score_json(score: ServingScore) -> dict[str, Plain]:
    """Return the scores as JSON: every key always present, groups by name, errors as fractions."""
    return {
        "rows": score.rows,
        "scored": score.scored,
        "unsupported": [{"id": name, "reason": reason} for name, reason in score.unsupported],
        "metrics": _plain(score.metrics),
        "coverage": {name: getattr(score.metrics, name).coverage for name in NAMES},
        **{
            name: {group.name: _plain(group.metrics) for group in getattr(score, name)}
            for name in ("by_engine", "by_chip", "by_scenario", "by_kind")
        },
        "per_row": [_plain_row(row) for row in score.per_row],
    }


def _plain(metrics: ServingMetricErrors) -> dict[str, Plain]:
    """Return errors as plain values, null where there are no rows."""
    return {
        name: {
            field.name: getattr(getattr(metrics, name), field.name) for field in fields(ErrorStats)
        }
        for name in NAMES
    }


def _plain_row(row: ServingRowScore) -> dict[str, Plain]:
    figures: dict[str, Plain] = {
        name: {
            "predicted": row.predicted[k],
            "measured": row.measured[k],
            "error": row.error[k],
            "interval": {"low": row.low[k], "high": row.high[k]},
        }
        for k, name in enumerate(NAMES)
        if row.measured[k] is not None
    }
    return {
        "id": row.id,
        "engine": row.engine,
        "chip": row.chip,
        "scenario": row.scenario,
        "kind": row.kind,
        "note": row.note,
        **figures,
    }
