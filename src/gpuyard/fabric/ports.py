"""Ports of a switch: how many links of a speed each gives, and what each OS calls them."""

from __future__ import annotations

import functools

from gpuyard.catalog import Switch, SwitchOs

__all__ = ["links_per_port", "port_names"]

# SONiC numbers a port by its first lane. Eight lanes a port, except on these (their port_config.ini).
SONIC_LANES = {"sn2700": 4, "sn3700": 4, "z9664f": 4}


def links_per_port(switch: Switch, bits_per_s: float) -> int:
    """Into how many links of that speed one port can be split; 0 if it cannot run at that speed."""
    speeds = switch.speeds_bits_per_s or (switch.port_bits_per_s,)
    if bits_per_s not in speeds:
        return 0
    fitting = [ways for ways in switch.breakouts if ways * bits_per_s <= switch.port_bits_per_s]
    return max(fitting, default=1)


@functools.cache
def port_names(switch: Switch, os: SwitchOs | None, ways: int) -> tuple[str, ...]:
    """Every link's name when all ports are split `ways`, in order of ports, then of splits."""
    return tuple(_name(switch, os, port, way, ways) for port in range(switch.port_count) for way in range(ways))


def _name(switch: Switch, os: SwitchOs | None, port: int, way: int, ways: int) -> str:
    """The name of one link; ports count from 0 here."""
    if os == "junos":
        card, slot = divmod(port, switch.ports_per_card or switch.port_count)
        return f"et-{card}/0/{slot}" + (f":{way}" if ways > 1 else "")
    if os == "sonic":
        lanes = SONIC_LANES.get(switch.name, 8)
        return f"Ethernet{port * lanes + way * (lanes // ways)}"
    if os == "cumulus":
        return f"swp{port + 1}" + (f"s{way}" if ways > 1 else "")
    if os == "frr":
        return f"eth{port * ways + way + 1}"
    return f"p{port + 1}" + (f"/{way + 1}" if ways > 1 else "")  # InfiniBand: the port and its half
