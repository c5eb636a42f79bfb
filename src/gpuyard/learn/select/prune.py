"""Pruning: which trials continue after a fold, decided for a whole batch at once.

Deciding per batch makes the outcome independent of the order in which results arrive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpuyard.learn.evaluate.intervals import statistics
from gpuyard.learn.select.spec import Prune

MIN_TRIALS = 4  # with fewer trials, none is pruned
MIN_FOLDS = 2  # one fold says nothing about its own noise
NOISE_P_VALUE = 0.1  # one-sided: at most one good trial in ten is pruned by chance
REDUCTION = 3  # successive halving (Li et al. 2020): one in three continues


def surviving_trials(
    running: Mapping[int, float], earlier: Sequence[float], *, rule: Prune, higher: bool
) -> frozenset[int]:
    """Return the trials of the batch that continue.

    `running` holds their mean scores so far, `earlier` those of past trials, all over the same
    first folds. `median` keeps scores not worse than the median of all, `halving` the better third;
    `is_clearly_worse` then spares what the median drops by chance.
    The best trial always continues.
    """
    scores = [*running.values(), *earlier]
    if rule == "none" or len(scores) < MIN_TRIALS:
        return frozenset(running)
    signed = np.array(scores) if higher else -np.array(scores)
    if rule == "median":
        threshold = float(np.median(signed))
    else:
        survivor_count = max(1, math.ceil(len(scores) / REDUCTION))
        threshold = float(np.sort(signed)[-survivor_count])
    sign = 1.0 if higher else -1.0
    return frozenset(number for number, mean in running.items() if sign * mean >= threshold)


def is_clearly_worse(scores: Sequence[float], best: Sequence[float], *, higher: bool) -> bool:
    """Return whether a trial is worse than the best one by more than the noise of the folds.

    A one-sided paired t test on the same folds: the folds differ in difficulty far more than
    trials do, and that difference cancels.
    """
    sign = 1.0 if higher else -1.0
    gaps = sign * (np.asarray(best, dtype=np.float64) - np.asarray(scores, dtype=np.float64))
    count = len(gaps)
    if count < MIN_FOLDS:
        return False
    error = float(gaps.std(ddof=1)) / math.sqrt(count)
    if error == 0:
        return bool(gaps.mean() > 0)
    return float(statistics().t.sf(gaps.mean() / error, count - 1)) < NOISE_P_VALUE
