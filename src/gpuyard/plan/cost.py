"""What a run costs: one bill for each way of paying that is allowed and priced; and its energy."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine, Price
from gpuyard.errors import one_of
from gpuyard.plan.eligible import chip_of
from gpuyard.plan.exposure import Resilience, run_time
from gpuyard.plan.option import Bill
from gpuyard.workload import ConsumptionName, Where, may_be_had

__all__ = ["HOST_VCPU_PER_CHIP", "YEAR_S", "bills", "energy_joules", "no_price_reason"]

HOUR_S = 3600.0
YEAR_S = 8760 * HOUR_S  # a month of a price list is 730 hours, a year twelve of them
FLEX_START_S = 7 * 24 * HOUR_S  # the longest life of a Flex-start machine
CALENDAR_S, CALENDAR_MACHINES = 90 * 24 * HOUR_S, 80  # limits of a reservation in calendar mode
# Flex-start and reservations: docs.cloud.google.com/ai-hypercomputer/docs/consumption-models, 2026-04-10.
CEILING = "up to 53 % less is offered and no price is published: the list price is an upper bound"
HOST_VCPU_PER_CHIP = 4  # for accelerators that are attached to a host of one's choice; as g2-standard-4 has for one L4
COMMITTED = (("committed_1y_usd_per_hour", 1, "one year"), ("committed_3y_usd_per_hour", 3, "three years"))
UNCONFIRMED = "a price is listed; the documentation does not confirm the offer"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offer:
    """A machine with its price in one region."""

    machine: Machine
    price: Price
    host: Price | None
    named: bool  # the workload file names the way

    def usd_per_hour(self, column: str) -> float | None:
        """One machine's price in that column, host and attached disks included; None if a part has none."""
        parts = [getattr(row, column) for row in (self.price, self.host) if row is not None]
        if any(part is None for part in parts):
            return None
        disks = 0.0 if column.startswith("committed") else self.price.local_ssd_usd_per_hour or 0.0
        return float(sum(parts)) + (disks if self.machine.local_ssd_mode == "attached" else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quote:
    """One way of paying for one machine."""

    usd_per_hour: float
    note: str = ""
    term_s: float = 0.0  # paid for at least this long
    life_s: float = math.inf  # a run may take no longer
    machine_count: float = math.inf  # nor more machines


Way = Callable[[_Offer], Iterator[_Quote]]


def _on_demand(offer: _Offer) -> Iterator[_Quote]:
    """By the hour, where it can be created so."""
    usd = offer.usd_per_hour("on_demand_usd_per_hour")
    answer = offer.machine.consumption.on_demand
    if usd is None or answer == "no" or not offer.price.on_demand_can_be_created:
        return
    own = offer.machine.provider == "onprem"
    yield _Quote(usd_per_hour=usd, note="" if answer == "yes" or own else UNCONFIRMED)


def _spot(offer: _Offer) -> Iterator[_Quote]:
    """By the hour, until it is taken away."""
    usd, answer = offer.usd_per_hour("spot_usd_per_hour"), offer.machine.consumption.spot
    if usd is None or answer == "no":
        return
    yield _Quote(usd_per_hour=usd, note="" if answer == "yes" else UNCONFIRMED)


def _flex_start(offer: _Offer) -> Iterator[_Quote]:
    """After a wait for capacity, for at most seven days."""
    usd, answer = offer.usd_per_hour("on_demand_usd_per_hour"), offer.machine.consumption.flex_start
    if usd is None or answer == "no" or (answer is None and not offer.named):
        return
    yield _Quote(usd_per_hour=usd, note=CEILING, life_s=FLEX_START_S)


def _reservation(offer: _Offer) -> Iterator[_Quote]:
    """Capacity that is held: at the list price, or with a commitment of one or three years."""
    ways, machine = offer.machine.consumption, offer.machine
    if not may_be_had(machine, "reservation"):
        return
    usd = offer.usd_per_hour("on_demand_usd_per_hour")
    unknown = offer.named and None in (ways.on_demand_reservation, ways.calendar_reservation, ways.future_reservation)
    if usd is not None and ways.on_demand_reservation == "yes":
        yield _Quote(usd_per_hour=usd, note="the list price, held by an on-demand reservation")
    elif usd is not None and ways.future_reservation == "yes":
        yield _Quote(usd_per_hour=usd, note=f"future reservation through the account team; {CEILING}")
    elif usd is not None and ways.calendar_reservation == "yes":
        note = f"calendar mode; {CEILING}"
        yield _Quote(usd_per_hour=usd, note=note, life_s=CALENDAR_S, machine_count=CALENDAR_MACHINES)
    elif usd is not None and unknown:
        yield _Quote(usd_per_hour=usd, note=f"the list price; {UNCONFIRMED}")
    for column, years, words in COMMITTED:
        committed = offer.usd_per_hour(column)
        if committed is not None:
            yield _Quote(usd_per_hour=committed, note=f"a commitment of {words}, paid in full", term_s=years * YEAR_S)


WAYS: dict[ConsumptionName, Way] = {
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
    """A bill for each allowed and priced way, the cheapest first; without `useful_s`, an hour of a service.

    Nobody commits to years for an hour: commitments of a service are bills where the file names reservations, or where
    nothing else is offered, and otherwise a note.
    `licence_usd_per_hour` is of one machine, `host_vcpu_count` of the host where accelerators are priced apart.
    """
    times_s = {
        way: HOUR_S
        if useful_s is None
        else float(run_time(useful_s, machine, machine_count, way, resilience, catalog).expected_s)
        for way in ("on-demand", "spot")  # every other way is interrupted as on demand
    }
    found: list[Bill] = []
    for price in _prices(machine, where, catalog):
        host = _host(machine, price, host_vcpu_count, catalog)
        if price.covers == "accelerators" and host is None:
            continue
        for way in where.consumption or WAYS:
            offer = _Offer(machine=machine, price=price, host=host, named=bool(where.consumption))
            expected_s = times_s["spot" if way == "spot" else "on-demand"]
            for quote in WAYS[way](offer):
                if machine_count <= quote.machine_count and (useful_s is None or expected_s <= quote.life_s):
                    billed_s = expected_s if useful_s is None else max(expected_s, quote.term_s)
                    usd_per_hour = machine_count * (quote.usd_per_hour + licence_usd_per_hour)
                    notes = [*_notes(offer, quote, licence_usd_per_hour)]
                    if useful_s is None and not quote.term_s:
                        notes += _commitments(offer, machine_count, licence_usd_per_hour)
                    spans_s = expected_s, billed_s, quote.term_s
                    found.append(_bill(offer, way, usd_per_hour, spans_s, "; ".join(notes)))
    if useful_s is None and not where.consumption:
        found = [bill for bill in found if not bill.term_s] or found
    return tuple(sorted(found, key=lambda bill: (bill.usd, bill.expected_s, list(WAYS).index(bill.way), bill.region)))


def _bill(
    offer: _Offer, way: ConsumptionName, usd_per_hour: float, times_s: tuple[float, float, float], note: str
) -> Bill:
    """The offer for the whole cluster and the whole run; times: expected, paid for, and committed to."""
    expected_s, billed_s, term_s = times_s
    return Bill(
        way=way,
        region=offer.price.region,
        price=offer.price.name,
        usd_per_hour=usd_per_hour,
        billed_s=billed_s,
        usd=usd_per_hour * billed_s / HOUR_S,
        note=note,
        expected_s=expected_s,
        host_price=offer.host.name if offer.host else "",
        term_s=term_s,
    )


def _notes(offer: _Offer, quote: _Quote, licence_usd_per_hour: float) -> Iterator[str]:
    """What has to be known about the price."""
    if quote.note:
        yield quote.note
    if offer.host:
        yield f"with a host of {offer.host.machine}"
    left_out = not offer.price.includes_local_ssd and offer.price.local_ssd_usd_per_hour is None
    if offer.machine.local_ssd_mode == "attached" and offer.machine.provider != "onprem" and left_out:
        yield "the attached Local SSD is not in the price"
    if licence_usd_per_hour:
        yield f"${licence_usd_per_hour:g}/h a machine for licences included"
    yield f"prices of {offer.price.date}"


def _commitments(offer: _Offer, machine_count: int, licence_usd_per_hour: float) -> Iterator[str]:
    """What an hour would cost with a commitment."""
    for column, _, words in COMMITTED:
        usd = offer.usd_per_hour(column)
        if usd is not None:
            yield f"${machine_count * (usd + licence_usd_per_hour):,.2f}/h with a commitment of {words}"


def _prices(machine: Machine, where: Where, catalog: Catalog) -> list[Price]:
    """The machine's own price rows in the regions that are allowed."""
    return [
        price
        for price in catalog.prices
        if price.provider == machine.provider
        and price.machine == machine.name
        and price.covers != "host"
        and (where.region is None or price.region == where.region)
    ]


def _host(machine: Machine, price: Price, vcpu_count: int | None, catalog: Catalog) -> Price | None:
    """The cheapest host in that region with as many vCPUs, for accelerators that are priced apart."""
    if price.covers != "accelerators":
        return None
    wanted = vcpu_count or math.ceil(HOST_VCPU_PER_CHIP * machine.chip_count)
    family = machine.series.partition("+")[0].casefold()  # "N1+T4" is attached to hosts named n1-…
    hosts = [
        row
        for row in catalog.prices
        if row.covers == "host"
        and (row.provider, row.region) == (price.provider, price.region)
        and row.machine.startswith(f"{family}-")
        and row.on_demand_usd_per_hour is not None
        and _vcpus(row.machine) >= wanted
    ]
    return min(hosts, key=lambda row: (_vcpus(row.machine), row.on_demand_usd_per_hour), default=None)


def _vcpus(name: str) -> int:
    """The vCPUs that the name of a host ends with: 8 of n1-standard-8."""
    match = re.search(r"-(\d+)$", name)
    return int(match[1]) if match else 0


def no_price_reason(machine: Machine, where: Where, catalog: Catalog) -> str | None:
    """Why a machine has no bill; None if there is a price for one of the allowed ways."""
    rows = [row for row in catalog.prices if row.provider == machine.provider and row.machine == machine.name]
    if machine.provider == "onprem" and not rows:
        return "a machine of your own: the catalog has no price for it"
    if not rows:
        return f"the catalog has no price for {machine.name}"
    priced = [row for row in rows if any(_columns(row))]
    if not priced:
        return next((row.note for row in rows if row.note), f"no public price of {machine.name} was found")
    here = _prices(machine, where, catalog)
    if not here:
        regions = one_of(sorted({row.region for row in priced}))
        return f"the catalog has no price for {machine.name} in {where.region}; it has one in {regions}"
    if not bills(machine, 1, None, Resilience(), where, catalog):
        return f"{machine.name} has no price by {one_of(where.consumption or tuple(WAYS))}"
    return None


def _columns(row: Price) -> Iterator[float | None]:
    """Every price of a row."""
    yield row.on_demand_usd_per_hour
    yield row.spot_usd_per_hour
    yield row.committed_1y_usd_per_hour
    yield row.committed_3y_usd_per_hour


def energy_joules(machine: Machine, machine_count: int, busy_s: float, catalog: Catalog) -> float | None:
    """Energy of the whole servers where their power is known, otherwise of the chips alone; None where neither is."""
    chip = chip_of(machine, catalog)
    power_w = machine.power_w
    if power_w is None and chip is not None and chip.power_w is not None:
        power_w = chip.power_w * machine.chip_count
    return None if power_w is None else power_w * machine_count * busy_s
