"""Intervals of serving predictions, from errors of held-out runs."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.calibrate.serving_intervals import HeldOutError, cell_of, coverage, fit_cells
from gpuyard.perf.inference.error_bars import CellQuery, Level


def errors(level: Level, spread: float, groups: int, each: int, seed: int) -> list[HeldOutError]:
    """Errors of groups that share half of their variance."""
    rng = np.random.default_rng(seed)
    query = CellQuery(
        level=level, metric="tpot", load="closed", kind="dense", family="vllm", kernels="hopper"
    )
    return [
        HeldOutError(query=query, group=f"{level} {group}", error=float(shared + own))
        for group in range(groups)
        for shared in [spread * rng.standard_normal()]
        for own in spread * rng.standard_normal(each)
    ]


def test_bounds_cover_groups_that_they_were_not_fitted_to() -> None:
    cells = fit_cells(errors("near", 0.1, 40, 20, 1))
    assert 0.85 <= coverage(errors("near", 0.1, 200, 20, 2), cells) <= 0.96


def test_bounds_follow_a_bias_and_hold_the_prediction() -> None:
    slow = [
        HeldOutError(query=one.query, group=one.group, error=one.error + 0.3)
        for one in errors("near", 0.05, 40, 20, 1)
    ]
    cell = fit_cells(slow)["near|tpot||||"]
    assert cell.low < 0.0
    assert cell.high > 0.3 > -cell.low


def test_far_cases_are_wider_and_few_runs_take_the_coarser_cell() -> None:
    some = [*errors("near", 0.1, 10, 20, 1), *errors("far", 0.4, 10, 20, 2)]
    few = CellQuery(
        level="near", metric="tpot", load="open", kind="moe", family="sglang", kernels="rtx"
    )
    lone = HeldOutError(query=few, group="near x", error=0.05)
    cells = fit_cells([*some, lone])
    assert cells["far|tpot||||"].high > cells["near|tpot||||"].high
    assert cell_of(cells, few) == cells["near|tpot||||"]


def test_a_level_without_errors_has_no_cell() -> None:
    cells = fit_cells(errors("near", 0.1, 10, 20, 1))
    query = CellQuery(level="far", metric="tpot", load="", kind="", family="", kernels="")
    assert cell_of(cells, query) is None
    assert coverage([], cells) != pytest.approx(1.0)
