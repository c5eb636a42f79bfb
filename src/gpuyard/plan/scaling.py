"""How a run scales with the number of machines, and the knee of the curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import Doc
from gpuyard.plan.option import Option, Plan

KNEE_RATIO = 1.25  # machine-hours at the knee / the fewest


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One number of machines."""

    machine_count: int
    chip_count: float
    time_s: float
    usd: float | None
    efficiency_ratio: Annotated[float, Doc("fewest machine-hours of all counts / those here")]
    knee: Annotated[bool, Doc("the most machines that take up to 25 % more machine-hours")] = False


def scaling(plan: Plan, machine: str) -> tuple[ScalingPoint, ...]:
    """Return the counts of one machine type in a plan, by rising count, with the knee marked."""
    by_count: dict[int, Option] = {}
    for option in plan.options:
        if option.cluster.machine == machine:
            by_count.setdefault(option.cluster.machine_count, option)
    work = {count: count * option.expected_s for count, option in by_count.items()}
    least = min(work.values(), default=0.0)
    knee = max((count for count in work if work[count] <= KNEE_RATIO * least), default=0)
    return tuple(
        ScalingPoint(
            machine_count=count,
            chip_count=by_count[count].cluster.chip_count,
            time_s=by_count[count].expected_s,
            usd=by_count[count].usd,
            efficiency_ratio=least / work[count],
            knee=count == knee,
        )
        for count in sorted(by_count)
    )
