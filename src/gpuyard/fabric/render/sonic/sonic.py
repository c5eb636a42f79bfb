"""SONiC."""

from __future__ import annotations

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.render.sonic.config_db import render_sonic
from gpuyard.fabric.render.sonic.sonic_profile import (
    SONIC_BALANCING,
    SONIC_ROCE,
    SONIC_WATCHDOG,
)
from gpuyard.fabric.render.switch_os import SwitchOS

# A port is numbered by its first lane. Eight lanes per port, except on these (port_config.ini).
LANES = {"sn2700": 4, "sn3700": 4, "z9664f": 4}


def _port_name(switch: Switch, port: int, part: int, parts: int) -> str:
    lanes = LANES.get(switch.name, 8)
    return f"Ethernet{port * lanes + part * (lanes // parts)}"


SONIC = SwitchOS(
    name="sonic",
    port_name=_port_name,
    qos=lambda _model: SONIC_ROCE,
    watchdog=SONIC_WATCHDOG,
    balancing=SONIC_BALANCING,
    render=render_sonic,
)
