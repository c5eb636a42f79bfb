"""Cost of a service: bills that suit a long-running service, with N+k redundancy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.cost import bills
from gpuyard.plan.inference.redundancy import down_ratio, groups_with_spares
from gpuyard.plan.inference.serverless import instance_for, serverless_bill
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.limits import LimitViolation
from gpuyard.plan.option import Bill
from gpuyard.plan.spot_advice import PREEMPTIBLE
from gpuyard.workload.where import ConsumptionName
from gpuyard.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCost:
    """Machines with redundancy, and their bills."""

    machine_count: int
    bills: tuple[Bill, ...]
    preemptible: tuple[str, ...] = ()  # available options that do not suit a service


def service_cost(
    workload: Workload,
    machine: Machine,
    machine_count: int,
    machines_per_replica: int,
    requests_per_s: float,
    catalog: Catalog,
    *,
    serverless_replicas: int = 0,
) -> ServiceCost | None:
    """Return the machines that meet the availability and their hourly cost, or None.

    Spot and Flex-start are used only if the file names them.
    """
    where = workload.where
    needed = max(1, machine_count // machines_per_replica)
    consumption: ConsumptionName = "spot" if where.consumption == ("spot",) else "on-demand"
    down = down_ratio(machine, machines_per_replica, consumption, catalog)
    groups = groups_with_spares(needed, down, workload.requirements.availability_ratio)
    if groups is None:
        return None
    count = groups * machines_per_replica + machine_count % machines_per_replica
    offered = bills(machine, count, None, Resilience(), where, catalog)
    suitable = [
        bill
        for bill in offered
        if bill.consumption not in PREEMPTIBLE or bill.consumption in where.consumption
    ]
    preemptible = tuple(
        sorted({bill.consumption for bill in offered} - {bill.consumption for bill in suitable})
    )
    instance = instance_for(machine, where) if serverless_replicas else None
    by_request = (
        serverless_bill(instance, serverless_replicas, requests_per_s, where) if instance else None
    )
    if where.platform == "cloud-run":
        suitable = []  # instances are billed by the platform, not as machines
    if by_request is not None:
        suitable.append(by_request)
    return ServiceCost(
        machine_count=count,
        bills=tuple(sorted(suitable, key=lambda bill: bill.usd)),
        preemptible=preemptible if where.platform != "cloud-run" else (),
    )


def preemptible_only(
    workload: Workload, machine: Machine, catalog: Catalog
) -> LimitViolation | None:
    """Return the violation of a machine that is available only as preemptible, or None."""
    offer = service_cost(workload, machine, 1, 1, 0.0, catalog)
    if offer is None or offer.bills or not offer.preemptible:
        return None
    if instance_for(machine, workload.where) is not None:
        return None
    options = offer.preemptible
    return LimitViolation(
        family=machine.series,
        binding="where.consumption",
        ratio=math.inf,
        what=f"{machine.name} is available only as {' and '.join(options)}, "
        "which can be preempted: not suitable for a service",
        fix=f"allow it with consumption: [{', '.join(options)}]",
    )


def cheapest_equivalents(
    machines: Sequence[Machine], workload: Workload, catalog: Catalog
) -> tuple[Machine, ...]:
    """Return the cheapest of machines with the same accelerators, and all CPU machines."""
    best: dict[tuple[object, ...], tuple[float, int]] = {}
    for at, machine in enumerate(machines):
        cpu_only = machine.chip is None
        key = (machine.series, machine.chip, machine.chip_count, machine.name if cpu_only else "")
        offer = service_cost(workload, machine, 1, 1, 0.0, catalog)
        prices = [bill.usd_per_hour for bill in offer.bills] if offer else []
        usd = min(prices, default=math.inf)
        if key not in best or usd < best[key][0]:
            best[key] = (usd, at)
    return tuple(machines[at] for _, at in best.values())
