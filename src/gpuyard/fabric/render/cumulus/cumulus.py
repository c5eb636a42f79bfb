"""Cumulus Linux with NVUE."""

from __future__ import annotations

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.render.cumulus.cumulus_profile import (
    CUMULUS_BALANCING,
    CUMULUS_ROCE,
    CUMULUS_WATCHDOG,
)
from gpuyard.fabric.render.cumulus.nvue_config import render_cumulus
from gpuyard.fabric.render.switch_os import SwitchOS


def _port_name(_switch: Switch, port: int, part: int, parts: int) -> str:
    return f"swp{port + 1}" + (f"s{part}" if parts > 1 else "")


CUMULUS = SwitchOS(
    name="cumulus",
    port_name=_port_name,
    qos=lambda _model: CUMULUS_ROCE,
    watchdog=CUMULUS_WATCHDOG,
    balancing=CUMULUS_BALANCING,
    render=render_cumulus,
)
