"""The limits of a workload against what a cluster costs and takes: what is kept, and how far the rest misses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.cost import no_price_reason
from gpuyard.plan.exposure import Resilience, run_time
from gpuyard.plan.option import Bill, Rejected
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, RATIO, Dimension, parse, show
from gpuyard.workload import Requirements, Where, Workload

__all__ = ["Miss", "Verdict", "infeasible", "judged", "ladder", "most_machines", "raised", "rejected", "spread"]

MOST_MACHINES = 100_000  # more than any cluster that was ever built
RUNG = 1.15  # between two numbers of machines that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """What a candidate does not keep; `ratio` says how far off it is, 2.0 being twice a limit."""

    family: str
    binding: str
    ratio: float
    what: str
    fix: str
    fits: bool = False  # the work can be done there: only a limit of the file stands in the way


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is left of a candidate: the bills that keep every limit and the cheapest one's time, or the nearest miss."""

    bills: tuple[Bill, ...]
    expected_s: float
    miss: Miss | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """One requirement, against a bill."""

    binding: str
    over: Callable[[Bill, Requirements, float | None], float | None]  # share of the limit used; None: no limit
    words: Callable[[Bill, Requirements, float | None], tuple[str, str]]  # what, and the fix


def raised(value: float, dimension: Dimension) -> str:
    """The value in words, rounded up: who follows the advice keeps the limit."""
    texts = (show(value * (1.0 + 0.0005 * step), dimension) for step in range(100))
    return next(text for text in texts if parse(text, dimension) >= value)


def _too(ratio: float) -> str:
    """How far a limit is missed, in words: `28 % too`, or `315 times too` beyond ten."""
    return f"{ratio:.0f} times too" if ratio > 10.0 else f"{show(ratio - 1.0, RATIO)} too"


def _deadline(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    return bill.expected_s / limits.deadline_s if limits.deadline_s and useful_s is not None else None


def _deadline_words(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    needs = raised(bill.expected_s, DURATION)
    late = bill.expected_s / (limits.deadline_s or math.inf)
    return f"it needs {needs} ({_too(late)} long)", f"raise deadline to {needs}"


def _budget(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    return bill.usd / limits.budget_usd if limits.budget_usd and useful_s is not None else None


def _budget_words(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    costs = raised(bill.usd, MONEY)
    over = bill.usd / (limits.budget_usd or math.inf)
    return f"it costs {costs} by {bill.way} ({_too(over)} much)", f"raise budget to {costs}"


def _hourly(bill: Bill, limits: Requirements, _useful_s: float | None) -> float | None:
    most = limits.hourly_budget_usd_per_hour
    return bill.usd_per_hour / most if most else None


def _hourly_words(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    costs = raised(bill.usd_per_hour, PRICE_PER_HOUR)
    over = bill.usd_per_hour / (limits.hourly_budget_usd_per_hour or math.inf)
    return f"it costs {costs} by {bill.way} ({_too(over)} much)", f"raise hourly_budget to {costs}"


def _availability(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    least = limits.availability_ratio
    return least * bill.expected_s / useful_s if least and useful_s else None


def _availability_words(bill: Bill, _limits: Requirements, useful_s: float | None) -> tuple[str, str]:
    share = show(math.floor(1000.0 * (useful_s or 0.0) / bill.expected_s) / 1000.0, RATIO)
    return f"{share} of its time is useful by {bill.way}", f"lower availability to {share}"


LIMITS: tuple[_Limit, ...] = (
    _Limit(binding="requirements.deadline", over=_deadline, words=_deadline_words),
    _Limit(binding="requirements.budget", over=_budget, words=_budget_words),
    _Limit(binding="requirements.hourly_budget", over=_hourly, words=_hourly_words),
    _Limit(binding="requirements.availability", over=_availability, words=_availability_words),
)


def judged(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    workload: Workload,
    catalog: Catalog,
    bills: Sequence[Bill],
) -> Verdict:
    """The bills that keep every limit, or the limit that the nearest of them misses."""
    limits = workload.requirements
    if bills:
        kept = tuple(bill for bill in bills if _excess_ratio(bill, limits, useful_s) <= 1.0)
        if kept:
            return Verdict(bills=kept, expected_s=kept[0].expected_s)
        nearest = min(bills, key=lambda bill: _excess_ratio(bill, limits, useful_s))
        return Verdict(bills=(), expected_s=nearest.expected_s, miss=_miss(machine, nearest, limits, useful_s))
    reason = no_price_reason(machine, workload.where, catalog) or "no way of paying fits the run"
    unpriced = _unpriced(machine, machine_count, useful_s, resilience, catalog, reason)
    money = limits.budget_usd is not None or limits.hourly_budget_usd_per_hour is not None
    if money and machine.provider != "onprem":
        miss = Miss(
            family=machine.series,
            binding="prices",
            ratio=math.inf,
            what=reason,
            fix="give its price in a catalog file of your own, or remove the budget",
        )
        return Verdict(bills=(), expected_s=unpriced.expected_s, miss=miss)
    if _excess_ratio(unpriced, limits, useful_s) > 1.0:
        miss = _miss(machine, unpriced, limits, useful_s)
        return Verdict(bills=(), expected_s=unpriced.expected_s, miss=miss)
    return Verdict(bills=(), expected_s=unpriced.expected_s)


def _unpriced(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    catalog: Catalog,
    reason: str,
) -> Bill:
    """A bill of nothing, so that the limits of time hold where no price is known."""
    expected_s = 3600.0
    if useful_s is not None:
        expected_s = float(run_time(useful_s, machine, machine_count, "on-demand", resilience, catalog).expected_s)
    return Bill(
        way="on-demand",
        region="",
        price="",
        usd_per_hour=0.0,
        billed_s=0.0,
        usd=0.0,
        note=reason,
        expected_s=expected_s,
    )


def _shares(bill: Bill, limits: Requirements, useful_s: float | None) -> list[float]:
    """The share of each limit that the bill uses."""
    return [limit.over(bill, limits, useful_s) or 0.0 for limit in LIMITS]


def _excess_ratio(bill: Bill, limits: Requirements, useful_s: float | None) -> float:
    """How far the bill is from keeping every limit: the product of what is too much; 1.0 keeps them."""
    return math.prod(max(1.0, share) for share in _shares(bill, limits, useful_s))


def _miss(machine: Machine, bill: Bill, limits: Requirements, useful_s: float | None) -> Miss:
    """The limit that the bill misses most; the fix releases every limit that it misses."""
    shares = _shares(bill, limits, useful_s)
    words = [limit.words(bill, limits, useful_s) for limit, share in zip(LIMITS, shares, strict=True) if share > 1.0]
    return Miss(
        family=machine.series,
        binding=LIMITS[shares.index(max(shares))].binding,
        ratio=_excess_ratio(bill, limits, useful_s),
        what="; ".join(what for what, _ in words),
        fix=" and ".join(fix for _, fix in words),
        fits=True,
    )


def rejected(misses: Iterable[Miss], families: Iterable[str]) -> tuple[Rejected, ...]:
    """The nearest miss of each family that has no option."""
    nearest: dict[str, Miss] = {}
    for miss in misses:
        best = nearest.get(miss.family)
        if best is None or (not miss.fits, miss.ratio) < (not best.fits, best.ratio):
            nearest[miss.family] = miss
    for family in families:
        nearest.pop(family, None)
    return tuple(
        Rejected(family=miss.family, binding=miss.binding, what=miss.what, fix=miss.fix) for miss in nearest.values()
    )


def infeasible(misses: Sequence[Miss], otherwise: Infeasible) -> Infeasible:
    """What stands in the way of the candidate that comes nearest, and what would release it."""
    numbered = [miss for miss in misses if math.isfinite(miss.ratio)]
    if not numbered:
        return otherwise
    nearest = min(numbered, key=lambda miss: (not miss.fits, miss.ratio))  # who can do the work at all comes first
    return Infeasible(binding=nearest.binding, what=f"{nearest.family}: {nearest.what}", fix=nearest.fix)


def most_machines(where: Where, machine: Machine) -> int:
    """The most machines of this type that chips and stock allow."""
    chips = MOST_MACHINES
    if where.max_chips is not None and machine.chip_count:
        chips = math.floor(where.max_chips / machine.chip_count)
    stock = [item.count for item in where.inventory if item.name.casefold() == machine.name.casefold()]
    return min([chips, *stock])


def ladder(fewest: int, most: int) -> list[int]:
    """The numbers of machines to try. Limits do not change them, so that advice about a limit can be followed."""
    rungs, step = {fewest, most}, 1.0
    while step <= most:
        rungs.add(math.ceil(step))
        step = max(step + 1.0, step * RUNG)
    return sorted(count for count in rungs if fewest <= count <= most)


def spread(verdicts: Mapping[int, Verdict]) -> list[int]:
    """Of one machine type, the numbers of machines worth showing: the fewest that do, doublings, and the cheapest."""
    good = sorted(count for count, verdict in verdicts.items() if verdict.miss is None)
    kept: list[int] = []
    for count in good:
        if not kept or count >= 2 * kept[-1]:
            kept.append(count)
    cheapest = min(good, key=lambda count: _usd(verdicts[count]), default=None)
    return kept if cheapest is None or cheapest in kept else [*kept, cheapest]


def _usd(verdict: Verdict) -> float:
    """The least that it costs; nothing is dearer than the unknown."""
    return min((bill.usd for bill in verdict.bills), default=math.inf)
