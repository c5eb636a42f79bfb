"""The first options of a plan, timed once more by a network model that is too slow for every candidate."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpuyard.catalog import Machine
from gpuyard.perf import Constants, NetworkModel
from gpuyard.plan.front import pareto_front, ranked
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, Ways
from gpuyard.plan.limits import Miss
from gpuyard.plan.option import Arrangement, Option

__all__ = ["SHORTLIST", "Networks", "one_way", "timed_again"]

SHORTLIST = 12
# The network of so many machines of a kind, with the switch that the file names; None where it cannot say more than
# the closed forms.
Networks = Callable[[Machine, int, str | None, Constants], NetworkModel | None]


def timed_again(
    options: Sequence[Option], again: Callable[[Option], Option | Miss | None], count: int = SHORTLIST
) -> tuple[list[Option], list[Miss]]:
    """The options, of which the first `count` in rank are timed again, and those that then miss a limit.

    What rises into the first ranks when others fall is timed again as well.
    """
    kept = {_key(option): option for option in options}
    done: set[tuple[str, int, str]] = set()
    misses: list[Miss] = []
    while todo := [option for option in ranked(pareto_front(list(kept.values())))[:count] if _key(option) not in done]:
        for option in todo:
            found = again(option)
            done.add(_key(option))
            if isinstance(found, Option):
                kept[_key(option)] = found
            elif found is not None:
                misses.append(found)
                del kept[_key(option)]
    return list(kept.values()), misses


def _key(option: Option) -> tuple[str, int, str]:
    """What tells options apart."""
    return option.cluster.machine, option.cluster.machine_count, option.precision


def one_way(arrangement: Arrangement, chips: int) -> Ways:
    """An arrangement as the only layout of a search."""
    numbers = {
        "chips": chips,
        "tp": arrangement.tp,
        "pp": arrangement.pp,
        "cp": arrangement.cp,
        "dp": arrangement.dp,
        "ep": arrangement.ep,
        "micro_batch": arrangement.micro_batch,
        "gradient_accumulation": arrangement.gradient_accumulation,
        "virtual_stages": arrangement.virtual_stages,
        "sharding": SHARDING.index(arrangement.sharding),
        "recompute": RECOMPUTE.index(arrangement.recompute),
        "offload": OFFLOAD.index(arrangement.offload),
    }
    return Ways(**{name: np.array([value], dtype=np.int64) for name, value in numbers.items()})
