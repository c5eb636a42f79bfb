"""Groups of runs left out of the fit."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.calibrate.mlperf_margins import is_server
from gpuyard.calibrate.serving_holdout import group_of, hold_out
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.published_serving import read_cases

CURATED = Path(__file__).parents[1] / "accuracy" / "inference_runs.csv"
FIGURES = ("out_tok_s_total", "tpot_ms_mean", "ttft_ms_mean")


@pytest.fixture(scope="module")
def cases() -> list[ServingBenchmark]:
    """Some runs of two chips, and one that is a server of a third alone."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        found = read_cases(csv.DictReader(file), load_catalog()).cases
    servers = [
        case
        for case in found
        if is_server(case) and case.chip.name not in ("h100-sxm", "a100-80gb")
    ]
    plain = [
        case
        for case in found
        if case.chip.name in ("h100-sxm", "a100-80gb") and case.load.kind != "open"
    ]
    return [*plain[::12], servers[0]]


def _slower(case: ServingBenchmark) -> ServingBenchmark:
    """The same run, measured a tenth slower."""
    cells = {
        name: str((1.0 / 1.1 if name == "out_tok_s_total" else 1.1) * float(case.row[name]))
        for name in FIGURES
        if case.row[name]
    }
    return replace(case, row={**case.row, **cells})


def test_little_of_a_run_reaches_its_own_prediction(cases: list[ServingBenchmark]) -> None:
    before = hold_out(cases, read_calibration(), "chip")
    assert np.isfinite(before[:, 0]).any()
    assert np.isfinite(before[-1, 0])  # a group of servers alone
    own = np.array([group_of(case, "chip") == "h100-sxm" for case in cases])
    changed = [_slower(case) if group_of(case, "chip") == "h100-sxm" else case for case in cases]
    after = hold_out(changed, read_calibration(), "chip")
    moved = np.abs(np.log(after[:, 0] / before[:, 0]))
    others = ~own & np.isfinite(before[:, 0])
    assert np.median(moved[own]) < 0.01  # by the point of linearisation alone
    assert np.median(moved[others]) > 3.0 * np.median(moved[own])
