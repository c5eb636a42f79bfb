"""The fit of the NCCL time model."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gpuyard.calibrate.collectives import (
    collective_error_bars,
    constants_text,
    fit_collectives,
)
from gpuyard.simulate.collectives.constants import CONSTANTS_PATH, read_constants
from gpuyard.simulate.collectives.published_collectives import MeasuredCollective, read_measured
from gpuyard.simulate.collectives.score import (
    MEASURED,
    collective_level,
    network_of,
    predicted_s,
    score_measured,
)

ROWS = Path(__file__).parent.parent / "simulate" / "collectives" / "nccl_rows.csv"


@pytest.fixture(scope="module")
def items() -> tuple[MeasuredCollective, ...]:
    """Published rows with the times that the model predicts."""
    with ROWS.open(encoding="utf-8", newline="") as file:
        measured, _ = read_measured(csv.DictReader(file))
    times = predicted_s(measured, read_constants())
    return tuple(replace(item, time_s=time) for item, time in zip(measured, times, strict=True))


def test_network_that_one_family_has_is_far_from_the_fit_without_it(
    items: tuple[MeasuredCollective, ...],
) -> None:
    item = next(item for item in items if item.cluster.generation == "hopper")
    own = frozenset({network_of(item)})
    assert not collective_level(item, own).endswith("-unmeasured")
    other = frozenset({(item.cluster.technology, "ampere")})
    assert collective_level(item, other).endswith("-unmeasured")


def test_networks_of_published_rows_are_those_of_the_fit(
    items: tuple[MeasuredCollective, ...],
) -> None:
    assert {network_of(item) for item in items} <= MEASURED


def test_bar_of_a_fitted_network_holds_its_errors_in_the_fit(
    items: tuple[MeasuredCollective, ...],
) -> None:
    # Exact in held-out fits, 20 % off in the fit: only rows that are near after the fit count.
    fine = score_measured(items, (), read_constants())
    late = tuple(replace(item, time_s=1.2 * item.time_s) for item in items)
    fitted = score_measured(late, (), read_constants())
    far = tuple(
        replace(row, level=collective_level(row.measured, frozenset())) for row in fine.rows
    )
    near = collective_error_bars(fine, fitted)
    apart = collective_error_bars(replace(fine, rows=far), fitted)
    assert near["large|collective"].high < 0.01
    assert apart["large|collective"].high > 0.2


def test_constants_of_exact_times_are_recovered(items: tuple[MeasuredCollective, ...]) -> None:
    fit = fit_collectives(items, read_constants())
    shipped = read_constants().values
    assert fit.constants.values["nic_ratio|rdma"] == pytest.approx(
        shipped["nic_ratio|rdma"], abs=0.02
    )
    table = tomllib.loads(constants_text(fit, len(items)))
    assert list(table) == list(tomllib.loads(CONSTANTS_PATH.read_text(encoding="utf-8")))
    assert all("standard_error" in cell for cell in table.values() if "spread" in cell)
