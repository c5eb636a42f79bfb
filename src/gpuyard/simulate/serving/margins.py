"""Margins of MLPerf servers: what submitters reach of the highest rate that a simulation finds, as medians of runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.perf.inference import Calibration
from gpuyard.perf.inference.case import Case
from gpuyard.simulate.serving.published import SHORT_S
from gpuyard.simulate.serving.score import measured, predictions

__all__ = ["is_server", "with_margins"]

NAMES = ("mlperf.server_ratio", "mlperf.interactive_ratio")
LEAST_RUNS = 5  # for a median; below it, the margin is that of servers


def is_server(case: Case) -> bool:
    """Whether a run is an MLPerf server's."""
    return case.load.kind == "mlperf-server"


def with_margins(cases: Sequence[Case], calibration: Calibration) -> Calibration:
    """The calibration with the margins that these runs show; runs of other kinds are passed over."""
    servers = [case for case in cases if is_server(case)]
    whole = Calibration(values={**calibration.values, **dict.fromkeys(NAMES, 1.0)})
    if len(servers) < LEAST_RUNS:
        return calibration
    truth = np.array([measured(case.row)[0] for case in servers])
    ratio = truth / predictions(servers, whole)[:, 0]
    short = np.array([case.load.ceiling.tpot_s < SHORT_S for case in servers])
    server = _median(ratio[~short], 1.0)
    found = {
        "mlperf.server_ratio": server,
        "mlperf.interactive_ratio": _median(ratio[short], server),
    }
    return Calibration(values={**calibration.values, **found})


def _median(ratios: np.ndarray[tuple[int], np.dtype[np.float64]], few: float) -> float:
    """The median; another number where there are few."""
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) >= LEAST_RUNS else few
