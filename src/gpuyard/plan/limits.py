"""Check clusters against the limits of a workload: deadline, budget and availability."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible
from gpuyard.plan.cost import SERVICE_PERIOD_S, no_price_reason
from gpuyard.plan.interruptions import Resilience, run_time
from gpuyard.plan.option import Bill, RejectedFamily
from gpuyard.units import DURATION, MONEY, PRICE_PER_HOUR, RATIO, Dimension, parse, show
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.where import ConsumptionName, Where
from gpuyard.workload.workload import Workload

MAX_MACHINES = 100_000  # more than any existing cluster
COUNT_RATIO = 1.15  # between two numbers of machines that are tried


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitViolation:
    """A limit that a candidate violates; `ratio` is how far: 2.0 is twice the limit."""

    family: str
    binding: str
    ratio: float
    what: str
    fix: str
    fits: bool = False  # the work is possible there; only a limit of the file is violated


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """The bills of a candidate within every limit, or the nearest violation."""

    bills: tuple[Bill, ...]
    expected_s: float
    miss: LimitViolation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """One requirement and how to check a bill against it."""

    binding: str
    # Used fraction of the limit; None without a limit.
    used_ratio: Callable[[Bill, Requirements, float | None], float | None]
    # What is violated, and the fix.
    message: Callable[[Bill, Requirements, float | None], tuple[str, str]]


def rounded_up_text(value: float, dimension: Dimension) -> str:
    """Format a value, rounded up so that following the advice satisfies the limit."""
    texts = (show(value * (1.0 + 0.0005 * step), dimension) for step in range(100))
    return next(text for text in texts if parse(text, dimension) >= value)


def _too(ratio: float) -> str:
    """How far a limit is exceeded: `28 % too`, or `315 times too` above ten."""
    return f"{ratio:.0f} times too" if ratio > 10.0 else f"{show(ratio - 1.0, RATIO)} too"


def _deadline(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    if not limits.deadline_s or useful_s is None:
        return None
    return bill.expected_s / limits.deadline_s


def _deadline_message(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    needs = rounded_up_text(bill.expected_s, DURATION)
    late = bill.expected_s / (limits.deadline_s or math.inf)
    return f"takes {needs} ({_too(late)} long)", f"raise deadline to {needs}"


def _budget(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    return bill.usd / limits.budget_usd if limits.budget_usd and useful_s is not None else None


def _budget_message(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    costs = rounded_up_text(bill.usd, MONEY)
    over = bill.usd / (limits.budget_usd or math.inf)
    return f"costs {costs} {bill.consumption} ({_too(over)} much)", f"raise budget to {costs}"


def _hourly(bill: Bill, limits: Requirements, _useful_s: float | None) -> float | None:
    most = limits.hourly_budget_usd_per_hour
    return bill.usd_per_hour / most if most else None


def _hourly_message(bill: Bill, limits: Requirements, _useful_s: float | None) -> tuple[str, str]:
    costs = rounded_up_text(bill.usd_per_hour, PRICE_PER_HOUR)
    over = bill.usd_per_hour / (limits.hourly_budget_usd_per_hour or math.inf)
    return (
        f"costs {costs} {bill.consumption} ({_too(over)} much)",
        f"raise hourly_budget to {costs}",
    )


def _availability(bill: Bill, limits: Requirements, useful_s: float | None) -> float | None:
    least = limits.availability_ratio
    return least * bill.expected_s / useful_s if least and useful_s else None


def _availability_message(
    bill: Bill, _limits: Requirements, useful_s: float | None
) -> tuple[str, str]:
    share = show(math.floor(1000.0 * (useful_s or 0.0) / bill.expected_s) / 1000.0, RATIO)
    what = f"goodput of {share} with {bill.consumption} machines"
    return what, f"lower availability to {share}"


LIMITS: tuple[_Limit, ...] = (
    _Limit(binding="requirements.deadline", used_ratio=_deadline, message=_deadline_message),
    _Limit(binding="requirements.budget", used_ratio=_budget, message=_budget_message),
    _Limit(binding="requirements.hourly_budget", used_ratio=_hourly, message=_hourly_message),
    _Limit(
        binding="requirements.availability", used_ratio=_availability, message=_availability_message
    ),
)


def check_limits(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    workload: Workload,
    catalog: Catalog,
    bills: Sequence[Bill],
) -> LimitCheck:
    """Return the bills within every limit, or the nearest violation."""
    limits = workload.requirements
    if bills:
        within = tuple(bill for bill in bills if _excess_ratio(bill, limits, useful_s) <= 1.0)
        if within:
            return LimitCheck(bills=within, expected_s=within[0].expected_s)
        nearest = min(bills, key=lambda bill: _excess_ratio(bill, limits, useful_s))
        return LimitCheck(
            bills=(),
            expected_s=nearest.expected_s,
            miss=_violation(machine, nearest, limits, useful_s),
        )
    reason = (
        no_price_reason(machine, workload.where, catalog) or "no consumption option fits the run"
    )
    consumption: ConsumptionName = (
        "spot" if workload.where.consumption == ("spot",) else "on-demand"
    )
    unpriced = _unpriced(machine, machine_count, useful_s, resilience, catalog, consumption, reason)
    money = limits.budget_usd is not None or limits.hourly_budget_usd_per_hour is not None
    if money and machine.provider != "onprem":
        miss = LimitViolation(
            family=machine.series,
            binding="prices",
            ratio=math.inf,
            what=reason,
            fix="add its price to your own catalog file, or remove the budget",
        )
        return LimitCheck(bills=(), expected_s=unpriced.expected_s, miss=miss)
    if _excess_ratio(unpriced, limits, useful_s) > 1.0:
        miss = _violation(machine, unpriced, limits, useful_s)
        return LimitCheck(bills=(), expected_s=unpriced.expected_s, miss=miss)
    return LimitCheck(bills=(), expected_s=unpriced.expected_s)


def _unpriced(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    catalog: Catalog,
    consumption: ConsumptionName,
    reason: str,
) -> Bill:
    """A bill of zero, so that time limits apply without a price."""
    expected_s = SERVICE_PERIOD_S
    if useful_s is not None:
        expected_s = float(
            run_time(useful_s, machine, machine_count, consumption, resilience, catalog).expected_s
        )
    return Bill(
        consumption=consumption,
        region="",
        price="",
        usd_per_hour=0.0,
        billed_s=0.0,
        usd=0.0,
        note=reason,
        expected_s=expected_s,
    )


def _used_ratios(bill: Bill, limits: Requirements, useful_s: float | None) -> list[float]:
    return [limit.used_ratio(bill, limits, useful_s) or 0.0 for limit in LIMITS]


def _excess_ratio(bill: Bill, limits: Requirements, useful_s: float | None) -> float:
    """How far the bill exceeds all limits together, as a product; 1.0 is within every limit."""
    return math.prod(max(1.0, ratio) for ratio in _used_ratios(bill, limits, useful_s))


def _violation(
    machine: Machine, bill: Bill, limits: Requirements, useful_s: float | None
) -> LimitViolation:
    """The limit that is exceeded most; the fix covers every exceeded limit."""
    ratios = _used_ratios(bill, limits, useful_s)
    messages = [
        limit.message(bill, limits, useful_s)
        for limit, ratio in zip(LIMITS, ratios, strict=True)
        if ratio > 1.0
    ]
    return LimitViolation(
        family=machine.series,
        binding=LIMITS[ratios.index(max(ratios))].binding,
        ratio=_excess_ratio(bill, limits, useful_s),
        what="; ".join(what for what, _ in messages),
        fix=" and ".join(fix for _, fix in messages),
        fits=True,
    )


def rejected(
    misses: Iterable[LimitViolation], families: Iterable[str]
) -> tuple[RejectedFamily, ...]:
    """Return the nearest violation of each family that has no option."""
    nearest: dict[str, LimitViolation] = {}
    for miss in misses:
        best = nearest.get(miss.family)
        if best is None or (not miss.fits, miss.ratio) < (not best.fits, best.ratio):
            nearest[miss.family] = miss
    for family in families:
        nearest.pop(family, None)
    return tuple(
        RejectedFamily(family=miss.family, binding=miss.binding, what=miss.what, fix=miss.fix)
        for miss in nearest.values()
    )


def infeasible(misses: Sequence[LimitViolation], otherwise: Infeasible) -> Infeasible:
    """Return the binding constraint of the nearest candidate and its fix."""
    finite = [miss for miss in misses if math.isfinite(miss.ratio)]
    if not finite:
        return otherwise
    nearest = min(finite, key=lambda miss: (not miss.fits, miss.ratio))
    return Infeasible(
        binding=nearest.binding, what=f"{nearest.family}: {nearest.what}", fix=nearest.fix
    )


def max_machines(where: Where, machine: Machine) -> int:
    """Return the maximum number of machines that max_chips and the inventory allow."""
    chips = MAX_MACHINES
    if where.max_chips is not None and machine.chip_count:
        chips = math.floor(where.max_chips / machine.chip_count)
    stock = [
        item.count for item in where.inventory if item.name.casefold() == machine.name.casefold()
    ]
    exact = where.exact_count(machine)
    return min([chips, *stock, *([] if exact is None else [exact])])


def machine_counts_allowed(where: Where, machine: Machine, counts: Iterable[int]) -> Iterator[int]:
    """Yield the counts that the file allows: the exact one if it names it."""
    exact = where.exact_count(machine)
    if exact is not None:
        yield exact
    else:
        yield from counts


def machine_counts_to_try(fewest: int, most: int) -> list[int]:
    """Return the numbers of machines to try, in steps of about 15 %."""
    # Independent of the limits, so that raising a limit as advised leads to the same candidates.
    counts = {fewest, most}
    step = 1.0
    while step <= most:
        counts.add(math.ceil(step))
        step = max(step + 1.0, step * COUNT_RATIO)
    return sorted(count for count in counts if fewest <= count <= most)


def machine_counts_to_show(checks: Mapping[int, LimitCheck]) -> list[int]:
    """Return the numbers of machines to show: the fewest feasible, doublings, and the cheapest."""
    feasible = sorted(count for count, check in checks.items() if check.miss is None)
    shown: list[int] = []
    for count in feasible:
        if not shown or count >= 2 * shown[-1]:
            shown.append(count)
    cheapest = min(feasible, key=lambda count: _usd(checks[count]), default=None)
    return shown if cheapest is None or cheapest in shown else [*shown, cheapest]


def _usd(check: LimitCheck) -> float:
    return min((bill.usd for bill in check.bills), default=math.inf)
