"""Predictions of published runs by fits that have not seen their group: a whole model, chip or release left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference import Calibration
from gpuyard.perf.inference.case import Case
from gpuyard.perf.score import Told, unheard
from gpuyard.simulate.serving.fit import fit
from gpuyard.simulate.serving.margins import is_server, with_margins
from gpuyard.simulate.serving.schedules import schedules
from gpuyard.simulate.serving.score import measured, predictions
from gpuyard.simulate.serving.slopes import Runs

__all__ = ["HELD", "Held", "group_of", "hold_out"]

Reals = npt.NDArray[np.float64]
Held = Literal["model", "chip", "release"]
HELD: tuple[Held, ...] = ("model", "chip", "release")


def group_of(case: Case, by: Held) -> str:
    """The group that a run is left out with: models of one shape, one chip, or one release of an engine."""
    if by == "model":
        return f"{case.shape.layers:.0f} x {case.shape.hidden:.0f}, {case.shape.experts:.0f} experts"
    if by == "chip":
        return case.chip.counts_as or case.chip.name
    return f"{case.row['engine']} {case.row['engine_ver'] or case.row['date'][:4]}"


def hold_out(cases: Sequence[Case], calibration: Calibration, by: Held, told: Told = unheard) -> Reals:
    """The four figures of every run, each from a fit without its group.

    A fit starts from priors and sees all runs of other groups: nothing of a run that is left out reaches it. Runs in
    real time are simulated with that fit, and margins of MLPerf servers taken again from those of other groups.
    """
    plans = schedules(cases, calibration)
    runs, truth = Runs(plans, calibration), np.array([measured(case.row) for case in plans.cases])
    place = {case.row["id"]: index for index, case in enumerate(plans.cases)}
    names = [group_of(case, by) for case in cases]
    groups = sorted(set(names))
    result = np.full((len(cases), 4), np.nan)
    whole: Calibration | None = None
    for turn, name in enumerate(groups):
        told(turn, len(groups))
        out = [index for index, found in enumerate(names) if found == name]
        planned = [index for index in out if cases[index].row["id"] in place]
        rest = [index for index in out if cases[index].row["id"] not in place]
        test = np.array([place[cases[index].row["id"]] for index in planned], dtype=np.int64)
        if planned:
            found = fit(runs, np.setdiff1d(np.arange(len(truth)), test), truth).calibration
            result[planned] = plans.predict(found, test)
        else:  # runs in real time are in no fit
            found = whole = whole or fit(runs, np.arange(len(truth)), truth).calibration
        if any(is_server(cases[index]) for index in rest):
            found = with_margins([case for case, group in zip(cases, names, strict=True) if group != name], found)
        if rest:
            result[rest] = predictions([cases[index] for index in rest], found)
    return result
