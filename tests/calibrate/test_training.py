"""The fit: it recovers a slower stack, does not depend on its start, and writes what it fitted."""

from __future__ import annotations

import csv
import math
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from gpuyard.calibrate.training import (
    ParameterSpace,
    calibration_text,
    fit_training,
    refit,
)
from gpuyard.perf.calibration import PATH, TrainingCalibration, read_calibration, scalar
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.profiles import find_profile
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import errors, predict, scored_rows

from ..perf.cases import CATALOG

CURATED = Path(__file__).parent.parent / "accuracy" / "training_runs.csv"
SHIPPED = read_calibration()
SLOWED, BY = "nemo-25", 0.2


@pytest.fixture(scope="module")
def runs() -> PublishedRuns:
    """The curated table, with steps as the model predicts them; one stack is slower than the calibration says."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        found = read_runs(csv.DictReader(file), CATALOG)
    rows, key = scored_rows(found), f"profile|{SLOWED}"
    truth = replace(SHIPPED, effects=dict(SHIPPED.effects) | {key: SHIPPED.effects[key] + BY})
    reference = np.full(len(found.rows), np.nan)
    reference[rows] = predict(found, truth, rows)
    return replace(found, reference_s=reference)


@pytest.fixture(scope="module")
def fitted(runs: PublishedRuns) -> TrainingCalibration:
    """What a quick fit to those steps finds."""
    return refit(runs, scored_rows(runs), SHIPPED)


def change(found: TrainingCalibration, name: str) -> float:
    """By how much the logarithm of a stack's scalar moved."""
    profile = find_profile(name)
    return math.log(scalar(found, profile, False) / scalar(SHIPPED, profile, False))


def test_fit_recovers_slower_stack(fitted: TrainingCalibration) -> None:
    assert change(fitted, SLOWED) == pytest.approx(BY, abs=0.06)
    for other in ("composer-fsdp-2023", "megatron-deepspeed-2023", "maxtext-tpu-2023"):
        assert abs(change(fitted, other)) < 0.08, other


def test_fit_improves_on_start(runs: PublishedRuns, fitted: TrainingCalibration) -> None:
    rows = scored_rows(runs)
    before, after = (
        errors(predict(runs, found, rows), runs.reference_s[rows]) for found in (SHIPPED, fitted)
    )
    assert after.mean_abs_error is not None
    assert before.mean_abs_error is not None
    assert after.mean_abs_error < before.mean_abs_error


def test_fit_does_not_depend_on_its_start(runs: PublishedRuns, fitted: TrainingCalibration) -> None:
    rows = scored_rows(runs)
    other = predict(runs, fit_training(runs, rows).calibration, rows)
    assert np.abs(np.log(other / predict(runs, fitted, rows))).max() < 2e-3


def test_point_and_values_are_inverse() -> None:
    space, scale = ParameterSpace(), ParameterSpace().scale
    point = np.linspace(-3.0, 3.0, len(space.names))
    assert scale.point(scale.values(point)) == pytest.approx(point)
    assert np.all(scale.values(point) < scale.limit)


def test_fit_round_trips(runs: PublishedRuns, fitted: TrainingCalibration) -> None:
    rows = scored_rows(runs)
    table = tomllib.loads(calibration_text(fit_training(runs, rows, fitted), runs, rows))
    shipped = tomllib.loads(PATH.read_text(encoding="utf-8"))
    for kind in ("constant", "ratio"):
        assert list(table[kind]) == list(shipped[kind])
        for name, cell in table[kind].items():
            assert set(cell) == set(shipped[kind][name]), name
            for key in set(cell) - {"value", "standard_error"}:
                assert cell[key] == shipped[kind][name][key], name
    for field in fields(TrainingConstants):
        assert table["constant"][field.name]["value"] == pytest.approx(
            getattr(fitted.constants, field.name), rel=0.1
        )
    assert table["effect"][f"profile|{SLOWED}"]["value"] == pytest.approx(
        fitted.effects[f"profile|{SLOWED}"], abs=1e-3
    )
