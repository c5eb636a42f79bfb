"""Make a blueprint from an option of a plan, and choose its consumption option."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.blueprint.blueprint import Blueprint, Evidence
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Consumption, Machine
from gpuyard.errors import InputError, choices_text
from gpuyard.fabric.fabric import Fabric
from gpuyard.plan.interruptions import interruption_risk
from gpuyard.plan.option import Option, Plan
from gpuyard.workload.where import ConsumptionName
from gpuyard.workload.workload import Workload

AVAILABLE = ("yes", "price-only")


def make_blueprint(
    workload: Workload,
    plan: Plan,
    number: int,
    catalog: Catalog,
    *,
    consumption: ConsumptionName | None = None,
    fabric: Fabric | None = None,
    evidence: tuple[Evidence, ...] = (),
) -> Blueprint:
    """Make a blueprint of option `number` of the plan (from 1).

    Raises:
        InputError: the plan has no such option, or its machines no such consumption option.
    """
    if not 1 <= number <= len(plan.options):
        raise InputError.one(
            "--option", f"the plan has no option {number}", f"use 1 to {len(plan.options)}"
        )
    option = plan.options[number - 1]
    machine = next(row for row in catalog.machines if row.name == option.cluster.machine)
    chip = next((row for row in catalog.chips if row.name == machine.chip), None)
    blueprint = Blueprint(
        workload=workload,
        option=option,
        machine=machine,
        chip=chip,
        consumption=_chosen(option, machine, workload, consumption),
        number=number,
        profile=plan.profile,
        priced=_oldest_price(option, catalog),
        fabric=fabric,
        evidence=evidence,
    )
    return replace(
        blueprint, mean_time_between_interruptions_s=_interruption_gap_s(blueprint, catalog)
    )


def _interruption_gap_s(blueprint: Blueprint, catalog: Catalog) -> float:
    """Mean time between interruptions of the job; 0 if there is no record, or for a service."""
    if blueprint.shape in ("service", "workstations"):
        return 0.0
    risk = interruption_risk(
        blueprint.machine,
        blueprint.machine_count,
        blueprint.consumption or "on-demand",
        catalog,
        together=not blueprint.is_independent,
    )
    gap_s = risk.mean_time_between_s
    return gap_s if math.isfinite(gap_s) else 0.0


def consumption_options(machine: Machine, workload: Workload) -> tuple[ConsumptionName, ...]:
    """Return the consumption options of a machine type that the workload allows."""
    allowed = workload.where.consumption
    available = _available(machine.consumption)
    return tuple(name for name in available if not allowed or name in allowed)


def _available(consumption: Consumption) -> Iterator[ConsumptionName]:
    if consumption.on_demand in AVAILABLE:
        yield "on-demand"
    if consumption.spot in AVAILABLE:
        yield "spot"
    if consumption.flex_start in AVAILABLE:
        yield "flex-start"
    reservations = (
        consumption.on_demand_reservation,
        consumption.calendar_reservation,
        consumption.future_reservation,
    )
    if any(reservation in AVAILABLE for reservation in reservations):
        yield "reservation"


def _chosen(
    option: Option, machine: Machine, workload: Workload, requested: ConsumptionName | None
) -> ConsumptionName | None:
    # The requested one, the recommended, or the first that is available.
    if machine.provider == "onprem":
        return None
    available = consumption_options(machine, workload)
    billed = [bill.consumption for bill in option.bills]
    if requested is None:
        return next(iter((*billed, *available)), None)
    if requested not in (*available, *billed):
        fix = f"use {choices_text(available)}" if available else "choose another option"
        what = f"{machine.name} is not available as {requested}"
        raise InputError.one("--consumption", what, fix)
    return requested


def _oldest_price(option: Option, catalog: Catalog) -> datetime.date | None:
    names = {name for bill in option.bills for name in (bill.price, bill.host_price) if name}
    return min((price.date for price in catalog.prices if price.name in names), default=None)
