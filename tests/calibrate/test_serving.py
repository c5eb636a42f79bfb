"""The fit of the serving model: constants share effects, and runs that are left out do not reach it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from gpuyard.calibrate.serving import HeldOutFits, fit
from gpuyard.calibrate.serving_gradient import FIGURES, FitRuns
from gpuyard.calibrate.serving_selection import eliminated
from gpuyard.catalog.load import load_catalog
from gpuyard.perf.inference.calibration import read_calibration, read_priors
from gpuyard.perf.inference.constants import read_constants
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
    constants = [constant for constant in read_constants() if constant.fitted]
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
    prior = [read_priors()[name] for name in runs.names]
    before = runs.predict(np.log(prior), train)
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


def test_a_held_out_fit_is_near_the_fit_without_the_group(runs: FitRuns) -> None:
    truth = np.array([measured(case.row) for case in runs.plans.cases])
    chips = np.array([case.chip.name for case in runs.plans.cases])
    out = np.flatnonzero(chips == "h200-sxm")
    assert 0 < len(out) < len(truth)
    quick = HeldOutFits(runs, truth).without(out)
    exact = fit(runs, np.flatnonzero(chips != "h200-sxm"), truth).calibration
    one, other = (runs.plans.predict(found, out)[:, 0] for found in (quick, exact))
    assert np.median(np.abs(np.log(one / other))) < 0.01


def test_elimination_keeps_one_of_two_effects_that_stand_for_each_other() -> None:
    curve = np.array([[100.0, 99.0, 0.0], [99.0, 100.0, 0.0], [0.0, 0.0, 100.0]])
    point = np.array([0.1, 0.1, 0.5])
    assert eliminated(point, curve, 3) == (0, 1, 2)
    left = eliminated(point, curve, 2)
    assert 2 in left
    assert len({0, 1} & set(left)) == 1
