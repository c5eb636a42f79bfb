"""A blueprint from an option of a plan: the rows it rests on, and the way its machines are paid for."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from gpuyard.blueprint.blueprint import Blueprint, Proof
from gpuyard.catalog import Catalog, Consumption, Machine
from gpuyard.errors import InputError, one_of
from gpuyard.fabric import Fabric
from gpuyard.plan import Option, Plan
from gpuyard.workload import ConsumptionName, Workload

__all__ = ["make_blueprint", "ways_of"]

RESERVATIONS = ("on_demand_reservation", "calendar_reservation", "future_reservation")
OFFERED = ("yes", "price-only")


def make_blueprint(
    workload: Workload,
    plan: Plan,
    number: int,
    catalog: Catalog,
    *,
    way: ConsumptionName | None = None,
    fabric: Fabric | None = None,
    proofs: tuple[Proof, ...] = (),
) -> Blueprint:
    """Option `number` of the plan (from 1) as a decision; InputError where there is no such option or way."""
    if not 1 <= number <= len(plan.options):
        raise InputError.one("--option", f"there is no option {number}", f"use 1 to {len(plan.options)}")
    option = plan.options[number - 1]
    machine = next(row for row in catalog.machines if row.name == option.cluster.machine)
    chip = next((row for row in catalog.chips if row.name == machine.chip), None)
    return Blueprint(
        workload=workload,
        option=option,
        machine=machine,
        chip=chip,
        way=_chosen(option, machine, workload, way),
        number=number,
        profile=plan.profile,
        priced=_priced(option, catalog),
        fabric=fabric,
        proofs=proofs,
    )


def ways_of(machine: Machine, workload: Workload) -> tuple[ConsumptionName, ...]:
    """The ways to have a machine that its documentation allows and the workload does not exclude."""
    allowed = workload.where.consumption
    return tuple(way for way in _offered(machine.consumption) if not allowed or way in allowed)


def _offered(offers: Consumption) -> Iterator[ConsumptionName]:
    """The ways that the documentation allows."""
    if offers.on_demand in OFFERED:
        yield "on-demand"
    if offers.spot in OFFERED:
        yield "spot"
    if offers.flex_start in OFFERED:
        yield "flex-start"
    if any(getattr(offers, name) in OFFERED for name in RESERVATIONS):
        yield "reservation"


def _chosen(
    option: Option, machine: Machine, workload: Workload, way: ConsumptionName | None
) -> ConsumptionName | None:
    """The way that was asked for, the one of the least bill, or the first that is offered."""
    if machine.provider == "onprem":
        return None
    ways = ways_of(machine, workload)
    billed = sorted(option.bills, key=lambda bill: bill.usd)
    if way is None:
        return next((bill.way for bill in billed), next(iter(ways), None))
    if way not in ways and way not in {bill.way for bill in billed}:
        what = f"{machine.name} cannot be had by {way}"
        raise InputError.one("--way", what, f"use {one_of(ways)}" if ways else "choose another option")
    return way


def _priced(option: Option, catalog: Catalog) -> datetime.date | None:
    """The oldest date among the option's prices."""
    wanted = {name for bill in option.bills for name in (bill.price, bill.host_price) if name}
    return min((price.date for price in catalog.prices if price.name in wanted), default=None)
