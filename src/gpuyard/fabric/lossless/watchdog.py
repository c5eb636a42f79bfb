"""The PFC watchdog: a queue that stays paused too long loses its lossless treatment for a while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import Doc
from gpuyard.errors import Problem
from gpuyard.units import DURATION

Seconds = Annotated[float, DURATION]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchdogConfig:
    """Poll interval, detection time and restoration time of the PFC watchdog."""

    poll_s: Seconds
    detect_s: Seconds
    action: Literal["drop", "forward", "alert"]
    source: str
    restore_s: Annotated[Seconds | None, Doc("None: the OS decides")] = None


# The ranges of SONiC's YANG model, in seconds.
SONIC_RANGES: dict[str, tuple[float, float]] = {
    "poll": (0.100, 1.000),
    "detect": (0.100, 5.000),
    "restore": (0.100, 60.000),
}


def watchdog_problems(watchdog: WatchdogConfig, where: str = "watchdog") -> Iterator[Problem]:
    """Yield times shorter than the poll interval, or outside the ranges of SONiC's model."""
    times = {"poll": watchdog.poll_s, "detect": watchdog.detect_s, "restore": watchdog.restore_s}
    for name, (low, high) in SONIC_RANGES.items():
        value = times[name]
        if value is not None and not low <= value <= high:
            yield Problem(
                where=where,
                what=f"{name} time is {value * 1e3:g} ms",
                fix=f"use {low * 1e3:g} to {high * 1e3:g} ms",
            )
    for name in ("detect", "restore"):
        value = times[name]
        if value is not None and value < watchdog.poll_s:
            yield Problem(
                where=where,
                what=f"{name} time {value * 1e3:g} ms is below the poll interval"
                f" {watchdog.poll_s * 1e3:g} ms",
                fix=f"use at least {watchdog.poll_s * 1e3:g} ms",
            )
