"""The PFC watchdog: a queue that stays paused too long is taken out of the lossless class for a while."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document import Doc
from gpuyard.errors import Problem
from gpuyard.units import DURATION

__all__ = ["CUMULUS", "JUNOS", "SONIC", "SONIC_RANGES", "Watchdog", "watchdog_problems"]

Seconds = Annotated[float, DURATION]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdog:
    """How often queues are looked at, and after how long one is declared stuck and let go again."""

    poll_s: Seconds
    detect_s: Seconds
    action: Literal["drop", "forward", "alert"]
    source: str
    restore_s: Annotated[Seconds | None, Doc("None where the OS decides")] = None


# Juniper: 100 ms polls; detection after two of them; recovery after 200 ms.
JUNOS = Watchdog(
    poll_s=0.1, detect_s=0.2, restore_s=0.2, action="drop",
    source="https://www.juniper.net/documentation/us/en/software/junos/cos/topics/topic-map/"
           "cos-pfc-watchdog-configure.html (2026-11-15)",
)  # fmt: skip
# NVIDIA: 100 ms polls, three in a row.
CUMULUS = Watchdog(
    poll_s=0.1, detect_s=0.3, restore_s=None, action="drop",
    source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, Quality of Service, commit 506e83b3d9 "
           "(2026-08-21)",
)  # fmt: skip
# `pfcwd start_default` of SONiC: 200 ms for 32 ports or fewer; the poll is the smallest that the model allows.
SONIC = Watchdog(
    poll_s=0.1, detect_s=0.2, restore_s=0.2, action="drop",
    source="https://github.com/sonic-net/sonic-buildimage/blob/086b03bd70f9e211aaaf5f6aefe0790b508d2a94/src/"
           "sonic-yang-models/yang-models/sonic-pfcwd.yang (2026-08-23)",
)  # fmt: skip

# What SONiC's model allows, in seconds.
SONIC_RANGES: dict[str, tuple[float, float]] = {
    "poll": (0.100, 1.000),
    "detect": (0.100, 5.000),
    "restore": (0.100, 60.000),
}


def watchdog_problems(watchdog: Watchdog, where: str = "watchdog") -> Iterator[Problem]:
    """What a watchdog cannot do: react faster than it looks, or leave the ranges of SONiC's model."""
    times = {"poll": watchdog.poll_s, "detect": watchdog.detect_s, "restore": watchdog.restore_s}
    for name, (low, high) in SONIC_RANGES.items():
        value = times[name]
        if value is not None and not low <= value <= high:
            yield Problem(
                where=where,
                what=f"{name} time is {value * 1e3:g} ms",
                fix=f"choose between {low * 1e3:g} and {high * 1e3:g} ms",
            )
    for name in ("detect", "restore"):
        value = times[name]
        if value is not None and value < watchdog.poll_s:
            yield Problem(
                where=where,
                what=f"{name} time {value * 1e3:g} ms is below the poll interval {watchdog.poll_s * 1e3:g} ms",
                fix=f"make it {watchdog.poll_s * 1e3:g} ms or more",
            )
