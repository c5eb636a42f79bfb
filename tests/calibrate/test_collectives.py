"""The fit of the NCCL time model."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.calibrate.collectives import constants_text, fit_collectives
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, read_constants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import predicted_s

ROWS = Path(__file__).parent.parent / "simulate" / "collectives" / "nccl_rows.csv"


@pytest.fixture(scope="module")
def items() -> tuple[MeasuredCollective, ...]:
    """Published rows with the times that the model predicts."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        measured, _ = read_measured(csv.DictReader(file))
    times = predicted_s(measured, read_constants())
    return tuple(replace(item, time_s=time) for item, time in zip(measured, times, strict=True))


def test_constants_of_exact_times_are_recovered(items: tuple[MeasuredCollective, ...]) -> None:
    fit = fit_collectives(items, read_constants())
    shipped = read_constants().values
    assert fit.constants.values["nic_ratio|rdma"] == pytest.approx(
        shipped["nic_ratio|rdma"], abs=0.02
    )
    table = tomllib.loads(constants_text(fit, len(items)))
    assert list(table) == list(tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8")))
    assert all("standard_error" in cell for cell in table.values() if "spread" in cell)
