"""The end of every search: options ranked and rejections gathered into a plan, or what makes it infeasible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuyard.catalog import Catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.front import pareto_front, ranked
from gpuyard.plan.limits import Miss, infeasible, rejected
from gpuyard.plan.option import Option, Plan, Rejected
from gpuyard.plan.service import FrontierPoint
from gpuyard.units import MONEY, show
from gpuyard.workload import Workload

__all__ = ["concluded"]


def concluded(
    workload: Workload,
    catalog: Catalog,
    options: Sequence[Option],
    misses: Sequence[Miss],
    *,
    searched_count: int,
    nothing: Infeasible,
    notes: Sequence[str] = (),
    profile: str = "",
    excluded: Sequence[Rejected] = (),
    frontier: Sequence[FrontierPoint] = (),
) -> Plan | Infeasible:
    """The plan; `nothing` is said when there is not even a near miss, `excluded` families were never tried."""
    if not options:
        return infeasible(misses, nothing)
    best = ranked(pareto_front(options))
    families = {catalog.machine(option.cluster.machine).series for option in best}
    missed = rejected(misses, families)
    return Plan(
        workload=workload.name,
        task=workload.task,
        options=best,
        rejected=(*missed, *_first(excluded, families | {item.family for item in missed})),
        searched_count=searched_count,
        profile=profile,
        notes=(*notes, *_unpriced(workload, best), *_against_guidance(workload, best, catalog)),
        frontier=tuple(frontier),
    )


def _unpriced(workload: Workload, best: Sequence[Option]) -> Iterator[str]:
    """Where nothing of a provider has a price: perhaps the region is not what was meant."""
    if workload.where.provider != "onprem" and all(option.usd is None for option in best):
        where = f" in {workload.where.region}" if workload.where.region else ""
        yield f"no price of any of these is known{where}: they are ranked by time, not by cost"


def _first(excluded: Sequence[Rejected], families: set[str]) -> tuple[Rejected, ...]:
    """One rejection a family, of those not heard of yet."""
    found: dict[str, Rejected] = {}
    for item in excluded:
        if item.family not in families:
            found.setdefault(item.family, item)
    return tuple(found.values())


def _against_guidance(workload: Workload, best: Sequence[Option], catalog: Catalog) -> Iterator[str]:
    """Where the ranking puts a machine first that the provider's guidance does not name for the task, and why."""
    named = {series for row in catalog.guidance if row.task == workload.task for series in row.series}
    series = [catalog.machine(option.cluster.machine).series for option in best]
    advised = next((option for option, name in zip(best, series, strict=True) if name in named), None)
    if not named or series[0] in named or advised is None or best[0].usd is None or advised.usd is None:
        return
    costs = f"{show(best[0].usd, MONEY)} against {show(advised.usd, MONEY)}"
    yield f"{series[0]} comes first although the provider's guidance does not name it: it costs {costs}"
