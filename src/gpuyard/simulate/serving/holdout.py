"""Predictions of published runs by fits that have not seen their group: whole models, chips or releases left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference import Calibration
from gpuyard.perf.inference.published import Case
from gpuyard.perf.score import unheard
from gpuyard.simulate.serving.fit import fit, read_constants, touched
from gpuyard.simulate.serving.schedules import Schedules

__all__ = ["HELD", "Held", "group_of", "hold_out"]

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Held = Literal["model", "chip", "release"]
HELD: tuple[Held, ...] = ("model", "chip", "release")
FOLDS = 5
KEPT = ("memory.", "transfer.", "mlperf.")  # set apart from the fit


def group_of(case: Case, by: Held) -> str:
    """The group that a run is left out with: models of one shape, one chip, or one release of an engine."""
    if by == "model":
        return f"{case.shape.layers:.0f} x {case.shape.hidden:.0f}, {case.shape.experts:.0f} experts"
    if by == "chip":
        return case.chip.name
    return f"{case.row['engine']} {case.row['engine_ver'] or case.row['date'][:4]}"


def hold_out(
    plans: Schedules,
    measured: Reals,
    start: Calibration,
    by: Held,
    stride: int = 4,
    rounds: int = 5,
    seed: int = 0,
    told: Callable[[int, int], None] = unheard,
) -> tuple[Reals, tuple[tuple[frozenset[str], Calibration], ...]]:
    """The four figures of every run from a fit without its group, and those fits with the groups that they lack.

    A fit is on every stride-th of the other runs; a constant that none of them touches goes back to its prior.
    """
    names = np.array([group_of(case, by) for case in plans.cases])
    groups = np.unique(names)
    np.random.default_rng(seed).shuffle(groups)
    result = np.full((len(plans.cases), 4), np.nan)
    fits = []
    for fold in range(FOLDS):
        told(fold, FOLDS)
        out = frozenset(str(name) for name in groups[fold::FOLDS])
        test = np.array([i for i, name in enumerate(names) if name in out], dtype=np.int64)
        train = np.setdiff1d(np.arange(len(names)), test)[::stride]
        found = refit(plans, train, measured, start, rounds)
        result[test] = plans.predict(found, test)
        fits.append((out, found))
    return result, tuple(fits)


def refit(plans: Schedules, rows: Ints, measured: Reals, start: Calibration, rounds: int) -> Calibration:
    """A fit to some rows that knows nothing of the others."""
    free = [constant for constant in read_constants() if not constant.name.startswith(KEPT)]
    unseen = {c.name: c.prior for c in free if not len(touched(plans, c.name, rows))}
    base = Calibration(values={**start.values, **unseen})
    return fit(plans, rows, measured, base, [c.name for c in free], rounds)
