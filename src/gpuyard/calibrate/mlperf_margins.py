"""Margins of MLPerf Server runs: measured rate over the simulated maximum, queueing steps."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.simulate.serving.predict_published import INTERACTIVE_TPOT_S
from gpuyard.simulate.serving.score import measured, predictions

RATIOS = ("mlperf.server_ratio", "mlperf.interactive_ratio")
WAITS = ("mlperf.trt_wait_steps", "mlperf.http_wait_steps")
MIN_RUNS = 5  # for a median; with fewer, the margin of Server runs applies
CANDIDATE_STEPS = np.arange(0.1, 10.0, 0.1)
Reals = npt.NDArray[np.float64]


def is_server(case: ServingBenchmark) -> bool:
    """Return whether a run is of the MLPerf Server or Interactive scenario."""
    return case.load.kind == "mlperf-server"


def with_margins(
    cases: Sequence[ServingBenchmark], calibration: ServingCalibration
) -> ServingCalibration:
    """Return the calibration with margins fitted to the MLPerf servers among these runs."""
    return ServerMargins(cases, calibration).without(set(), calibration)


class ServerMargins:
    """Server runs and their predictions without margins, from which margins are quick to fit."""

    def __init__(self, cases: Sequence[ServingBenchmark], calibration: ServingCalibration) -> None:
        self._servers = [case for case in cases if is_server(case)]
        none = calibration.replaced(dict.fromkeys(RATIOS, 1.0) | dict.fromkeys(WAITS, 0.0))
        self._truth = np.array([measured(case.row) for case in self._servers]).reshape(-1, 4)
        self._predicted = predictions(self._servers, none)

    def without(self, ids: Set[str], calibration: ServingCalibration) -> ServingCalibration:
        """Return the calibration with margins fitted to all servers except these rows."""
        rest = np.array([case.row["id"] not in ids for case in self._servers], dtype=bool)
        if rest.sum() < MIN_RUNS:
            return calibration
        ratio = self._truth[:, 0] / self._predicted[:, 0]
        interactive = np.array(
            [case.load.ceiling.tpot_s < INTERACTIVE_TPOT_S for case in self._servers]
        )
        trt = np.array([case.engine.family == "tensorrt-llm" for case in self._servers])
        server = _median(ratio[rest & ~interactive], 1.0)
        margins = {
            "mlperf.server_ratio": server,
            "mlperf.interactive_ratio": _median(ratio[rest & interactive], server),
        }
        for name, rows in zip(WAITS, (rest & trt, rest & ~trt), strict=True):
            steps = wait_steps(
                self._predicted[rows, 2], self._predicted[rows, 1], self._truth[rows, 2]
            )
            margins[name] = calibration[name] if steps is None else steps
        return calibration.replaced(margins)


def wait_steps(engine_s: Reals, token_s: Reals, measured_s: Reals) -> float | None:
    """Return the wait in steps that predicts TTFT best; None with few runs.

    Best has the lowest mean of |log(predicted / measured)|, which is robust to a few overloaded
    runs.
    """
    known = np.isfinite(engine_s) & np.isfinite(token_s) & np.isfinite(measured_s)
    if known.sum() < MIN_RUNS:
        return None
    predicted = engine_s[known, None] + CANDIDATE_STEPS * token_s[known, None]
    error = np.abs(np.log(predicted / measured_s[known, None])).mean(axis=0)
    return float(CANDIDATE_STEPS[int(np.argmin(error))])


def _median(ratios: Reals, default: float) -> float:
    """Return the median, or the default with few runs."""
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) >= MIN_RUNS else default
