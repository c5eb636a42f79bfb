"""Select a model: search the candidates and choose the winner within the limits."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gpuyard.errors import Infeasible
from gpuyard.learn.evaluate.metric_table import metrics_named
from gpuyard.learn.evaluate.pool import cores, open_pool
from gpuyard.learn.evaluate.splits import EvaluationSplits
from gpuyard.learn.select.choose import choose
from gpuyard.learn.select.footprint import footprint_of
from gpuyard.learn.select.search import NO_OPTIONS, SearchOptions, search
from gpuyard.learn.select.selection import Footprint, Selection, Trial
from gpuyard.learn.select.space import read_candidates
from gpuyard.learn.select.spec import SelectSpec
from gpuyard.learn.spec import TrainSpec
from gpuyard.learn.trainer import ProblemType
from gpuyard.learn.trainer_list import trainer_entry

Price = Callable[[Footprint], float]  # USD per million predictions on the planned hardware


class Export(Protocol):
    """Trains on all training rows, writes a bundle below the folder and returns its path."""

    def __call__(self, spec: TrainSpec, folder: Path) -> Path: ...


def select(
    splits: EvaluationSplits,
    spec: SelectSpec,
    problem: ProblemType,
    *,
    export: Export,
    price: Price | None = None,
    workers: int = 0,
    options: SearchOptions = NO_OPTIONS,
) -> Selection | Infeasible:
    """Search the candidates and return the winner, with a reason for every rejected trial.

    The same seed gives the same trials and scores for any number of workers. Latency and memory are
    measured, so a limit close to what a model needs may be decided either way.
    """
    candidates = read_candidates(spec.candidates)
    (metric,) = metrics_named((spec.metric,), problem, "select.metric")
    preload = sorted(
        {module for candidate in candidates for module in trainer_entry(candidate.trainer).preload}
    )
    with open_pool(workers or cores(), preload) as pool:
        result = search(splits, spec, candidates, metric, pool, options)

    def measure_footprint(trial: Trial) -> Footprint:
        with tempfile.TemporaryDirectory(prefix="gpuyard-footprint-") as folder:
            footprint = footprint_of(export(trial.train, Path(folder)))
        if price is None:
            return footprint
        return dataclasses.replace(footprint, cost_usd=price(footprint))

    decision = choose(result.trials, spec, metric, result.test_over_train, measure_footprint)
    if isinstance(decision, Infeasible):
        return decision
    return Selection(
        metric=metric.name,
        higher=metric.higher,
        search=spec.search,
        prune=spec.prune,
        seed=spec.seed,
        winner=decision.winner,
        ranking=decision.ranking,
        rejected=decision.rejected,
        against_second=decision.against_second,
        fits_count=result.fits_count,
        fits_saved_count=result.fits_saved_count,
        data=options.data,
    )
