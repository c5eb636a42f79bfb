"""Errors against published runs, and schedules that a fit computes once."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.simulate.serving.predict_published import (
    best_layout,
    extrapolated,
    kv_cache_ratios,
    mlperf_requests,
    predict,
    run,
)
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import predictions, score, score_json

CURATED = Path(__file__).parents[2] / "accuracy" / "inference_runs.csv"
CATALOG = load_catalog()
METRICS = {"throughput", "tpot", "ttft", "e2e"}


def rows(step: int) -> list[dict[str, str]]:
    """Some rows of the curated table."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))[::step]


def test_score_has_every_key_and_counts_every_row() -> None:
    some = [*rows(9), {**rows(9)[0], "id": "odd", "chip": "abacus"}]
    found = score_json(score(some, CATALOG))
    assert set(found) >= {
        "rows",
        "scored",
        "unsupported",
        "metrics",
        "by_engine",
        "by_chip",
        "by_scenario",
        "per_row",
    }
    assert found["rows"] == len(some)
    unsupported, per_row, metrics = found["unsupported"], found["per_row"], found["metrics"]
    assert isinstance(unsupported, list)
    assert isinstance(per_row, list)
    assert isinstance(metrics, dict)
    assert {"id": "odd", "reason": "unknown chip abacus"} in unsupported
    assert len(per_row) + len(unsupported) == len(some)
    assert set(metrics) == METRICS
    json.dumps(found, allow_nan=False)


def test_figure_missing_from_row_is_not_scored() -> None:
    bare = [{**row, "tpot_ms_mean": "", "itl_ms_mean": ""} for row in rows(9)]
    assert score(bare, CATALOG).metrics.tpot.rows == 0


def test_gathered_schedules_predict_what_the_simulation_does() -> None:
    calibration = read_calibration()
    cases = [
        c
        for c in read_cases(rows(6), CATALOG).cases
        if c.prefill is None and c.load.kind in ("offline", "closed", "mlperf-offline")
    ]
    plans = schedules(cases, calibration)
    fast = plans.predict(calibration, np.arange(len(plans.cases)))
    slow = predictions(plans.cases, calibration)
    assert len(plans.cases) == len(cases)
    assert fast[:, 0] == pytest.approx(slow[:, 0], rel=0.02)
    assert np.nanmedian(np.abs(fast[:, 2] / slow[:, 2] - 1.0)) < 0.02


def test_offline_run_is_mean_over_possible_cache_sizes() -> None:
    calibration = read_calibration()
    case = next(
        c
        for c in read_cases(rows(1), CATALOG).cases
        if c.load.kind == "offline" and c.load.output_tokens > 1000
    )
    spans, tokens = [], 0.0
    for ratio in kv_cache_ratios(case):
        found = run(case, calibration, ratio)
        assert not isinstance(found, Infeasible)
        outcome, ranks = found
        tokens = float(outcome.output_tokens.sum()) * ranks
        spans.append(float(outcome.finished_s.max() - outcome.arrived_s.min()))
    assert len(set(spans)) == 3  # few waves: each size of the cache has its own
    predicted = predict(case, calibration)
    assert not isinstance(predicted, Infeasible)
    assert predicted.output_tokens_per_s == pytest.approx(tokens / np.mean(spans))


def test_longer_mlperf_offline_run_has_one_tail() -> None:
    calibration = read_calibration()
    case = next(c for c in read_cases(rows(1), CATALOG).cases if c.load.kind == "mlperf-offline")
    short, long = (
        replace(case, load=replace(case.load, requests=1, run_s=seconds))
        for seconds in (60.0, 86400.0)
    )
    found = run(long, calibration)
    assert not isinstance(found, Infeasible)
    often, tokens = extrapolated(long, found[0])
    assert often > 1.0
    assert tokens / found[0].output_tokens.mean() == pytest.approx(
        mlperf_requests(long, *best_layout(long)), rel=0.01
    )
    rates = predictions([short, long], calibration)[:, 0]
    assert rates[0] < rates[1]


def test_server_throughput_includes_time_of_last_request() -> None:
    calibration = read_calibration()
    case = next(c for c in read_cases(rows(1), CATALOG).cases if c.load.kind == "mlperf-server")
    brief, long = (
        replace(case, load=replace(case.load, requests=1000, run_s=seconds))
        for seconds in (600.0, 86400.0)
    )
    (short_run, token_s, _, e2e_s), (long_run, *_) = predictions([brief, long], calibration)
    assert long_run / short_run > 1.0
    assert short_run / long_run == pytest.approx(600.0 / (600.0 + e2e_s), rel=0.1)
    assert token_s > 0.0
