"""Margins of MLPerf servers: rate over the simulated maximum, steps before a prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.simulate.serving.predict_published import SHORT_S
from gpuyard.simulate.serving.score import measured, predictions

RATIOS = ("mlperf.server_ratio", "mlperf.interactive_ratio")
WAITS = ("mlperf.trt_wait_steps", "mlperf.http_wait_steps")
LEAST_RUNS = 5  # for a median; with fewer, the margin of Server runs applies
STEPS = np.arange(0.1, 10.0, 0.1)  # candidates
Reals = npt.NDArray[np.float64]


def is_server(case: ServingBenchmark) -> bool:
    """Return whether a run is of the MLPerf Server or Interactive scenario."""
    return case.load.kind == "mlperf-server"


def with_margins(
    cases: Sequence[ServingBenchmark], calibration: ServingCalibration
) -> ServingCalibration:
    """Return the calibration with margins fitted to the MLPerf servers among these runs."""
    servers = [case for case in cases if is_server(case)]
    without = calibration.replaced(dict.fromkeys(RATIOS, 1.0) | dict.fromkeys(WAITS, 0.0))
    if len(servers) < LEAST_RUNS:
        return calibration
    truth = np.array([measured(case.row) for case in servers])
    predicted = predictions(servers, without)
    ratio = truth[:, 0] / predicted[:, 0]
    short = np.array([case.load.ceiling.tpot_s < SHORT_S for case in servers])
    server = _median(ratio[~short], 1.0)
    margins = {
        "mlperf.server_ratio": server,
        "mlperf.interactive_ratio": _median(ratio[short], server),
    }
    trt = np.array([case.engine.family == "tensorrt-llm" for case in servers])
    for name, rows in zip(WAITS, (trt, ~trt), strict=True):
        steps = wait_steps(predicted[rows, 2], predicted[rows, 1], truth[rows, 2])
        margins[name] = calibration[name] if steps is None else steps
    return calibration.replaced(margins)


def wait_steps(engine_s: Reals, token_s: Reals, measured_s: Reals) -> float | None:
    """Return the steps that bring times to first token closest; None with few runs.

    Closest is the least mean of |log(predicted / measured)|, which a few overloaded runs do not
    move.
    """
    known = np.isfinite(engine_s) & np.isfinite(token_s) & np.isfinite(measured_s)
    if known.sum() < LEAST_RUNS:
        return None
    predicted = engine_s[known, None] + STEPS * token_s[known, None]
    far = np.abs(np.log(predicted / measured_s[known, None])).mean(axis=0)
    return float(STEPS[int(np.argmin(far))])


def _median(ratios: Reals, default: float) -> float:
    """Return the median, or the default with few runs."""
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) >= LEAST_RUNS else default
