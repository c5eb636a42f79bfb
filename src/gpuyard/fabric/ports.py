"""Ports of a switch: breakouts, and port names in the words of each OS."""

from __future__ import annotations

import functools

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.render.switch_os_list import switch_os


def links_per_port(switch: Switch, bits_per_s: float) -> int:
    """Return the largest breakout of a port at this speed; 0 if the port does not support it."""
    speeds = switch.speeds_bits_per_s or (switch.port_bits_per_s,)
    if bits_per_s not in speeds:
        return 0
    fitting = [parts for parts in switch.breakouts if parts * bits_per_s <= switch.port_bits_per_s]
    return max(fitting, default=1)


def uplink_port_bits_per_s(switch: Switch) -> float:
    """Return the speed of the ports toward other switches."""
    return switch.uplink_port_bits_per_s or switch.port_bits_per_s


def uplinks_per_port(switch: Switch, bits_per_s: float) -> int:
    """Return the largest breakout of a port toward other switches; 0 if it lacks the speed."""
    if switch.uplink_port_bits_per_s is not None:
        return int(bits_per_s == switch.uplink_port_bits_per_s)
    return links_per_port(switch, bits_per_s)


@functools.cache
def uplink_port_names(switch: Switch, os: str | None, parts: int, ports: int) -> tuple[str, ...]:
    """Return the names of the links of the last N ports: those toward other switches."""
    if not switch.uplink_port_count:
        return port_names(switch, os, parts)[(switch.port_count - ports) * parts :]
    return _names(switch, os, range(switch.port_count, switch.port_count + ports), parts)


@functools.cache
def port_names(switch: Switch, os: str | None, parts: int) -> tuple[str, ...]:
    """Return the name of every link when all ports are split into `parts`; no OS is InfiniBand."""
    return _names(switch, os, range(switch.port_count), parts)


def _names(switch: Switch, os: str | None, ports: range, parts: int) -> tuple[str, ...]:
    name = switch_os(os).port_name if os is not None else _infiniband_port_name
    return tuple(name(switch, port, part, parts) for port in ports for part in range(parts))


def _infiniband_port_name(_switch: Switch, port: int, part: int, parts: int) -> str:
    return f"p{port + 1}" + (f"/{part + 1}" if parts > 1 else "")
