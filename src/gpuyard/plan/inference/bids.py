"""What a service costs: the ways of paying that suit one that must not vanish, with the spares it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine
from gpuyard.plan.cost import bills
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.inference.serverless import instance_for, serverless_bill
from gpuyard.plan.inference.spares import down_ratio, groups_with_spares
from gpuyard.plan.option import Bill
from gpuyard.workload import ConsumptionName, Workload

__all__ = ["Bid", "bid", "cheapest_alike"]

PASSING: tuple[ConsumptionName, ...] = ("spot", "flex-start")  # taken away, or ended after seven days


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid:
    """Machines with spares, and their bills."""

    machine_count: int
    bills: tuple[Bill, ...]
    passing: tuple[str, ...] = ()  # ways that are offered and end under a service


def bid(
    workload: Workload,
    machine: Machine,
    machine_count: int,
    machines_a_replica: int,
    requests_per_s: float,
    catalog: Catalog,
    *,
    serverless_replicas: int = 0,
) -> Bid | None:
    """The machines that keep the availability, and what an hour of them costs; None if no spares would do.

    Spot and Flex-start serve only where the file names them; then failures are counted as they are there.
    """
    wanted, where = workload.requirements.availability_ratio, workload.where
    needed = max(1, machine_count // machines_a_replica)
    way: ConsumptionName = "spot" if where.consumption == ("spot",) else "on-demand"
    down = down_ratio(machine, machines_a_replica, way, catalog)
    groups = groups_with_spares(needed, down, wanted)
    if groups is None:
        return None
    count = groups * machines_a_replica + machine_count % machines_a_replica
    offered = bills(machine, count, None, Resilience(), where, catalog)
    kept = [bill for bill in offered if bill.way not in PASSING or bill.way in where.consumption]
    passing = tuple(sorted({bill.way for bill in offered} - {bill.way for bill in kept}))
    instance = instance_for(machine, where) if serverless_replicas else None
    by_request = serverless_bill(instance, serverless_replicas, requests_per_s, where) if instance else None
    if where.platform == "cloud-run":
        kept = []  # instances are billed by the platform, not as machines
    if by_request is not None:
        kept.append(by_request)
    return Bid(
        machine_count=count,
        bills=tuple(sorted(kept, key=lambda bill: bill.usd)),
        passing=passing if where.platform != "cloud-run" else (),
    )


def cheapest_alike(machines: Sequence[Machine], workload: Workload, catalog: Catalog) -> tuple[Machine, ...]:
    """Of machines with the same accelerators, the cheapest: what else they hold serves nothing. Others all stay."""
    best: dict[tuple[object, ...], tuple[float, int]] = {}
    for at, machine in enumerate(machines):
        alone = machine.chip is None
        key = (machine.series, machine.chip, machine.chip_count, machine.name if alone else "")
        offer = bid(workload, machine, 1, 1, 0.0, catalog)
        usd = min((bill.usd_per_hour for bill in offer.bills), default=math.inf) if offer else math.inf
        if key not in best or usd < best[key][0]:
            best[key] = (usd, at)
    return tuple(machines[at] for _, at in best.values())
