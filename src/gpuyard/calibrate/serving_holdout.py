"""Predictions of published runs by fits with a model, chip, release or source held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.calibrate.mlperf_margins import ServerMargins, is_server
from gpuyard.calibrate.serving import HeldOutFits
from gpuyard.calibrate.serving_gradient import FitRuns
from gpuyard.perf.inference.calibration import ServingCalibration
from gpuyard.perf.inference.case import ServingBenchmark
from gpuyard.perf.inference.constants import GENERATIONS
from gpuyard.perf.score import OnProgress, ignore_progress
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import measured, predictions

Reals = npt.NDArray[np.float64]
Held = Literal["model", "chip", "release", "source", "generation"]
HELD: tuple[Held, ...] = ("model", "chip", "release", "source", "generation")


def group_of(case: ServingBenchmark, by: Held) -> str:
    """Return the group that a run is held out with, such as a model shape or a chip."""
    row = case.row
    if by == "model":
        return (
            f"{case.shape.layers:.0f} x {case.shape.hidden:.0f}, {case.shape.experts:.0f} experts"
        )
    if by == "chip":
        return case.chip.counts_as or case.chip.name
    if by == "generation":
        return GENERATIONS.get(case.chip.kernels, case.chip.kernels)
    if by == "source":
        mlperf = row["scenario"].startswith("MLPerf")
        return row["notes"].split(";")[0] if mlperf else row.get("source", "").split(" (")[0]
    return f"{row['engine']} {row['engine_ver'] or row['date'][:4]}"


def hold_out(
    cases: Sequence[ServingBenchmark],
    calibration: ServingCalibration,
    by: Held,
    on_progress: OnProgress = ignore_progress,
) -> Reals:
    """Return four predicted metrics per run, each by a fit with the run's group held out.

    Idea: leave-one-group-out. Open-loop, disaggregated and MLPerf Server runs are simulated with
    that fit; server margins are fitted to the servers of the other groups.
    """
    return HeldOutGroups(cases, calibration).predict(by, on_progress)


class HeldOutGroups:
    """Schedules, fits and margins of some runs, computed once for all groupings."""

    def __init__(self, cases: Sequence[ServingBenchmark], calibration: ServingCalibration) -> None:
        self._cases = cases
        self._plans = schedules(cases, calibration)
        truth = np.array([measured(case.row) for case in self._plans.cases])
        self._fits = HeldOutFits(FitRuns(self._plans, calibration), truth)
        self._margins = ServerMargins(cases, self._fits.without(np.zeros(0, dtype=np.int64)))
        ids = [case.row["id"] for case in self._plans.cases]
        self._place = {name: index for index, name in enumerate(ids)}

    def predict(self, by: Held, on_progress: OnProgress = ignore_progress) -> Reals:
        """Return four predicted metrics per run, each from a fit without the run's group."""
        names = [group_of(case, by) for case in self._cases]
        groups = sorted(set(names))
        result = np.full((len(names), 4), np.nan)
        for turn, name in enumerate(groups):
            on_progress(turn, len(groups))
            out = [index for index, group in enumerate(names) if group == name]
            self._predict_group(out, result)
        return result

    def _predict_group(self, out: Sequence[int], result: Reals) -> None:
        ids = [self._cases[index].row["id"] for index in out]
        planned = [index for index, one in zip(out, ids, strict=True) if one in self._place]
        rest = [index for index in out if self._cases[index].row["id"] not in self._place]
        test = np.array([self._place[one] for one in ids if one in self._place], dtype=np.int64)
        fitted = self._fits.without(test)
        if planned:
            result[planned] = self._plans.predict(fitted, test)
        some = [self._cases[index] for index in rest]
        if any(is_server(case) for case in some):
            fitted = self._margins.without(set(ids), fitted)
        if rest:
            result[rest] = predictions(some, fitted)
