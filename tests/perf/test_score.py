"""Errors against published runs: the summary, the sources, and what hold-outs really hold out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.perf.calibration import TrainingCalibration, read_calibration
from gpuyard.perf.runs import PublishedRuns, read_runs
from gpuyard.perf.score import (
    POINTS,
    Fit,
    Index,
    errors,
    group_folds,
    hold_out,
    predict,
    scored_rows,
    source_of,
    three_points,
)

from .cases import CATALOG

CURATED = Path(__file__).parent.parent / "accuracy" / "training_runs.csv"
CALIBRATION = read_calibration()


@pytest.fixture(scope="module")
def runs() -> PublishedRuns:
    """The curated table."""
    with CURATED.open(newline="", encoding="utf-8") as file:
        return read_runs(csv.DictReader(file), CATALOG)


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=50))
def test_errors(ratios: list[float]) -> None:
    found = errors(np.array(ratios), np.ones(len(ratios)))
    size = np.abs(np.array(ratios) - 1.0)
    assert found.rows == len(ratios)
    assert found.mean_abs_error == pytest.approx(size.mean())
    assert found.median_abs_error is not None
    assert found.p90_abs_error is not None
    assert found.median_abs_error <= found.p90_abs_error + 1e-12
    assert found.bias == pytest.approx(np.mean(ratios) - 1.0)


def test_only_what_was_measured_is_scored(runs: PublishedRuns) -> None:
    found = errors(np.array([1.1, 2.0, np.nan]), np.array([1.0, np.nan, 1.0]))
    assert found.rows == 1
    assert found.mean_abs_error == pytest.approx(0.1)
    assert errors(np.array([]), np.array([])).mean_abs_error is None
    rows = scored_rows(runs)
    assert np.isfinite(runs.reference_s[rows]).all()
    assert len(rows) == np.isfinite(runs.reference_s).sum()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("llmf-004", "llmf"),
        ("bloom-pre-119", "bloom"),
        ("bloom-001", "bloom"),
        ("sc21-012a", "sc21"),
        ("own", "own"),
    ],
)
def test_sources(name: str, source: str) -> None:
    assert source_of(name) == source


def test_multiplier_scales_device_time(runs: PublishedRuns) -> None:
    rows = scored_rows(runs)
    usual, slower = predict(runs, CALIBRATION, rows), predict(runs, CALIBRATION, rows, 1.1)
    assert np.isfinite(usual).all()
    assert (slower >= usual).all()
    assert (slower <= 1.1 * usual * (1 + 1e-9)).all()


def _watched(seen: list[Index]) -> Fit:
    """A fit that only notes which rows it was given."""

    def fit(_: PublishedRuns, rows: Index, start: TrainingCalibration) -> TrainingCalibration:
        seen.append(rows)
        return start

    return fit


def test_groups_are_held_out_completely(runs: PublishedRuns) -> None:
    seen: list[Index] = []
    found = hold_out(runs, group_folds(runs), CALIBRATION, _watched(seen))
    rows = scored_rows(runs)
    assert np.isfinite(found[rows]).all()
    group = [f"{source_of(row['id'])}|{row['model']}|{row['chip']}" for row in runs.rows]
    out = [np.setdiff1d(rows, part) for part in seen]
    assert sorted(np.concatenate(out)) == sorted(rows)  # each row once
    for held, fitted in zip(out, seen, strict=True):
        assert not {group[i] for i in held} & {group[i] for i in fitted}
    np.testing.assert_allclose(found[rows], predict(runs, CALIBRATION, rows))


def test_sources_are_held_out_completely_and_three_points_are_not_scored(
    runs: PublishedRuns,
) -> None:
    seen: list[Index] = []
    names = [source_of(row["id"]) for row in runs.rows]
    bare = hold_out(runs, names, CALIBRATION, _watched(seen))
    tuned = three_points(runs, bare)
    rows = scored_rows(runs)
    source = [source_of(row["id"]) for row in runs.rows]
    for fitted in seen:
        held = np.setdiff1d(rows, fitted)
        assert len({source[i] for i in held}) == 1
        assert source[held[0]] not in {source[i] for i in fitted}
    assert np.isfinite(bare[rows]).all()
    stacks: dict[tuple[str, str, bool], list[int]] = {}
    for i in rows:
        stacks.setdefault(
            (source[i], runs.profiles[i].name, bool(runs.arch.experts[i] > 0)), []
        ).append(int(i))
    for members in stacks.values():
        scored = np.isfinite(tuned[members]).sum()
        assert scored == max(len(members) - POINTS, 0)


def test_three_points_remove_what_a_stack_is_slower_by(runs: PublishedRuns) -> None:
    """Rows that are all 1.3 times as slow as predicted: known after three of them."""
    rows = scored_rows(runs)
    slow = np.full(len(runs.rows), np.nan)
    slow[rows] = 1.3 * predict(runs, CALIBRATION, rows)
    slower = replace(runs, reference_s=slow)
    bare = np.full(len(runs.rows), np.nan)
    bare[rows] = predict(runs, CALIBRATION, rows)
    tuned = three_points(slower, bare)
    zero_shot, three = errors(bare, slow), errors(tuned, slow)
    assert zero_shot.mean_abs_error == pytest.approx(1 - 1 / 1.3)
    assert three.mean_abs_error is not None
    assert three.mean_abs_error < 0.02  # launch-bound layers and small steps do not scale


def test_coverage_counts_measurements_between_the_bounds() -> None:
    measured = np.array([0.8, 1.0, 1.2, 1.5])
    low, high = np.full(4, np.log(0.85)), np.full(4, np.log(1.25))
    assert errors(np.ones(4), measured, bounds=(low, high)).coverage == 0.5
    assert errors(np.ones(4), measured, np.full(4, 0.25)).coverage == 0.75
    assert errors(np.ones(4), measured).coverage is None
