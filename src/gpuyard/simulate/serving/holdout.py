"""Predictions of published runs by fits that have not seen their group: whole models, chips or releases left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt

from gpuyard.perf.inference import Calibration
from gpuyard.perf.inference.published import Case
from gpuyard.perf.score import unheard
from gpuyard.simulate.serving.fit import fit
from gpuyard.simulate.serving.slopes import Runs

__all__ = ["HELD", "Held", "group_of", "hold_out"]

Reals = npt.NDArray[np.float64]
Held = Literal["model", "chip", "release"]
HELD: tuple[Held, ...] = ("model", "chip", "release")
FOLDS = 5


def group_of(case: Case, by: Held) -> str:
    """The group that a run is left out with: models of one shape, one chip, or one release of an engine."""
    if by == "model":
        return f"{case.shape.layers:.0f} x {case.shape.hidden:.0f}, {case.shape.experts:.0f} experts"
    if by == "chip":
        return case.chip.name
    return f"{case.row['engine']} {case.row['engine_ver'] or case.row['date'][:4]}"


def hold_out(
    runs: Runs,
    measured: Reals,
    by: Held,
    stride: int = 2,
    seed: int = 0,
    told: Callable[[int, int], None] = unheard,
) -> tuple[Reals, tuple[tuple[frozenset[str], Calibration], ...]]:
    """The four figures of every run from a fit without its group, and those fits with the groups that they lack.

    A fit starts from priors, on every stride-th of the other runs: nothing of a run that is left out reaches it.
    """
    names = np.array([group_of(case, by) for case in runs.plans.cases])
    groups = np.unique(names)
    np.random.default_rng(seed).shuffle(groups)
    result = np.full((len(names), 4), np.nan)
    fits = []
    for fold in range(FOLDS):
        told(fold, FOLDS)
        out = frozenset(str(name) for name in groups[fold::FOLDS])
        test = np.array([i for i, name in enumerate(names) if name in out], dtype=np.int64)
        train = np.setdiff1d(np.arange(len(names)), test)[::stride]
        found = fit(runs, train, measured).calibration
        result[test] = runs.plans.predict(found, test)
        fits.append((out, found))
    return result, tuple(fits)
