"""Predictions of published runs by fits that held out their model, chip or release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.mlperf_margins import is_server, with_margins
from gpuyard.calibrate.serving import fit
from gpuyard.calibrate.serving_gradient import FitRuns
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.score import OnProgress, ignore_progress
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import measured, predictions

Reals = npt.NDArray[np.float64]
Held = Literal["model", "chip", "release"]
HELD: tuple[Held, ...] = ("model", "chip", "release")


def group_of(case: ServingBenchmark, by: Held) -> str:
    """Return the group a run is held out with: a model shape, a chip or an engine release."""
    if by == "model":
        return (
            f"{case.shape.layers:.0f} x {case.shape.hidden:.0f}, {case.shape.experts:.0f} experts"
        )
    if by == "chip":
        return case.chip.counts_as or case.chip.name
    return f"{case.row['engine']} {case.row['engine_ver'] or case.row['date'][:4]}"


def hold_out(
    cases: Sequence[ServingBenchmark],
    calibration: ServingCalibration,
    by: Held,
    on_progress: OnProgress = ignore_progress,
) -> Reals:
    """Return four predicted metrics per run, each from a fit that held out the run's group.

    Idea: leave-one-group-out. Invariant: a fit starts from priors and sees the runs of the other
    groups only. Open-loop runs are simulated with that fit; MLPerf margins are fitted again to the
    other groups.
    """
    plans = schedules(cases, calibration)
    runs = FitRuns(plans, calibration)
    truth = np.array([measured(case.row) for case in plans.cases])
    place = {case.row["id"]: index for index, case in enumerate(plans.cases)}
    names = [group_of(case, by) for case in cases]
    groups = sorted(set(names))
    result = np.full((len(cases), 4), np.nan)
    full: ServingCalibration | None = None
    for turn, name in enumerate(groups):
        on_progress(turn, len(groups))
        out = [index for index, group in enumerate(names) if group == name]
        planned = [index for index in out if cases[index].row["id"] in place]
        rest = [index for index in out if cases[index].row["id"] not in place]
        test = np.array([place[cases[index].row["id"]] for index in planned], dtype=np.int64)
        if planned:
            fitted = fit(runs, np.setdiff1d(np.arange(len(truth)), test), truth).calibration
            result[planned] = plans.predict(fitted, test)
        else:  # open-loop runs are in no fit
            fitted = full = full or fit(runs, np.arange(len(truth)), truth).calibration
        if any(is_server(cases[index]) for index in rest):
            others = [case for case, group in zip(cases, names, strict=True) if group != name]
            fitted = with_margins(others, fitted)
        if rest:
            result[rest] = predictions([cases[index] for index in rest], fitted)
    return result
