"""The fit of the serving model: constants share effects, and runs that are left out do not reach it."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gpuyard.calibrate.serving import fit, read_constants
from gpuyard.calibrate.serving_effects import NOT_FITTED, effects_of
from gpuyard.calibrate.serving_gradient import FIGURES, FitRuns
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import PATH, read_calibration
from gpuyard.perf.inference.published_serving import read_cases
from gpuyard.simulate.serving.predict_published import best_layout
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import measured

CURATED = Path(__file__).parents[1] / "accuracy" / "inference_runs.csv"


@pytest.fixture(scope="module")
def runs() -> FitRuns:
    """Some of the curated runs."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        cases = read_cases(list(csv.DictReader(file))[::5], load_catalog()).cases
    return FitRuns(schedules(cases, read_calibration()), read_calibration())


def test_siblings_share_effects() -> None:
    first, second = (
        {effect.name for effect in effects_of(f"{kind}.stream", 0.1)} for kind in ("hopper", "h200")
    )
    assert first & second == {"chips.stream", "hopper-chips.stream"}
    first, second = (
        {e.name for e in effects_of(f"{era}.host_us", 0.1)} for era in ("vllm-v0", "vllm-async")
    )
    assert len(first & second) == 2
    assert not effects_of("memory.driver_gb", 0.1)


def test_engines_of_one_code_share_what_runs_on_the_device_and_not_their_front_ends() -> None:
    bench, serve = (
        {e.name for e in effects_of(f"{name}.eager_layer_us", 0.1)}
        for name in ("trt-torch", "trt-serve-rc")
    )
    assert bench == serve
    bench, serve = (
        {e.name for e in effects_of(f"{name}.request_us", 0.1)}
        for name in ("trt-torch", "trt-serve-rc")
    )
    assert bench != serve


def test_shipped_constants_are_their_priors_times_their_effects() -> None:
    effects = tomllib.loads(PATH.read_text(encoding="utf-8"))["effect"]
    for constant in read_constants():
        if constant.name.startswith(NOT_FITTED):
            continue
        value = constant.prior
        for effect in effects_of(constant.name, constant.spread):
            value *= effects.get(effect.name, 1.0)
        assert constant.value == pytest.approx(
            min(max(value, constant.low), constant.high), rel=1e-3
        ), constant.name


def test_runs_predict_as_their_schedules(runs: FitRuns) -> None:
    shipped, which = read_calibration(), np.arange(len(runs.plans.cases))
    point = np.log([shipped[name] for name in runs.names])
    assert runs.predict(point, which) == pytest.approx(
        runs.plans.predict(shipped, which)[:, :FIGURES]
    )


def test_slopes_are_what_a_small_change_does(runs: FitRuns) -> None:
    shipped, which = read_calibration(), np.arange(len(runs.plans.cases))
    point = np.log([shipped[name] for name in runs.names])
    rows = runs.rows(point)
    figures, slopes = runs.slopes(point, which, runs.row_slopes(point, rows), rows)
    known = figures > 0
    for name in (
        "hopper.kv",
        "trt-bench.host_us",
        "nvlink4.latency_us",
        "vllm-v1.request_us",
        "vllm-v1.passes",
    ):
        place, moved = runs.names.index(name), point.copy()
        moved[place] += 1e-4
        change = (np.log(runs.predict(moved, which)[known]) - np.log(figures[known])) / 1e-4
        assert slopes[:, :, place][known] == pytest.approx(change, abs=2e-3), name


def test_fit_stays_within_bounds(runs: FitRuns) -> None:
    truth = np.array([measured(case.row) for case in runs.plans.cases])
    truth[:, 0] *= 30.0  # faster than any chip
    found = fit(runs, np.arange(len(truth)), truth, rounds=6).calibration
    constants = [c for c in read_constants() if not c.name.startswith(NOT_FITTED)]
    assert all(c.low * 0.999 <= found[c.name] <= c.high * 1.001 for c in constants)
    assert any(found[c.name] == pytest.approx(c.high) for c in constants)


def test_fit_improves_and_ignores_held_out_runs(runs: FitRuns) -> None:
    truth = np.array([measured(case.row) for case in runs.plans.cases])
    train = np.arange(0, len(truth), 2)
    found = fit(runs, train, truth, rounds=3)
    other = truth.copy()
    other[1::2] *= 3.0
    assert dict(fit(runs, train, other, rounds=3).calibration.values) == dict(
        found.calibration.values
    )
    kept = [c.value if c.name.startswith(NOT_FITTED) else c.prior for c in read_constants()]
    before = runs.predict(np.log(kept), train)
    after = runs.plans.predict(found.calibration, train)[:, :FIGURES]
    size = [np.nanmedian(np.abs(np.log(x[:, 0] / truth[train, 0]))) for x in (before, after)]
    assert size[1] < size[0]


def test_fit_does_not_change_runs(runs: FitRuns) -> None:
    open_rows = [case for case in runs.plans.cases if len(case.layouts) > 1]
    assert open_rows
    layouts = [best_layout(case) for case in open_rows]
    assert all(layout in case.layouts for layout, case in zip(layouts, open_rows, strict=True))
    planned = dict(
        zip((case.row["id"] for case in runs.plans.cases), runs.plans.layouts, strict=True)
    )
    assert [planned[case.row["id"]] for case in open_rows] == [layout for layout, _ in layouts]
