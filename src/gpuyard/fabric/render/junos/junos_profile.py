"""QoS profiles, PFC watchdog and load balancing of Junos, as Juniper publishes them."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.fabric.lossless.balancing import LoadBalancing
from gpuyard.fabric.lossless.qos import (
    BufferPartition,
    EcnConfig,
    PfcConfig,
    QosProfile,
    TrafficClass,
)
from gpuyard.fabric.lossless.watchdog import WatchdogConfig

JVD_QFX5240 = QosProfile(
    name="jvd-qfx5240",
    classes=(
        TrafficClass(
            kind="roce",
            label="NO-LOSS",
            dscp=(26,),
            traffic_class=4,
            priority=3,
            queue=4,
            lossless=True,
        ),
        TrafficClass(
            kind="cnp",
            label="CNP",
            dscp=(48,),
            traffic_class=3,
            priority=6,
            queue=3,
            schedule="strict",
            share_ratio=0.05,
        ),
        TrafficClass(
            kind="default", label="best-effort", dscp=(), traffic_class=0, priority=0, queue=0
        ),
    ),
    pfc=PfcConfig(priorities=(3,)),
    ecn=EcnConfig(mark_ratio=1.0, low_fill_ratio=0.55, high_fill_ratio=0.90),
    partition=BufferPartition(
        ingress_lossless_ratio=0.66,
        ingress_headroom_ratio=0.24,
        ingress_lossy_ratio=0.10,
        egress_lossless_ratio=0.66,
        egress_lossy_ratio=0.10,
        dedicated_ingress_ratio=0.15,
        dedicated_egress_ratio=0.30,
        dynamic_threshold=10,
    ),
    source="https://github.com/Juniper/jvd/blob/005ab344aea79475ef81c1880430a2f99808c28b/data_center/aidc/"
    "aiml_multitenancy_backend/configuration/conf/leaf1_qfx5240-64od.conf (2026-08-07)",
    note="a comment in the published snippet calls DSCP 26 CS3; it is AF31 (CS3 is 24)",
)

APSTRA_2024 = QosProfile(
    name="apstra-2024",
    classes=(
        TrafficClass(
            kind="roce",
            label="NO-LOSS",
            dscp=tuple(range(8)),
            traffic_class=4,
            priority=0,
            queue=4,
            lossless=True,
        ),
        TrafficClass(
            kind="default", label="best-effort", dscp=(), traffic_class=0, priority=1, queue=0
        ),
    ),
    pfc=PfcConfig(priorities=(0,), scope="server-facing"),
    ecn=EcnConfig(mark_ratio=1.0, low_fill_ratio=0.20, high_fill_ratio=0.60),
    partition=BufferPartition(
        ingress_lossless_ratio=0.80,
        ingress_headroom_ratio=0.10,
        ingress_lossy_ratio=0.10,
        egress_lossless_ratio=0.80,
        egress_lossy_ratio=0.20,
    ),
    source="https://github.com/Juniper/terraform-apstra-examples/blob/28d884d38a64fe8388b3976eed033a5a6a554490/"
    "ai-cluster-jvd/configlet_dcqcn.tf (2024-10-07)",
    note="for QFX5220, QFX5230 and PTX, where lossless buffer shares must be equal on both sides",
)

# These switches need equal lossless shares on ingress and egress, so they combine the traffic
# classes of one published design with the buffer partition of the other.
OLDER_QFX = ("qfx5220", "qfx5230")

# 100 ms polls, detection after two of them, recovery after 200 ms.
JUNOS_WATCHDOG = WatchdogConfig(
    poll_s=0.1,
    detect_s=0.2,
    restore_s=0.2,
    action="drop",
    source="https://www.juniper.net/documentation/us/en/software/junos/cos/topics/topic-map/"
    "cos-pfc-watchdog-configure.html (2026-11-15)",
)

# Dynamic load balancing with the numbers of the validated design of 2025.
_DLB = LoadBalancing(
    mode="flowlet",
    inactivity_s=128e-6,
    flowset_count=2048,
    reassign_probability=3,
    reassign_delta=6,
    sampling_per_s=1_000_000,
)
JUNOS_BALANCING = (
    LoadBalancing(mode="ecmp"),
    _DLB,
    replace(_DLB, mode="per-packet"),
    replace(_DLB, mode="global"),
    replace(_DLB, mode="spray"),
)


def junos_qos(model: str) -> QosProfile:
    """Return the QoS profile for a switch model."""
    if model.startswith(OLDER_QFX):
        return replace(JVD_QFX5240, partition=APSTRA_2024.partition)
    return JVD_QFX5240
