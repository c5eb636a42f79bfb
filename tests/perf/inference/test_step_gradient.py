"""Slopes of a step's time by its coefficients agree with what moving each of them does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.perf.inference.serving_cases import served

from gpuyard.perf.inference.calibration import read_calibration
from gpuyard.perf.inference.columns import COLUMNS
from gpuyard.perf.inference.roofline_terms import costs_row
from gpuyard.perf.inference.step import step_time_s
from gpuyard.perf.inference.step_gradient import step_slopes

SET = {
    "experts",
    "experts_per_token",
    "expert_spread",
    "window_tokens",
    "all_reduce_half",
    "beams",
    "reread",
    "ranks",
    "stages",
    "pads",
}  # no constants
STEPS = (
    (0.0, 0.0, 48.0, 48e3, 48.0),
    (4096.0, 8e6, 32.0, 64e3, 34.0),
    (16.0, 200.0, 1.0, 100.0, 1.0),
)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("step", STEPS)
def test_slopes_are_what_a_small_change_does(
    model: str, beams: int, step: tuple[float, float, float, float, float]
) -> None:
    case = served(model, "h100-sxm", tp=2)
    engine = replace(case.engine, beams=beams)
    row = costs_row(case.shape, case.chip, case.precision, case.layout, engine, read_calibration())
    slope = np.zeros(len(COLUMNS))
    time_s = step_slopes(row, *step, slope)
    assert time_s == pytest.approx(step_time_s(row, *step), rel=1e-12)
    for k, name in enumerate(COLUMNS):
        if name in SET or row[k] == 0.0:
            continue
        moved = row.copy()
        moved[k] *= 1.0 + 1e-6
        change = (step_time_s(moved, *step) - time_s) / (moved[k] - row[k])
        assert slope[k] == pytest.approx(change, rel=1e-3, abs=1e-6 * time_s / row[k]), name
