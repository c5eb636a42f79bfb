"""Limits against bills: bills within limits, binding constraints, numbers of machines."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.limits import (
    LimitCheck,
    LimitViolation,
    check_limits,
    infeasible,
    machine_counts_to_show,
    machine_counts_to_try,
    max_machines,
    rejected,
)
from gpuyard.plan.option import Bill
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.where import InventoryItem, Where
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()
G2 = CATALOG.machine("g2-standard-4")
OTHERWISE = Infeasible(binding="where", what="nothing", fix="more")


def bill(usd: float, hours: float) -> Bill:
    return Bill(
        consumption="spot",
        region="r",
        price="p",
        usd_per_hour=usd / hours,
        billed_s=hours * 3600,
        usd=usd,
        expected_s=hours * 3600,
    )


def verdict(
    limits: Requirements,
    *bills: Bill,
    useful_s: float | None = 3600.0,
    machine: str = "g2-standard-4",
) -> LimitCheck:
    row = CATALOG.machine(machine)
    provider = "onprem" if row.provider == "onprem" else "google"
    workload = Workload(name="t", task="hpc", requirements=limits, where=Where(provider=provider))  # type: ignore[arg-type]
    return check_limits(row, 1, useful_s, Resilience(), workload, CATALOG, bills)


def test_bills_within_every_limit_remain() -> None:
    cheap, quick = bill(10.0, 10.0), bill(50.0, 2.0)
    assert verdict(Requirements(), cheap, quick).bills == (cheap, quick)
    found = verdict(Requirements(deadline_s=3 * 3600.0), cheap, quick)
    assert found.bills == (quick,)
    assert found.expected_s == quick.expected_s


def test_violation_reports_limit_to_raise() -> None:
    miss = verdict(
        Requirements(deadline_s=3600.0, budget_usd=40.0), bill(10.0, 10.0), bill(50.0, 2.0)
    ).miss
    assert miss is not None
    assert miss.binding == "requirements.deadline"  # twice the deadline, a quarter above the budget
    assert miss.ratio == pytest.approx(2.5)
    assert miss.fix == "raise deadline to 2h and raise budget to $50"
    assert miss.fits


def test_availability_limit_binds() -> None:
    miss = verdict(Requirements(availability_ratio=0.9), bill(1.0, 2.0), useful_s=3600.0).miss
    assert miss is not None
    assert (miss.binding, miss.fix) == ("requirements.availability", "lower availability to 50%")


def test_missing_price_violates_only_budget() -> None:
    assert verdict(Requirements(), machine="a4x-highgpu-4g").miss is None
    miss = verdict(Requirements(budget_usd=1.0), machine="a4x-highgpu-4g").miss
    assert miss is not None
    assert miss.binding == "prices"
    assert verdict(Requirements(budget_usd=1.0), machine="dgx-h100").miss is None
    late = verdict(Requirements(deadline_s=60.0), machine="dgx-h100").miss
    assert late is not None
    assert late.binding == "requirements.deadline"


def miss(family: str, ratio: float, fits: bool = True) -> LimitViolation:
    return LimitViolation(
        family=family, binding="b", ratio=ratio, what=f"{ratio}", fix="f", fits=fits
    )


def test_nearest_violation_represents_family() -> None:
    misses = [miss("A", 3.0), miss("A", 2.0), miss("B", 5.0), miss("C", 1.1, fits=False)]
    assert [(group.family, group.what) for group in rejected(misses, {"B"})] == [
        ("A", "2.0"),
        ("C", "1.1"),
    ]
    assert infeasible(misses, OTHERWISE).what == "A: 2.0"  # what can do the work at all comes first
    assert infeasible([miss("D", math.inf)], OTHERWISE) == OTHERWISE


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_machine_counts_to_try_span_range(one: int, two: int) -> None:
    low, high = sorted((one, two))
    rungs = machine_counts_to_try(low, high)
    assert rungs[0] == low
    assert rungs[-1] == high
    assert rungs == sorted(set(rungs))
    assert all(
        after <= max(before + 1, 1.16 * before + 1) for before, after in itertools.pairwise(rungs)
    )


def test_machine_counts_to_show() -> None:
    good = {
        count: LimitCheck(bills=(bill(100.0 / count if count == 7 else 50.0, 1.0),), expected_s=1.0)
        for count in range(3, 30)
    }
    assert machine_counts_to_show(good) == [3, 6, 12, 24, 7]
    bad = replace(good[3], miss=miss("A", 2.0))
    assert machine_counts_to_show({3: bad}) == []


def test_max_machines() -> None:
    assert max_machines(Where(max_chips=20), CATALOG.machine("g2-standard-48")) == 5
    stock = Where(provider="onprem", inventory=(InventoryItem(name="DGX-H100", count=3),))
    assert max_machines(stock, CATALOG.machine("dgx-h100")) == 3
    assert max_machines(Where(), G2) > 10_000
