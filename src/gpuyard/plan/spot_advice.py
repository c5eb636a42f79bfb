"""Order bills by preference: preemptible machines first only where they are the better choice.

Spot comes first if the file names it. Otherwise it comes last for work that several machines do
together for more than a day or with a preemption to expect, for work of more than a week that one
machine does, and for work without checkpoints. Elsewhere it comes first only if
it is still cheaper at the high end of the interruption rate: three counted preemptions leave a
factor of 2.6 open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from gpuyard.plan.option import Bill
from gpuyard.units import DAY_S, HOUR_S
from gpuyard.workload.where import ConsumptionName, Where

WEEK_S = 7 * DAY_S
# Preempted at any time, or terminated after seven days.
PREEMPTIBLE: tuple[ConsumptionName, ...] = ("spot", "flex-start")


def by_preference(
    bills: Sequence[Bill],
    where: Where,
    machine_count: int,
    *,
    synchronous: bool,
    checkpoints: bool = True,
) -> tuple[Bill, ...]:
    """Return the bills with the recommended one first.

    Args:
        synchronous: an interruption of one machine stops all of them.
        checkpoints: the work can continue where it was interrupted.
    """
    steady = min((bill.usd for bill in bills if bill.consumption != "spot"), default=math.inf)
    judged = [
        replace(
            bill,
            advised=bill.consumption != "spot"
            or "spot" in where.consumption
            or _pays(bill, steady, machine_count, synchronous, checkpoints),
        )
        for bill in bills
    ]
    return tuple(sorted(judged, key=lambda bill: not bill.advised))


def _pays(
    spot: Bill, steady_usd: float, machine_count: int, synchronous: bool, checkpoints: bool
) -> bool:
    """True if a spot bill is the better choice despite the unknown interruption rate."""
    together = synchronous and machine_count > 1
    if not checkpoints or (synchronous and spot.expected_s > WEEK_S):
        return False
    if together and (spot.expected_s > DAY_S or spot.interruptions_count >= 1.0):
        return False
    return spot.usd_per_hour * spot.high_s / HOUR_S < steady_usd
