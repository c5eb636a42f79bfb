"""`select`: candidates in, the winner and its reasons out."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpuyard.errors import Infeasible
from gpuyard.learn.evaluate.measures import measures_of
from gpuyard.learn.evaluate.parts import Parts
from gpuyard.learn.evaluate.pool import cores, open_pool
from gpuyard.learn.evaluate.run import PRELOAD
from gpuyard.learn.select.choose import choose
from gpuyard.learn.select.footprint import footprint_of
from gpuyard.learn.select.search import search
from gpuyard.learn.select.selection import Footprint, Selection, Trial
from gpuyard.learn.select.space import read_candidates
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import Problem

__all__ = ["Export", "Price", "select"]

Price = Callable[[Footprint], float]  # USD of a million predictions on the planned hardware


class Export(Protocol):
    """Trains on all training rows and writes a bundle below the folder; gives where it is."""

    def __call__(self, spec: TrainSpec, folder: Path) -> Path: ...


def select(
    parts: Parts, spec: SelectSpec, problem: Problem, *, export: Export, price: Price | None = None,
    storage: Path | None = None, data: str = "", workers: int = 0, progress: Callable[[int, int], None] | None = None,
    train: TrainSpec | None = None,
) -> Selection | Infeasible:  # fmt: skip
    """Searches the candidates by the metric under the limits; gives the winner and why the others were not it.

    `train` is the setting that is trained anyway; a candidate that holds it is first tried there.
    The same seed gives the same trials and scores, whatever the number of workers. Latency and memory are
    measured, so a limit close to what a model takes may fall either way.
    """
    candidates = read_candidates(spec.candidates)
    (measure,) = measures_of((spec.metric,), problem, "select.metric")
    preload = sorted({module for candidate in candidates for module in PRELOAD.get(candidate.trainer, ())})
    with open_pool(workers or cores(), preload) as pool:
        found = search(
            parts, spec, candidates, measure, pool, storage=storage, data=data, progress=progress, train=train
        )  # fmt: skip

    def measuring(trial: Trial) -> Footprint:
        """Exports a trial's model and measures it."""
        with tempfile.TemporaryDirectory(prefix="gpuyard-footprint-") as folder:
            taken = footprint_of(export(trial.train, Path(folder)))
        return taken if price is None else dataclasses.replace(taken, cost_usd=price(taken))

    choice = choose(found.trials, spec, measure, found.test_over_train, measuring)
    if isinstance(choice, Infeasible):
        return choice
    return Selection(
        metric=measure.name,
        higher=measure.higher,
        search=spec.search,
        prune=spec.prune,
        seed=spec.seed,
        winner=choice.winner,
        ranking=choice.ranking,
        rejected=choice.rejected,
        against_second=choice.against_second,
        fits_count=found.fits_count,
        fits_saved_count=found.fits_saved_count,
        data=data,
    )
