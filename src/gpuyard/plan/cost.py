"""Cost of a run: one bill per consumption option that is allowed and priced; and its energy."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.prices import Price
from gpuyard.errors import choices_text
from gpuyard.plan.interruptions import Resilience, run_times
from gpuyard.plan.option import Bill
from gpuyard.plan.price_table import PriceTable, Same, price_table
from gpuyard.units import DAY_S, HOUR_S, YEAR_S
from gpuyard.workload.eligibility import chip_of, is_available
from gpuyard.workload.where import ConsumptionName, Where

SERVICE_PERIOD_S = float(HOUR_S)  # a service has no end: it is planned and billed for one hour
# Flex-start and reservations:
# docs.cloud.google.com/ai-hypercomputer/docs/consumption-models, 2026-04-10.
FLEX_START_S = float(7 * DAY_S)  # maximum lifetime of a Flex-start machine
CALENDAR_S = float(90 * DAY_S)  # maximum length of a calendar-mode reservation
CALENDAR_MACHINES = 80  # maximum size of a calendar-mode reservation
CEILING = "discounts of up to 53 % have no public price: the list price is an upper bound"
NEGOTIATED = "its price is negotiated: the list price is an upper bound"
HOST_VCPU_PER_CHIP = 4  # host of attachable accelerators, as g2-standard-4 has for one L4
COMMITTED = (
    ("committed_1y_usd_per_hour", 1, "one year"),
    ("committed_3y_usd_per_hour", 3, "three years"),
)
UNCONFIRMED = "a price is listed, but the documentation does not confirm availability"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A machine with its price rows in one region."""

    machine: Machine
    price: Price
    host: Price | None
    requested: bool  # the workload file names consumption options

    def usd_per_hour(self, column: str) -> float | None:
        """Price of one machine with host and attached disks; None if a part has no price."""
        parts = [getattr(row, column) for row in (self.price, self.host) if row is not None]
        if any(part is None for part in parts):
            return None
        disks = 0.0 if column.startswith("committed") else self.price.local_ssd_usd_per_hour or 0.0
        return float(sum(parts)) + (disks if self.machine.local_ssd_mode == "attached" else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quote:
    """Price and limits of one machine with one consumption option."""

    usd_per_hour: float
    note: str = ""
    term_s: float = 0.0  # minimum billed time
    life_s: float = math.inf  # maximum length of a run
    machine_count: float = math.inf  # maximum number of machines


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunTimes:
    """Time to finish, and its bounds from the uncertainty of the interruption rate."""

    expected_s: float
    low_s: float
    high_s: float
    interruptions_count: float


Quoter = Callable[[_Offer], Iterator[_Quote]]
_Quoted = tuple[_Offer, ConsumptionName, _Quote]


def _on_demand(offer: _Offer) -> Iterator[_Quote]:
    usd = offer.usd_per_hour("on_demand_usd_per_hour")
    availability = offer.machine.consumption.on_demand
    if usd is None or availability == "no" or not offer.price.on_demand_can_be_created:
        return
    confirmed = availability == "yes" or offer.machine.provider == "onprem"
    yield _Quote(usd_per_hour=usd, note="" if confirmed else UNCONFIRMED)


def _spot(offer: _Offer) -> Iterator[_Quote]:
    usd, availability = offer.usd_per_hour("spot_usd_per_hour"), offer.machine.consumption.spot
    if usd is None or availability == "no":
        return
    yield _Quote(usd_per_hour=usd, note="" if availability == "yes" else UNCONFIRMED)


def _flex_start(offer: _Offer) -> Iterator[_Quote]:
    usd, availability = (
        offer.usd_per_hour("on_demand_usd_per_hour"),
        offer.machine.consumption.flex_start,
    )
    if usd is None or availability == "no" or (availability is None and not offer.requested):
        return
    yield _Quote(usd_per_hour=usd, note=CEILING, life_s=FLEX_START_S)


def _reservation(offer: _Offer) -> Iterator[_Quote]:
    """List price, or a commitment of one or three years."""
    options = offer.machine.consumption
    if not is_available(offer.machine, "reservation"):
        return
    usd = offer.usd_per_hour("on_demand_usd_per_hour")
    unknown = offer.requested and None in (
        options.on_demand_reservation,
        options.calendar_reservation,
        options.future_reservation,
    )
    if usd is not None and options.on_demand_reservation == "yes":
        yield _Quote(usd_per_hour=usd, note="list price, with an on-demand reservation")
    elif usd is not None and options.future_reservation == "yes":
        discount = CEILING if offer.machine.provider == "google" else NEGOTIATED
        yield _Quote(
            usd_per_hour=usd, note=f"future reservation through the account team; {discount}"
        )
    elif usd is not None and options.calendar_reservation == "yes":
        note = f"calendar mode; {CEILING}"
        yield _Quote(
            usd_per_hour=usd, note=note, life_s=CALENDAR_S, machine_count=CALENDAR_MACHINES
        )
    elif usd is not None and unknown:
        yield _Quote(usd_per_hour=usd, note=f"list price; {UNCONFIRMED}")
    for column, years, term in COMMITTED:
        committed = offer.usd_per_hour(column)
        if committed is not None:
            yield _Quote(
                usd_per_hour=committed,
                note=f"commitment of {term}, billed in full",
                term_s=float(years * YEAR_S),
            )


QUOTERS: dict[ConsumptionName, Quoter] = {
    "on-demand": _on_demand,
    "spot": _spot,
    "flex-start": _flex_start,
    "reservation": _reservation,
}


def bills(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    where: Where,
    catalog: Catalog,
    *,
    host_vcpu_count: int | None = None,
    licence_usd_per_hour: float = 0.0,
) -> tuple[Bill, ...]:
    """Return a bill per allowed and priced consumption option, cheapest first.

    Args:
        useful_s: useful time of the run; None for a service, which is billed for one hour.
        host_vcpu_count: vCPUs of the host, if accelerators are priced separately.
        licence_usd_per_hour: licences per machine.
    """
    # A commitment is no sensible bill for one hour of a service: it is a note, unless the file
    # asks for reservations or nothing else is offered.
    offered = list(
        _offered(
            Same(machine), Same(catalog.prices), where.region, where.consumption, host_vcpu_count
        )
    )
    if useful_s is None and not where.consumption:
        offered = [item for item in offered if not item[2].term_s] or offered
    times: dict[bool, _RunTimes] = {}  # all but spot are interrupted like on-demand machines
    results: list[Bill] = []
    for offer, option, quote in offered:
        spot = option == "spot"
        if spot not in times:
            run_option: ConsumptionName = "spot" if spot else "on-demand"
            times[spot] = _run_times(
                machine, machine_count, useful_s, resilience, run_option, catalog
            )
        run = times[spot]
        if machine_count > quote.machine_count:
            continue
        if useful_s is not None and run.expected_s > quote.life_s:
            continue
        notes = [*_notes(offer, quote, licence_usd_per_hour)]
        if useful_s is None and not quote.term_s:
            notes += _commitments(offer, machine_count, licence_usd_per_hour)
        usd_per_hour = machine_count * (quote.usd_per_hour + licence_usd_per_hour)
        term_s = 0.0 if useful_s is None else quote.term_s
        billed_s = max(run.expected_s, term_s)
        results.append(
            Bill(
                consumption=option,
                region=offer.price.region,
                price=offer.price.name,
                usd_per_hour=usd_per_hour,
                billed_s=billed_s,
                usd=usd_per_hour * billed_s / HOUR_S,
                note="; ".join(notes),
                expected_s=run.expected_s,
                host_price=offer.host.name if offer.host else "",
                term_s=quote.term_s,
                low_s=run.low_s,
                high_s=run.high_s,
                interruptions_count=run.interruptions_count,
            )
        )
    order = list(QUOTERS)
    return tuple(
        sorted(results, key=lambda bill: (bill.usd, bill.expected_s, order.index(bill.consumption)))
    )


@functools.lru_cache(maxsize=1024)
def _offered(
    machine: Same[Machine],
    prices: Same[tuple[Price, ...]],
    region: str | None,
    consumption: tuple[ConsumptionName, ...],
    host_vcpu_count: int | None,
) -> tuple[_Quoted, ...]:
    """The cheapest region per consumption option and term; of equal ones the best stocked."""
    table = price_table(prices)
    best: dict[tuple[str, float, str], tuple[tuple[float, int, str], _Quoted]] = {}
    for item in _quotes(machine.value, table, region, consumption, host_vcpu_count):
        offer, option, quote = item
        kind = quote.note.partition(";")[0]  # reservations of different kinds stay separate
        name = offer.price.region
        rank = (quote.usd_per_hour, -table.machines_per_region[name], name)
        key = (option, quote.term_s, kind)
        if key not in best or rank < best[key][0]:
            best[key] = (rank, item)
    return tuple(item for _, item in best.values())


def _quotes(
    machine: Machine,
    table: PriceTable,
    region: str | None,
    consumption: tuple[ConsumptionName, ...],
    host_vcpu_count: int | None,
) -> Iterator[_Quoted]:
    """Every quote in the regions and for the consumption options that the file allows."""
    for price in table.prices(machine, region):
        host = _host(machine, price, host_vcpu_count, table)
        if price.covers == "accelerators" and host is None:
            continue
        offer = _Offer(machine=machine, price=price, host=host, requested=bool(consumption))
        for option in consumption or tuple(QUOTERS):
            for quote in QUOTERS[option](offer):
                yield offer, option, quote


def _run_times(
    machine: Machine,
    machine_count: int,
    useful_s: float | None,
    resilience: Resilience,
    option: ConsumptionName,
    catalog: Catalog,
) -> _RunTimes:
    """Expected time at the counted interruption rate and at both ends of its interval."""
    if useful_s is None:
        hour = SERVICE_PERIOD_S
        return _RunTimes(expected_s=hour, low_s=hour, high_s=hour, interruptions_count=0.0)
    runs = run_times(useful_s, machine, machine_count, option, resilience, catalog)
    return _RunTimes(
        expected_s=runs["counted"].expected_s,
        low_s=runs["low"].expected_s,
        high_s=runs["high"].expected_s,
        interruptions_count=runs["counted"].interruptions_count,
    )


def _notes(offer: _Offer, quote: _Quote, licence_usd_per_hour: float) -> Iterator[str]:
    if quote.note:
        yield quote.note
    if offer.host:
        yield f"with a host of {offer.host.machine}"
    excluded = not offer.price.includes_local_ssd and offer.price.local_ssd_usd_per_hour is None
    if (
        offer.machine.local_ssd_mode == "attached"
        and offer.machine.provider != "onprem"
        and excluded
    ):
        yield "the price excludes the attached Local SSD"
    if licence_usd_per_hour:
        yield f"includes ${licence_usd_per_hour:g}/h per machine for licences"
    yield f"prices of {offer.price.date}"


def _commitments(offer: _Offer, machine_count: int, licence_usd_per_hour: float) -> Iterator[str]:
    for column, _, term in COMMITTED:
        usd = offer.usd_per_hour(column)
        if usd is not None:
            total = machine_count * (usd + licence_usd_per_hour)
            yield f"${total:,.2f}/h with a commitment of {term}"


def _host(
    machine: Machine, price: Price, vcpu_count: int | None, table: PriceTable
) -> Price | None:
    """The cheapest host of the region with enough vCPUs, for accelerators priced separately."""
    if price.covers != "accelerators":
        return None
    vcpus = vcpu_count or math.ceil(HOST_VCPU_PER_CHIP * machine.chip_count)
    family = machine.series.partition("+")[0].casefold()  # N1+T4: hosts are named n1-…
    hosts = [
        row
        for row in table.hosts.get((price.provider, price.region), ())
        if row.machine.startswith(f"{family}-")
        and row.on_demand_usd_per_hour is not None
        and _vcpus(row.machine) >= vcpus
    ]
    return min(
        hosts, key=lambda row: (_vcpus(row.machine), row.on_demand_usd_per_hour), default=None
    )


def _vcpus(name: str) -> int:
    """The vCPUs in a host's name: 8 in n1-standard-8."""
    match = re.search(r"-(\d+)$", name)
    return int(match[1]) if match else 0


def no_price_reason(machine: Machine, where: Where, catalog: Catalog) -> str | None:
    """Return why a machine has no bill, or None if it has one."""
    rows = [
        row
        for row in catalog.prices
        if row.provider == machine.provider and row.machine == machine.name
    ]
    if machine.provider == "onprem" and not rows:
        return "on-premises machine without a price in the catalog"
    if not rows:
        return f"the catalog has no price for {machine.name}"
    priced = [row for row in rows if any(_columns(row))]
    if not priced:
        return next((row.note for row in rows if row.note), f"no public price of {machine.name}")
    if not price_table(Same(catalog.prices)).prices(machine, where.region):
        regions = choices_text(sorted({row.region for row in priced}))
        return f"the catalog has no price for {machine.name} in {where.region}, only in {regions}"
    if not bills(machine, 1, None, Resilience(), where, catalog):
        options = choices_text(where.consumption or tuple(QUOTERS))
        return f"{machine.name} has no {options} price"
    return None


def _columns(row: Price) -> Iterator[float | None]:
    yield row.on_demand_usd_per_hour
    yield row.spot_usd_per_hour
    yield row.committed_1y_usd_per_hour
    yield row.committed_3y_usd_per_hour


def energy_joules(
    machine: Machine, machine_count: int, busy_s: float, catalog: Catalog
) -> float | None:
    """Return the energy of the servers, of their chips if only that is known, or None."""
    chip = chip_of(machine, catalog)
    power_w = machine.power_w
    if power_w is None and chip is not None and chip.power_w is not None:
        power_w = chip.power_w * machine.chip_count
    return None if power_w is None else power_w * machine_count * busy_s
