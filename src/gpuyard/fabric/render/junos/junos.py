"""Junos OS Evolved on QFX and PTX switches."""

from __future__ import annotations

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.render.junos.junos_config import render_junos
from gpuyard.fabric.render.junos.junos_profile import JUNOS_BALANCING, JUNOS_WATCHDOG, junos_qos
from gpuyard.fabric.render.switch_os import SwitchOS


def _port_name(switch: Switch, port: int, part: int, parts: int) -> str:
    card, slot = divmod(port, switch.ports_per_card or switch.port_count)
    return f"et-{card}/0/{slot}" + (f":{part}" if parts > 1 else "")


JUNOS = SwitchOS(
    name="junos",
    port_name=_port_name,
    qos=junos_qos,
    watchdog=JUNOS_WATCHDOG,
    balancing=JUNOS_BALANCING,
    render=render_junos,
)
