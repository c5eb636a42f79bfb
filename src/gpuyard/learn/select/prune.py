"""Which trials go on after a fold: decided for a whole batch at once, so arrival order does not matter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from gpuyard.learn.select.spec import Prune

__all__ = ["LEAST_FIELD", "going_on"]

LEAST_FIELD = 4  # fewer trials than this say too little to stop any
REDUCTION = 3  # of successive halving (Li et al. 2020): one in three goes on


def going_on(running: Mapping[int, float], earlier: Sequence[float], *, rule: Prune, higher: bool) -> frozenset[int]:
    """The trials of the batch that go on: `running` holds their means so far, `earlier` those of past trials.

    All means are over the same first folds. `median`: not worse than the median of all. `halving`: among the
    better third. The best trial of all always goes on.
    """
    everyone = [*running.values(), *earlier]
    if rule == "none" or len(everyone) < LEAST_FIELD:
        return frozenset(running)
    signed = np.array(everyone) if higher else -np.array(everyone)
    if rule == "median":
        mark = float(np.median(signed))
    else:
        kept = max(1, math.ceil(len(everyone) / REDUCTION))
        mark = float(np.sort(signed)[-kept])
    sign = 1.0 if higher else -1.0
    return frozenset(number for number, mean in running.items() if sign * mean >= mark)
