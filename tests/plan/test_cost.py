"""Bills: consumption options of a machine, their cost, and unknown prices."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.catalog.prices import Price
from gpuyard.plan.cost import bills, energy_joules, no_price_reason
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.option import Bill
from gpuyard.workload.where import Where

CATALOG = load_catalog()
DAY_S = 86400.0
ANYWHERE = Where(region="us-central1")
PRICED = [
    machine.name
    for machine in CATALOG.machines
    if machine.provider == "google" and no_price_reason(machine, ANYWHERE, CATALOG) is None
]


def billed(
    name: str, machine_count: int = 4, useful_s: float | None = DAY_S, **where: object
) -> tuple[Bill, ...]:
    limits = replace(ANYWHERE, **where)  # type: ignore[arg-type]
    return bills(CATALOG.machine(name), machine_count, useful_s, Resilience(), limits, CATALOG)


def by_way(found: tuple[Bill, ...]) -> dict[str, Bill]:
    return {bill.consumption: bill for bill in reversed(found)}


@pytest.mark.parametrize("name", PRICED)
def test_bill_is_rate_times_time(name: str) -> None:
    found = billed(name)
    assert found
    for bill in found:
        assert bill.usd == pytest.approx(bill.usd_per_hour * bill.billed_s / 3600)
        assert bill.billed_s >= bill.expected_s >= DAY_S
        assert bill.price in {price.name for price in CATALOG.prices}
    assert [bill.usd for bill in found] == sorted(bill.usd for bill in found)


@pytest.mark.parametrize("machine", CATALOG.machines, ids=lambda machine: machine.name)
def test_unavailable_option_is_never_billed(machine: object) -> None:
    row = CATALOG.machine(machine.name)  # type: ignore[attr-defined]
    ways = {bill.consumption for bill in bills(row, 1, DAY_S, Resilience(), ANYWHERE, CATALOG)}
    prices = [
        price
        for price in CATALOG.prices
        if price.machine == row.name and price.provider == row.provider
    ]
    if row.consumption.on_demand == "no" or not any(
        price.on_demand_can_be_created for price in prices
    ):
        assert "on-demand" not in ways
    if row.consumption.spot == "no":
        assert "spot" not in ways
    if row.consumption.flex_start == "no":
        assert "flex-start" not in ways
    assert bool(ways) == (no_price_reason(row, ANYWHERE, CATALOG) is None)


def test_a4_has_no_on_demand_bill_despite_listed_price() -> None:
    assert CATALOG.machine("a4-highgpu-8g").consumption.on_demand == "no"
    assert set(by_way(billed("a4-highgpu-8g"))) == {"spot", "flex-start", "reservation"}


def test_spot_bill_includes_preemptions() -> None:
    found = by_way(billed("a3-highgpu-8g", machine_count=16))
    assert found["spot"].expected_s > found["on-demand"].expected_s
    assert found["spot"].usd_per_hour < found["on-demand"].usd_per_hour


def test_n1_bill_includes_accelerators_and_host() -> None:
    bill = by_way(billed("n1-2xt4", machine_count=3))["on-demand"]
    assert bill.host_price == "google/us-central1/n1-standard-8"  # four vCPUs per GPU
    assert bill.usd_per_hour == pytest.approx(3 * (2 * 0.35 + 0.38))
    assert "n1-standard-8" in bill.note


def test_attached_disks_are_billed_when_priced() -> None:
    assert by_way(billed("a3-highgpu-8g", 1))["on-demand"].usd_per_hour == pytest.approx(
        87.8325 + 0.6575
    )
    committed = [bill for bill in billed("a3-highgpu-8g", 1) if "commitment" in bill.note]
    assert min(bill.usd_per_hour for bill in committed) == pytest.approx(
        38.864384
    )  # that price includes them
    assert "excludes the attached Local SSD" in by_way(billed("a4-highgpu-8g", 1))["spot"].note


def test_flex_start_is_limited_to_list_price_and_seven_days() -> None:
    bill = by_way(billed("a4-highgpu-8g"))["flex-start"]
    assert bill.usd_per_hour == pytest.approx(4 * 90.216)
    assert "upper bound" in bill.note
    assert "flex-start" not in by_way(billed("a4-highgpu-8g", useful_s=8 * DAY_S))


def test_service_bill_excludes_commitments() -> None:
    found = billed("g2-standard-48", 2, None)
    assert found
    assert not any(bill.term_s for bill in found)
    assert all(
        "/h with a commitment of three years" in bill.note
        for bill in found
        if bill.consumption == "on-demand"
    )
    named = billed("g2-standard-48", 2, None, consumption=("reservation",))
    assert {bill.term_s for bill in named} >= {8760 * 3600.0, 3 * 8760 * 3600.0}
    assert named[0].term_s == 3 * 8760 * 3600.0


def test_commitment_is_billed_in_full() -> None:
    committed = [bill for bill in billed("g2-standard-48", 2) if "commitment" in bill.note]
    assert {bill.billed_s for bill in committed} == {8760 * 3600.0, 3 * 8760 * 3600.0}
    assert all(bill.expected_s < 2 * DAY_S for bill in committed)
    assert billed("g2-standard-48", 2)[0].consumption == "spot"  # a day's run never pays for a year


def test_calendar_mode_has_limits() -> None:
    machine = CATALOG.machine("ct6e-standard-8t")
    where = replace(ANYWHERE, consumption=("reservation",))
    assert bills(machine, 80, DAY_S, Resilience(), where, CATALOG)
    assert not bills(machine, 81, DAY_S, Resilience(), where, CATALOG)
    assert not bills(machine, 80, 91 * DAY_S, Resilience(), where, CATALOG)


def test_bills_honour_consumption_and_region() -> None:
    assert {bill.consumption for bill in billed("a3-highgpu-8g", consumption=("spot",))} == {"spot"}
    assert billed("a3-highgpu-8g", region="us-central1")
    european = by_way(billed("a3-highgpu-8g", region="europe-west4"))["on-demand"]
    assert european.region == "europe-west4"
    assert european.usd_per_hour > by_way(billed("a3-highgpu-8g"))["on-demand"].usd_per_hour
    assert billed("a3-highgpu-8g", region="africa-south1") == ()


def test_bill_is_of_the_cheapest_region_without_a_region() -> None:
    anywhere = by_way(billed("g2-standard-4", region=None))["on-demand"]
    assert anywhere.usd <= by_way(billed("g2-standard-4"))["on-demand"].usd
    options = [bill.consumption for bill in billed("g2-standard-4", region=None)]
    assert options.count("on-demand") == 1


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("a4x-highgpu-4g", ANYWHERE, "no public price"),
        ("dgx-h100", Where(provider="onprem"), "on-premises machine"),
        ("g4-standard-6", ANYWHERE, "no public price"),
        (
            "c3-standard-176",
            Where(region="europe-west4"),
            "in europe-west4, only in us-central1",
        ),
        ("a3-highgpu-1g", Where(consumption=("on-demand",)), "no on-demand price"),
    ],
)
def test_no_price_reason(name: str, where: Where, words: str) -> None:
    machine = CATALOG.machine(name)
    assert words in (no_price_reason(machine, where, CATALOG) or "")
    assert bills(machine, 1, DAY_S, Resilience(), where, CATALOG) == ()


def test_service_is_billed_per_hour() -> None:
    bill = by_way(billed("g2-standard-4", machine_count=10, useful_s=None))["on-demand"]
    assert bill.billed_s == 3600.0
    assert bill.usd == bill.usd_per_hour == pytest.approx(7.068)
    licensed = bills(
        CATALOG.machine("g2-standard-4"),
        10,
        None,
        Resilience(),
        ANYWHERE,
        CATALOG,
        licence_usd_per_hour=0.2,
    )
    assert by_way(licensed)["on-demand"].usd == pytest.approx(9.068)


def priced(usd_per_hour: float) -> Catalog:
    """The catalog with this price of one's own for a machine of one's own."""
    row = Price(
        name="onprem/hall/dgx-h100",
        provider="onprem",
        region="hall",
        machine="dgx-h100",
        date=datetime.date(2026, 8, 1),
        source=("own",),
        on_demand_usd_per_hour=usd_per_hour,
    )
    return replace(CATALOG, prices=(*CATALOG.prices, row))


@given(st.floats(0.01, 100.0), st.floats(1.0, 10.0), st.floats(60.0, 1e7), st.integers(1, 500))
def test_bill_never_grows_with_lower_price(
    usd: float, times: float, useful_s: float, machine_count: int
) -> None:
    machine, where = CATALOG.machine("dgx-h100"), Where(provider="onprem")
    cheap = bills(machine, machine_count, useful_s, Resilience(), where, priced(usd))
    dear = bills(machine, machine_count, useful_s, Resilience(), where, priced(usd * times))
    assert cheap[0].usd <= dear[0].usd
    assert cheap[0].expected_s == dear[0].expected_s


def test_energy_of_servers_or_chips() -> None:
    dgx, a3, c3 = (
        CATALOG.machine(name) for name in ("dgx-h100", "a3-megagpu-8g", "c3-standard-176")
    )
    assert energy_joules(dgx, 2, 3600.0, CATALOG) == pytest.approx(
        2 * 10_200 * 3600
    )  # the whole server
    assert energy_joules(a3, 2, 3600.0, CATALOG) == pytest.approx(
        2 * 8 * 700 * 3600
    )  # the chips alone
    assert energy_joules(c3, 2, 3600.0, CATALOG) is None
