"""N+k redundancy for the availability target of a service."""

from __future__ import annotations

import math

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.plan.interruptions import interruption_risk
from gpuyard.workload.where import ConsumptionName

MAX_SPARES = 64


def down_ratio(
    machine: Machine, machines: int, consumption: ConsumptionName, catalog: Catalog
) -> float:
    """Return the fraction of time that a replica's machines are down."""
    risk = interruption_risk(machine, machines, consumption, catalog)
    if not math.isfinite(risk.mean_time_between_s):
        return 0.0
    return risk.restart_s / (risk.mean_time_between_s + risk.restart_s)


def availability_ratio(needed: int, total: int, down: float) -> float:
    """Return the fraction of time that at least `needed` of `total` independent groups are up."""
    return sum(
        math.comb(total, failed) * down**failed * (1.0 - down) ** (total - failed)
        for failed in range(total - needed + 1)
    )


def groups_with_spares(needed: int, down: float, target: float | None) -> int | None:
    """Return the fewest groups that meet the availability target, or None."""
    if target is None or down <= 0.0:
        return needed
    for total in range(needed, needed + MAX_SPARES + 1):
        if availability_ratio(needed, total, down) >= target:
            return total
    return None
