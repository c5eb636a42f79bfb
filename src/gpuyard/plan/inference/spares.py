"""Machines kept in reserve so that the service is up for the share of time that was asked for."""

from __future__ import annotations

import math

from gpuyard.catalog import Catalog, Machine
from gpuyard.plan.exposure import exposure
from gpuyard.workload import ConsumptionName

__all__ = ["availability_ratio", "down_ratio", "groups_with_spares"]

MOST_SPARES = 64


def down_ratio(machine: Machine, machines: int, way: ConsumptionName, catalog: Catalog) -> float:
    """The share of time that a replica's machines are down, from the records of failures and preemptions."""
    met = exposure(machine, machines, way, catalog)
    if not math.isfinite(met.mean_time_between_s):
        return 0.0
    return met.restart_s / (met.mean_time_between_s + met.restart_s)


def availability_ratio(needed: int, there: int, down: float) -> float:
    """The share of time that at least `needed` of `there` groups are up, each down on its own."""
    return sum(
        math.comb(there, failed) * down**failed * (1.0 - down) ** (there - failed)
        for failed in range(there - needed + 1)
    )


def groups_with_spares(needed: int, down: float, wanted: float | None) -> int | None:
    """The fewest groups that keep the availability; None if no reasonable number does."""
    if wanted is None or down <= 0.0:
        return needed
    for there in range(needed, needed + MOST_SPARES + 1):
        if availability_ratio(needed, there, down) >= wanted:
            return there
    return None
