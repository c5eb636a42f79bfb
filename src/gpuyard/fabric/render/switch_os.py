"""The interface of a switch operating system: everything that differs between OSes.

To add an OS, describe it as a `SwitchOS` in its own folder next to this file, and add it to
`SWITCH_OSES` in `switch_os_list.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.fabric import Fabric
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import QosProfile
from gpuyard.fabric.lossless.watchdog import WatchdogConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file to write: its path under the output folder, and its text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchOS:
    """A switch OS: its port names, QoS, load-balancing modes and configuration files."""

    name: str  # as in `os` of the catalog's switches and in --os
    port_name: Callable[[Switch, int, int, int], str]  # switch, port, part of it, parts per port
    qos: Callable[[str], QosProfile]  # by switch model
    watchdog: WatchdogConfig
    balancing: tuple[LoadBalancing, ...]  # supported modes with their settings
    render: Callable[[Fabric], Iterator[File]]  # an iterator: large fabrics do not fit in memory
    any_switch: bool = False  # runs on switches whose catalog entry does not list it

    def balancing_for(self, mode: str) -> LoadBalancing | None:
        """Return the settings of a load-balancing mode; None if the OS does not support it."""
        return next((balancing for balancing in self.balancing if balancing.mode == mode), None)

    def runs_on(self, switch: Switch) -> bool:
        return self.any_switch or self.name in switch.os
