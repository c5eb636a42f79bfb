"""Cisco NX-OS on Nexus 9000 switches."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog.switches import Switch
from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import EcnConfig
from gpuyard.fabric.lossless.watchdog import WatchdogConfig
from gpuyard.fabric.render.nxos.nxos_config import render_nxos
from gpuyard.fabric.render.sonic.sonic_profile import SONIC_ROCE
from gpuyard.fabric.render.switch_os import SwitchOS

BLUEPRINT = (
    "https://www.cisco.com/c/en/us/td/docs/dcn/whitepapers/"
    "cisco-data-center-networking-blueprint-for-ai-ml-applications.html (2024-03-29)"
)
PFC_GUIDE = (
    "https://www.cisco.com/c/en/us/td/docs/dcn/nx-os/nexus9000/105x/configuration/qos/"
    "cisco-nexus-9000-series-nx-os-quality-of-service-configuration-guide-105x/"
    "m-configuring-priority-flow-control.html (2026-11-19)"
)
PRIORITY_QUEUE = 7  # the queue of NX-OS that has strict priority


def _port_name(_switch: Switch, port: int, part: int, parts: int) -> str:
    return f"Ethernet1/{port + 1}" + (f"/{part + 1}" if parts > 1 else "")


NXOS_ROCE = replace(
    SONIC_ROCE,
    name="nxos-roce",
    classes=tuple(
        replace(one, traffic_class=PRIORITY_QUEUE, priority=PRIORITY_QUEUE, queue=PRIORITY_QUEUE)
        if one.kind == "cnp"
        else one
        for one in SONIC_ROCE.classes
    ),
    ecn=EcnConfig(mark_ratio=0.07, low_bytes=150_000, high_bytes=3_000_000),
    source=BLUEPRINT,
    note="WRED as in Cisco's blueprint: 7 % marked up to the upper threshold, all above it",
)

NXOS_WATCHDOG = WatchdogConfig(
    poll_s=0.1, detect_s=0.2, restore_s=None, action="drop", source=PFC_GUIDE
)

NXOS = SwitchOS(
    name="nxos",
    port_name=_port_name,
    qos=lambda _model: NXOS_ROCE,
    watchdog=NXOS_WATCHDOG,
    balancing=(
        LoadBalancing(mode="ecmp"),
        LoadBalancing(mode="flowlet"),
        LoadBalancing(mode="per-packet"),
    ),
    render=render_nxos,
)
