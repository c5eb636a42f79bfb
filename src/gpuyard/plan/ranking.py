"""Turn the outcome of a search into a ranked plan, or into the reason why it is infeasible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyard.catalog.google_skus import SERIES
from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.limits import LimitViolation, infeasible, rejected
from gpuyard.plan.option import Option, Plan, RejectedFamily
from gpuyard.plan.pareto import pareto_front, ranked, ranking_rules
from gpuyard.plan.service import FrontierPoint
from gpuyard.units import MONEY, show
from gpuyard.workload.workload import Workload

MAX_REASONS = 4  # listed where no machine is left
MAX_FIXES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOutcome:
    """Everything a search over candidates produced."""

    options: Sequence[Option]
    violations: Sequence[LimitViolation]
    searched_count: int
    otherwise: Infeasible  # reported when there is neither an option nor a near miss
    notes: Sequence[str] = ()
    profile: str = ""
    excluded: Sequence[RejectedFamily] = ()  # families that were never tried
    frontier: Sequence[FrontierPoint] = ()


def conclude_plan(
    workload: Workload, catalog: Catalog, outcome: SearchOutcome
) -> Plan | Infeasible:
    """Return the ranked plan, or Infeasible with the binding constraint of the nearest miss."""
    if not outcome.options:
        return infeasible(outcome.violations, _nothing_left(outcome))
    rules = ranking_rules(workload)
    best = ranked(pareto_front(outcome.options), rules)
    families = {catalog.machine(option.cluster.machine).series for option in best}
    missed = rejected(outcome.violations, families)
    reported = families | {item.family for item in missed}
    return Plan(
        workload=workload.name,
        task=workload.task,
        options=best,
        rejected=(*missed, *_first_of_family(outcome.excluded, reported)),
        searched_count=outcome.searched_count,
        profile=outcome.profile,
        by_token=rules.by_token,
        notes=(
            *outcome.notes,
            *_unpriced(workload, best),
            *_deployable(best, catalog),
            *_short_quota(best[0], catalog),
            *_against_guidance(workload, best, catalog),
            *_recommended_without_price(workload, best, catalog),
        ),
        frontier=tuple(outcome.frontier),
    )


def _nothing_left(outcome: SearchOutcome) -> Infeasible:
    """Why no machine that the file allows could be tried."""
    families: dict[tuple[str, str], list[str]] = {}
    fixes: list[str] = []
    items: list[LimitViolation | RejectedFamily] = [*outcome.violations, *outcome.excluded]
    for item in items:
        if item.binding == "where":
            continue  # the file excludes it
        names = families.setdefault((item.binding, item.what), [])
        names += [item.family] if item.family not in names else []
        fixes += [item.fix] if item.fix not in fixes else []
    if not families:
        return outcome.otherwise
    reasons = [f"{', '.join(names)}: {what}" for (_, what), names in families.items()]
    more = len(reasons) - MAX_REASONS
    return Infeasible(
        binding=next(iter(families))[0],
        what="; ".join(reasons[:MAX_REASONS]) + (f"; and {more} more" if more > 0 else ""),
        fix=" or ".join(fixes[:MAX_FIXES]),
    )


def _deployable(best: Sequence[Option], catalog: Catalog) -> Iterator[str]:
    """What runs the first option on a cloud where gpuyard creates no machines."""
    provider = catalog.machine(best[0].cluster.machine).provider
    row = next((row for row in catalog.providers if row.name == provider), None)
    if row is None or row.name == "google":
        return
    services = " or ".join(name for name in (row.kubernetes, row.slurm) if name)
    yield (
        f"{row.label}: create the machines or a cluster of {services} there; "
        "`gpuyard provision --on kubernetes`, slurm or ray writes what runs on it"
    )


def _short_quota(option: Option, catalog: Catalog) -> Iterator[str]:
    """A quota of the project that does not allow the first option, if the catalog knows it."""
    words = SERIES.get(catalog.machine(option.cluster.machine).series)
    if words is None or not words.quota or option.bill is None:
        return
    prefix = "PREEMPTIBLE_" if option.bill.consumption in ("spot", "flex-start") else ""
    metric = f"{prefix}{words.quota}"
    name = f"google/{option.bill.region}/{metric}"
    quota = next((row for row in catalog.quotas if row.name == name), None)
    if quota is not None and quota.free_count < option.cluster.chip_count:
        yield (
            f"quota: {metric} in {quota.region} leaves {quota.free_count:g} of "
            f"{quota.limit_count:g}, option 1 needs {option.cluster.chip_count:g}: request more"
        )


def _unpriced(workload: Workload, best: Sequence[Option]) -> Iterator[str]:
    if workload.where.provider != "onprem" and all(option.usd is None for option in best):
        where = _here(workload)
        yield f"no prices are known{where}: options are ranked by the fewest chips, not by cost"


def _here(workload: Workload) -> str:
    return f" in {workload.where.region}" if workload.where.region else ""


def _first_of_family(
    excluded: Sequence[RejectedFamily], reported: set[str]
) -> tuple[RejectedFamily, ...]:
    first: dict[str, RejectedFamily] = {}
    for item in excluded:
        if item.family not in reported:
            first.setdefault(item.family, item)
    return tuple(first.values())


def _recommended_without_price(
    workload: Workload, best: Sequence[Option], catalog: Catalog
) -> Iterator[str]:
    """Machines that rank last for want of a price although the provider recommends them."""
    if best[0].usd is None:
        return
    named = {name for row in catalog.guidance if row.task == workload.task for name in row.series}
    shown: set[str] = set()
    for option in best:
        machine = catalog.machine(option.cluster.machine)
        new = machine.series in named and machine.series not in shown
        if new and option.usd is None and option.meets_limits:
            shown.add(machine.series)
            yield (
                f"{machine.series}, which the provider recommends, has no known price"
                f"{_here(workload)} and ranks last: {option.cluster.machine_count} × "
                f"{machine.name} meet the limits"
            )


def _against_guidance(
    workload: Workload, best: Sequence[Option], catalog: Catalog
) -> Iterator[str]:
    """Explain a first place for a machine that the provider does not recommend."""
    named = {
        series for row in catalog.guidance if row.task == workload.task for series in row.series
    }
    series = [catalog.machine(option.cluster.machine).series for option in best]
    recommended = next(
        (option for option, name in zip(best, series, strict=True) if name in named), None
    )
    if not named or series[0] in named or recommended is None:
        return
    if catalog.machine(best[0].cluster.machine).provider != "google":
        return  # the guidance is Google's
    if best[0].usd is None or recommended.usd is None:
        return
    costs = f"{show(best[0].usd, MONEY)} instead of {show(recommended.usd, MONEY)}"
    yield f"{series[0]} ranks first although the provider does not recommend it: it costs {costs}"
