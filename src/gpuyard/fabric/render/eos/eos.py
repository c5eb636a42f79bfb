"""Arista EOS."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import EcnConfig
from gpuyard.fabric.lossless.watchdog import WatchdogConfig
from gpuyard.fabric.render.eos.eos_config import render_eos
from gpuyard.fabric.render.sonic.sonic_profile import SONIC_ROCE
from gpuyard.fabric.render.switch_os import SwitchOS

LANES = 8  # of a port of the 7060X6: Ethernet1/1 to Ethernet1/8


def _port_name(_switch: Switch, port: int, part: int, parts: int) -> str:
    return f"Ethernet{port + 1}/{part * (LANES // parts) + 1}"


AVD = "https://github.com/aristanetworks/avd, eos_cli_config_gen (2026-11-19)"

# The classes are those of the other OSes, so that one NIC configuration fits all of them. EOS has
# no default for RoCE; its thresholds are those that NVIDIA publishes for Cumulus Linux.
EOS_ROCE = replace(
    SONIC_ROCE,
    name="eos-roce",
    ecn=EcnConfig(mark_ratio=1.0, low_bytes=150_000, high_bytes=1_500_000),
    source=AVD,
    note="EOS has no RoCE default: thresholds as in `nv set qos roce` of Cumulus Linux 5.19",
)

# The polling interval may be half of the shorter of the two other times, at most.
EOS_WATCHDOG = WatchdogConfig(poll_s=0.1, detect_s=0.2, restore_s=0.2, action="drop", source=AVD)

EOS = SwitchOS(
    name="eos",
    port_name=_port_name,
    qos=lambda _model: EOS_ROCE,
    watchdog=EOS_WATCHDOG,
    balancing=(LoadBalancing(mode="ecmp"),),
    render=render_eos,
)
