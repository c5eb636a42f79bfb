"""Plain Linux with FRR."""

from __future__ import annotations

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.render.cumulus.cumulus_profile import CUMULUS_ROCE
from gpuyard.fabric.render.frr.linux_config import render_frr
from gpuyard.fabric.render.sonic.sonic_profile import SONIC_WATCHDOG
from gpuyard.fabric.render.switch_os import SwitchOS


def _port_name(_switch: Switch, port: int, part: int, parts: int) -> str:
    return f"eth{port * parts + part + 1}"


# Linux has no QoS default, so it takes the queues of Cumulus: on every OS, DSCP 26 is lossless on
# priority 3 and DSCP 48 is strict, and one NIC configuration fits all of them.
FRR = SwitchOS(
    name="frr",
    port_name=_port_name,
    qos=lambda _model: CUMULUS_ROCE,
    watchdog=SONIC_WATCHDOG,
    balancing=(LoadBalancing(mode="ecmp"),),
    render=render_frr,
    any_switch=True,  # Linux runs on every switch
)
