"""Bills: which ways of paying a machine has, what they add up to, and what stays unknown."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog import Catalog, Price, load_catalog
from gpuyard.plan.cost import bills, energy_joules, no_price_reason
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.option import Bill
from gpuyard.workload import Where

CATALOG = load_catalog()
DAY_S = 86400.0
ANYWHERE = Where()
PRICED = [
    machine.name
    for machine in CATALOG.machines
    if machine.provider == "google" and no_price_reason(machine, ANYWHERE, CATALOG) is None
]


def billed(name: str, machine_count: int = 4, useful_s: float | None = DAY_S, **where: object) -> tuple[Bill, ...]:
    limits = replace(ANYWHERE, **where)  # type: ignore[arg-type]
    return bills(CATALOG.machine(name), machine_count, useful_s, Resilience(), limits, CATALOG)


def by_way(found: tuple[Bill, ...]) -> dict[str, Bill]:
    return {bill.way: bill for bill in reversed(found)}


@pytest.mark.parametrize("name", PRICED)
def test_a_bill_is_rate_times_time(name: str) -> None:
    found = billed(name)
    assert found
    for bill in found:
        assert bill.usd == pytest.approx(bill.usd_per_hour * bill.billed_s / 3600)
        assert bill.billed_s >= bill.expected_s >= DAY_S
        assert bill.price in {price.name for price in CATALOG.prices}
    assert [bill.usd for bill in found] == sorted(bill.usd for bill in found)


@pytest.mark.parametrize("machine", CATALOG.machines, ids=lambda machine: machine.name)
def test_what_cannot_be_had_is_never_billed(machine: object) -> None:
    row = CATALOG.machine(machine.name)  # type: ignore[attr-defined]
    ways = {bill.way for bill in bills(row, 1, DAY_S, Resilience(), ANYWHERE, CATALOG)}
    prices = [price for price in CATALOG.prices if price.machine == row.name and price.provider == row.provider]
    if row.consumption.on_demand == "no" or not any(price.on_demand_can_be_created for price in prices):
        assert "on-demand" not in ways
    if row.consumption.spot == "no":
        assert "spot" not in ways
    if row.consumption.flex_start == "no":
        assert "flex-start" not in ways
    assert bool(ways) == (no_price_reason(row, ANYWHERE, CATALOG) is None)


def test_a4_has_no_on_demand_bill_although_a_price_is_listed() -> None:
    assert CATALOG.machine("a4-highgpu-8g").consumption.on_demand == "no"
    assert set(by_way(billed("a4-highgpu-8g"))) == {"spot", "flex-start", "reservation"}


def test_spot_pays_for_preemptions() -> None:
    found = by_way(billed("a3-highgpu-8g", machine_count=16))
    assert found["spot"].expected_s > found["on-demand"].expected_s
    assert found["spot"].usd_per_hour < found["on-demand"].usd_per_hour


def test_n1_is_accelerators_and_a_host() -> None:
    bill = by_way(billed("n1-2xt4", machine_count=3))["on-demand"]
    assert bill.host_price == "google/us-central1/n1-standard-8"  # four vCPUs a GPU
    assert bill.usd_per_hour == pytest.approx(3 * (2 * 0.35 + 0.38))
    assert "n1-standard-8" in bill.note


def test_attached_disks_are_paid_where_their_price_is_known() -> None:
    assert by_way(billed("a3-highgpu-8g", 1))["on-demand"].usd_per_hour == pytest.approx(87.8325 + 0.6575)
    committed = [bill for bill in billed("a3-highgpu-8g", 1) if "commitment" in bill.note]
    assert min(bill.usd_per_hour for bill in committed) == pytest.approx(38.864384)  # that price includes them
    assert "not in the price" in by_way(billed("a4-highgpu-8g", 1))["spot"].note


def test_flex_start_is_bounded_by_the_list_price_and_by_seven_days() -> None:
    bill = by_way(billed("a4-highgpu-8g"))["flex-start"]
    assert bill.usd_per_hour == pytest.approx(4 * 90.216)
    assert "upper bound" in bill.note
    assert "flex-start" not in by_way(billed("a4-highgpu-8g", useful_s=8 * DAY_S))


def test_nobody_commits_to_years_for_an_hour_of_a_service() -> None:
    found = billed("g2-standard-48", 2, None)
    assert found
    assert not any(bill.term_s for bill in found)
    assert all("/h with a commitment of three years" in bill.note for bill in found if bill.way == "on-demand")
    named = billed("g2-standard-48", 2, None, consumption=("reservation",))
    assert {bill.term_s for bill in named} >= {8760 * 3600.0, 3 * 8760 * 3600.0}
    assert named[0].term_s == 3 * 8760 * 3600.0


def test_a_commitment_is_paid_in_full() -> None:
    committed = [bill for bill in billed("g2-standard-48", 2) if "commitment" in bill.note]
    assert {bill.billed_s for bill in committed} == {8760 * 3600.0, 3 * 8760 * 3600.0}
    assert all(bill.expected_s < 2 * DAY_S for bill in committed)
    assert billed("g2-standard-48", 2)[0].way == "spot"  # a day's run never pays for a year


def test_calendar_mode_has_its_own_limits() -> None:
    machine = CATALOG.machine("ct6e-standard-8t")
    where = replace(ANYWHERE, consumption=("reservation",))
    assert bills(machine, 80, DAY_S, Resilience(), where, CATALOG)
    assert not bills(machine, 81, DAY_S, Resilience(), where, CATALOG)
    assert not bills(machine, 80, 91 * DAY_S, Resilience(), where, CATALOG)


def test_only_the_ways_and_the_region_that_are_allowed() -> None:
    assert {bill.way for bill in billed("a3-highgpu-8g", consumption=("spot",))} == {"spot"}
    assert billed("a3-highgpu-8g", region="us-central1")
    assert billed("a3-highgpu-8g", region="europe-west4") == ()


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("a4x-highgpu-4g", ANYWHERE, "no public price was found"),
        ("dgx-h100", Where(provider="onprem"), "a machine of your own"),
        ("g4-standard-6", ANYWHERE, "no price for g4-standard-6"),
        ("a3-highgpu-8g", Where(region="europe-west4"), "in europe-west4; it has one in us-central1"),
        ("a3-highgpu-1g", Where(consumption=("on-demand",)), "no price by on-demand"),
    ],
)
def test_why_there_is_no_bill(name: str, where: Where, words: str) -> None:
    machine = CATALOG.machine(name)
    assert words in (no_price_reason(machine, where, CATALOG) or "")
    assert bills(machine, 1, DAY_S, Resilience(), where, CATALOG) == ()


def test_a_service_is_billed_by_the_hour() -> None:
    bill = by_way(billed("g2-standard-4", machine_count=10, useful_s=None))["on-demand"]
    assert bill.billed_s == 3600.0
    assert bill.usd == bill.usd_per_hour == pytest.approx(7.068)
    licensed = bills(
        CATALOG.machine("g2-standard-4"), 10, None, Resilience(), ANYWHERE, CATALOG, licence_usd_per_hour=0.2
    )
    assert by_way(licensed)["on-demand"].usd == pytest.approx(9.068)


def priced(usd_per_hour: float) -> Catalog:
    """The catalog with this price of one's own for a machine of one's own."""
    row = Price(
        name="onprem/hall/dgx-h100", provider="onprem", region="hall", machine="dgx-h100",
        date=datetime.date(2026, 8, 1), source=("own",), on_demand_usd_per_hour=usd_per_hour,
    )  # fmt: skip
    return replace(CATALOG, prices=(*CATALOG.prices, row))


@given(st.floats(0.01, 100.0), st.floats(1.0, 10.0), st.floats(60.0, 1e7), st.integers(1, 500))
def test_a_cheaper_price_is_never_dearer(usd: float, times: float, useful_s: float, machine_count: int) -> None:
    machine, where = CATALOG.machine("dgx-h100"), Where(provider="onprem")
    cheap = bills(machine, machine_count, useful_s, Resilience(), where, priced(usd))
    dear = bills(machine, machine_count, useful_s, Resilience(), where, priced(usd * times))
    assert cheap[0].usd <= dear[0].usd
    assert cheap[0].expected_s == dear[0].expected_s


def test_energy() -> None:
    dgx, a3, c3 = (CATALOG.machine(name) for name in ("dgx-h100", "a3-megagpu-8g", "c3-standard-176"))
    assert energy_joules(dgx, 2, 3600.0, CATALOG) == pytest.approx(2 * 10_200 * 3600)  # the whole server
    assert energy_joules(a3, 2, 3600.0, CATALOG) == pytest.approx(2 * 8 * 700 * 3600)  # the chips alone
    assert energy_joules(c3, 2, 3600.0, CATALOG) is None
