"""The serving model against published runs, with the shipped constants.

`inference_runs.csv` is a part of the table of published runs that the model was fitted to: one row of each combination of
source, kind of chip and kind of model (the middle one), and the rest of its rows evenly spaced. No row was chosen for its
error. These bounds guard against getting worse; they are no estimate: docs/concepts/inference-model.md
has the errors of the whole table and of runs that were held out of the fit. Every row is as the whole table has it.

GPUYARD_PUBLISHED names a folder with the full table; every eighth row of it is then scored as well.
"""

from __future__ import annotations

import csv
import os
from itertools import islice
from pathlib import Path

import pytest

from gpuyard.catalog.load import load_catalog
from gpuyard.simulate.serving.score import ServingScore, score

CURATED = Path(__file__).parent / "inference_runs.csv"
MOST_ROWS = 200
STRIDE = 8  # of the full table; `python bench/accuracy_inference.py` scores every row


def scored(path: Path, stride: int = 1) -> ServingScore:
    """Score every `stride`-th row of a table."""
    with path.open(newline="", encoding="utf-8") as file:
        return score(islice(csv.DictReader(file), 0, None, stride), load_catalog())


@pytest.fixture(scope="module")
def curated() -> ServingScore:
    """The score of the curated rows."""
    return scored(CURATED)


def test_table_is_small_and_every_row_is_scored(curated: ServingScore) -> None:
    assert 150 <= curated.rows <= MOST_ROWS
    assert not curated.unsupported
    assert curated.scored == curated.rows


def test_errors_stay_within_what_is_stated(curated: ServingScore) -> None:
    throughput, tpot, ttft, e2e = (
        getattr(curated.metrics, name) for name in ("throughput", "tpot", "ttft", "e2e")
    )
    assert throughput.rows > 90
    assert throughput.median_abs_error < 0.10
    assert tpot.rows > 40
    assert tpot.median_abs_error < 0.13
    assert ttft.median_abs_error < 0.33
    assert e2e.median_abs_error < 0.15
    assert abs(throughput.bias) < 0.15


def test_offline_throughput_is_close(curated: ServingScore) -> None:
    offline = next(group for group in curated.by_scenario if group.name == "offline max-throughput")
    found = offline.metrics.throughput
    assert found.rows > 60
    assert found.median_abs_error is not None
    assert found.median_abs_error < 0.08


def test_sample_of_the_full_table_where_available() -> None:
    folder = os.environ.get("GPUYARD_PUBLISHED", "")
    path = Path(folder) / "inference_runs.csv"
    if not folder or not path.exists():
        reason = "GPUYARD_PUBLISHED names no folder with inference_runs.csv"
        if os.environ.get("GPUYARD_REQUIRE_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    sample = scored(path, STRIDE)
    assert len(sample.unsupported) < 0.1 * sample.rows
    metrics = sample.metrics
    assert metrics.throughput.median_abs_error is not None
    assert metrics.throughput.median_abs_error < 0.08
    assert metrics.tpot.median_abs_error is not None
    assert metrics.tpot.median_abs_error < 0.11
