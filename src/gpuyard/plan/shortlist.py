"""Time the first options of a plan again with a slower, more accurate network model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpuyard.catalog.machines import Machine
from gpuyard.perf.collectives import NetworkModel
from gpuyard.perf.constants import TrainingConstants
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, LayoutTable
from gpuyard.plan.limits import LimitViolation
from gpuyard.plan.option import Option, ParallelLayout
from gpuyard.plan.pareto import DEFAULT_RULES, RankingRules, pareto_front, ranked

SHORTLIST = 12
# The network of N machines of a type with the given switch; None where it adds nothing to the
# closed form.
Networks = Callable[[Machine, int, str | None, TrainingConstants], NetworkModel | None]


def retime_shortlist(
    options: Sequence[Option],
    retime: Callable[[Option], Option | LimitViolation | None],
    count: int = SHORTLIST,
    rules: RankingRules = DEFAULT_RULES,
) -> tuple[list[Option], list[LimitViolation]]:
    """Time the first `count` options again; return all options, and those that now miss a limit.

    Options that move up into the first ranks are timed again as well.
    """
    current = {_key(option): option for option in options}
    done: set[tuple[str, int, str]] = set()
    misses: list[LimitViolation] = []
    while todo := [
        option
        for option in ranked(pareto_front(list(current.values())), rules)[:count]
        if _key(option) not in done
    ]:
        for option in todo:
            result = retime(option)
            done.add(_key(option))
            if isinstance(result, Option):
                current[_key(option)] = result
            elif result is not None:
                misses.append(result)
                del current[_key(option)]
    return list(current.values()), misses


def _key(option: Option) -> tuple[str, int, str]:
    return option.cluster.machine, option.cluster.machine_count, option.precision


def single_layout(layout: ParallelLayout, chips: int) -> LayoutTable:
    """Return a table with one layout."""
    numbers = {
        "chips": chips,
        "tp": layout.tp,
        "pp": layout.pp,
        "cp": layout.cp,
        "dp": layout.dp,
        "ep": layout.ep,
        "micro_batch": layout.micro_batch,
        "gradient_accumulation": layout.gradient_accumulation,
        "virtual_stages": layout.virtual_stages,
        "sharding": SHARDING.index(layout.sharding),
        "recompute": RECOMPUTE.index(layout.recompute),
        "offload": OFFLOAD.index(layout.offload),
    }
    return LayoutTable(
        **{name: np.array([value], dtype=np.int64) for name, value in numbers.items()}
    )
