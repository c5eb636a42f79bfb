"""QoS profiles, PFC watchdog and load balancing of SONiC."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import EcnConfig, PfcConfig, QosProfile, TrafficClass, roce_classes
from gpuyard.fabric.lossless.watchdog import WatchdogConfig

SONIC_DEFAULT = QosProfile(
    name="sonic-default",
    classes=(
        TrafficClass(
            kind="roce", label="tc3", dscp=(3,), traffic_class=3, priority=3, queue=3, lossless=True
        ),
        TrafficClass(
            kind="roce", label="tc4", dscp=(4,), traffic_class=4, priority=4, queue=4, lossless=True
        ),
        TrafficClass(kind="cnp", label="tc6", dscp=(48,), traffic_class=6, priority=6, queue=6),
        TrafficClass(kind="other", label="tc0", dscp=(8,), traffic_class=0, priority=0, queue=0),
        TrafficClass(kind="other", label="tc2", dscp=(5,), traffic_class=2, priority=2, queue=2),
        TrafficClass(kind="other", label="tc5", dscp=(46,), traffic_class=5, priority=5, queue=5),
        TrafficClass(kind="default", label="tc1", dscp=(), traffic_class=1, priority=1, queue=1),
    ),
    pfc=PfcConfig(priorities=(3, 4)),
    ecn=EcnConfig(mark_ratio=0.05, low_bytes=1_048_576, high_bytes=2_097_152),
    source="https://github.com/sonic-net/sonic-buildimage/blob/086b03bd70f9e211aaaf5f6aefe0790b508d2a94/files/"
    "build_templates/qos_config.j2 (2026-08-23)",
    note="DSCP 26 is lossy: a NIC that marks as in the Juniper design gets no PFC on default SONiC",
)

SONIC_ROCE = replace(
    SONIC_DEFAULT,
    name="sonic-roce",
    classes=roce_classes(roce_dscp=(26,), cnp_dscp=(48,)),
    pfc=PfcConfig(priorities=(3,)),
    note="SONiC's default with the DSCPs of NVIDIA and Juniper designs: 26 lossless, 48 strict",
)

# `pfcwd start_default`: 200 ms for 32 ports or fewer; the poll interval is the model's minimum.
SONIC_WATCHDOG = WatchdogConfig(
    poll_s=0.1,
    detect_s=0.2,
    restore_s=0.2,
    action="drop",
    source="https://github.com/sonic-net/sonic-buildimage/blob/086b03bd70f9e211aaaf5f6aefe0790b508d2a94/src/"
    "sonic-yang-models/yang-models/sonic-pfcwd.yang (2026-08-23)",
)

SONIC_BALANCING = (
    LoadBalancing(mode="ecmp"),
    LoadBalancing(mode="flowlet", inactivity_s=256e-6),
    LoadBalancing(mode="per-packet"),
    LoadBalancing(mode="spray"),
)
