"""Margins of MLPerf Server submissions against the simulated maximum rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.simulate.serving.predict_published import SHORT_S
from gpuyard.simulate.serving.score import measured, predictions

NAMES = ("mlperf.server_ratio", "mlperf.interactive_ratio")
LEAST_RUNS = 5  # for a median; with fewer, the margin of Server runs applies


def is_server(case: ServingBenchmark) -> bool:
    """Return whether a run is of the MLPerf Server or Interactive scenario."""
    return case.load.kind == "mlperf-server"


def with_margins(
    cases: Sequence[ServingBenchmark], calibration: ServingCalibration
) -> ServingCalibration:
    """Return the calibration with margins fitted to the MLPerf servers among these runs."""
    servers = [case for case in cases if is_server(case)]
    without = ServingCalibration(values={**calibration.values, **dict.fromkeys(NAMES, 1.0)})
    if len(servers) < LEAST_RUNS:
        return calibration
    truth = np.array([measured(case.row)[0] for case in servers])
    ratio = truth / predictions(servers, without)[:, 0]
    short = np.array([case.load.ceiling.tpot_s < SHORT_S for case in servers])
    server = _median(ratio[~short], 1.0)
    margins = {
        "mlperf.server_ratio": server,
        "mlperf.interactive_ratio": _median(ratio[short], server),
    }
    return ServingCalibration(values={**calibration.values, **margins})


def _median(ratios: np.ndarray[tuple[int], np.dtype[np.float64]], default: float) -> float:
    """Return the median, or the default with few runs."""
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) >= LEAST_RUNS else default
