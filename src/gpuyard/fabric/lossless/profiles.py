"""The published QoS profiles, side by side, and the one that each switch OS is given."""

from __future__ import annotations

from dataclasses import replace

from gpuyard.catalog import SwitchOs
from gpuyard.fabric.lossless.classes import Ecn, Partition, Pfc, Qos, TrafficClass
from gpuyard.fabric.lossless.watchdog import CUMULUS, JUNOS, SONIC, Watchdog

__all__ = [
    "APSTRA_2024", "BY_OS", "CUMULUS_ROCE", "JVD_QFX5240", "PROFILES", "SONIC_DEFAULT", "SONIC_ROCE", "WATCHDOGS",
    "qos_of",
]  # fmt: skip

JVD_QFX5240 = Qos(
    name="jvd-qfx5240",
    classes=(
        TrafficClass(kind="roce", label="NO-LOSS", dscp=(26,), traffic_class=4, priority=3, queue=4, lossless=True),
        TrafficClass(kind="cnp", label="CNP", dscp=(48,), traffic_class=3, priority=6, queue=3, schedule="strict",
                     share_ratio=0.05),
        TrafficClass(kind="default", label="best-effort", dscp=(), traffic_class=0, priority=0, queue=0),
    ),
    pfc=Pfc(priorities=(3,)),
    ecn=Ecn(mark_ratio=1.0, low_fill_ratio=0.55, high_fill_ratio=0.90),
    partition=Partition(
        ingress_lossless_ratio=0.66, ingress_headroom_ratio=0.24, ingress_lossy_ratio=0.10,
        egress_lossless_ratio=0.66, egress_lossy_ratio=0.10,
        dedicated_ingress_ratio=0.15, dedicated_egress_ratio=0.30, dynamic_threshold=10,
    ),
    source="https://github.com/Juniper/jvd/blob/005ab344aea79475ef81c1880430a2f99808c28b/data_center/aidc/"
           "aiml_multitenancy_backend/configuration/conf/leaf1_qfx5240-64od.conf (2026-08-07)",
    note="a comment beside the published snippet calls DSCP 26 CS3; it is AF31 (CS3 is 24)",
)  # fmt: skip

APSTRA_2024 = Qos(
    name="apstra-2024",
    classes=(
        TrafficClass(kind="roce", label="NO-LOSS", dscp=tuple(range(8)), traffic_class=4, priority=0, queue=4,
                     lossless=True),
        TrafficClass(kind="default", label="best-effort", dscp=(), traffic_class=0, priority=1, queue=0),
    ),
    pfc=Pfc(priorities=(0,), scope="server-facing"),
    ecn=Ecn(mark_ratio=1.0, low_fill_ratio=0.20, high_fill_ratio=0.60),
    partition=Partition(
        ingress_lossless_ratio=0.80, ingress_headroom_ratio=0.10, ingress_lossy_ratio=0.10,
        egress_lossless_ratio=0.80, egress_lossy_ratio=0.20,
    ),
    source="https://github.com/Juniper/terraform-apstra-examples/blob/28d884d38a64fe8388b3976eed033a5a6a554490/"
           "ai-cluster-jvd/configlet_dcqcn.tf (2024-10-07)",
    note="for QFX5220, QFX5230 and PTX; shares of lossless memory must be the same on ingress and egress there",
)  # fmt: skip

CUMULUS_ROCE = Qos(
    name="cumulus-roce",
    classes=(
        TrafficClass(kind="roce", label="roce", dscp=tuple(range(24, 32)), traffic_class=3, priority=3, queue=3,
                     lossless=True, share_ratio=0.50),
        TrafficClass(kind="cnp", label="cnp", dscp=tuple(range(48, 56)), traffic_class=6, priority=6, queue=6,
                     schedule="strict"),
        TrafficClass(kind="default", label="default", dscp=(), traffic_class=0, priority=0, queue=0, share_ratio=0.50),
    ),
    pfc=Pfc(priorities=(3,)),
    ecn=Ecn(mark_ratio=1.0, low_bytes=150_000, high_bytes=1_500_000),
    source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, RDMA-over-Converged-Ethernet-RoCE.md, "
           "commit 506e83b3d9 (2026-08-21)",
    note="the whole of `nv set qos roce`; Spectrum-4 programs the lower mark as 159,744 bytes. The page's table "
         'prints "1501500 bytes": 150 and 1500 KB run together',
)  # fmt: skip

SONIC_DEFAULT = Qos(
    name="sonic-default",
    classes=(
        TrafficClass(kind="roce", label="tc3", dscp=(3,), traffic_class=3, priority=3, queue=3, lossless=True),
        TrafficClass(kind="roce", label="tc4", dscp=(4,), traffic_class=4, priority=4, queue=4, lossless=True),
        TrafficClass(kind="cnp", label="tc6", dscp=(48,), traffic_class=6, priority=6, queue=6),
        TrafficClass(kind="other", label="tc0", dscp=(8,), traffic_class=0, priority=0, queue=0),
        TrafficClass(kind="other", label="tc2", dscp=(5,), traffic_class=2, priority=2, queue=2),
        TrafficClass(kind="other", label="tc5", dscp=(46,), traffic_class=5, priority=5, queue=5),
        TrafficClass(kind="default", label="tc1", dscp=(), traffic_class=1, priority=1, queue=1),
    ),
    pfc=Pfc(priorities=(3, 4)),
    ecn=Ecn(mark_ratio=0.05, low_bytes=1_048_576, high_bytes=2_097_152),
    source="https://github.com/sonic-net/sonic-buildimage/blob/086b03bd70f9e211aaaf5f6aefe0790b508d2a94/files/"
           "build_templates/qos_config.j2 (2026-08-23)",
    note="DSCP 26 is lossy here: a NIC that marks as the Juniper design does gets no PFC on default SONiC",
)  # fmt: skip

SONIC_ROCE = replace(
    SONIC_DEFAULT,
    name="sonic-roce",
    classes=(
        TrafficClass(kind="roce", label="roce", dscp=(26,), traffic_class=3, priority=3, queue=3, lossless=True,
                     share_ratio=0.50),
        TrafficClass(kind="cnp", label="cnp", dscp=(48,), traffic_class=6, priority=6, queue=6, schedule="strict"),
        TrafficClass(kind="default", label="default", dscp=(), traffic_class=0, priority=0, queue=0, share_ratio=0.50),
    ),
    pfc=Pfc(priorities=(3,)),
    note="SONiC's default with the marks of NVIDIA and Juniper designs: 26 to the lossless class, 48 strict",
)  # fmt: skip

PROFILES: tuple[Qos, ...] = (JVD_QFX5240, APSTRA_2024, CUMULUS_ROCE, SONIC_DEFAULT, SONIC_ROCE)

# What a fabric is given: everywhere DSCP 26 is lossless on priority 3 and DSCP 48 is strict, so that one setting of
# the NIC fits every OS. Linux with FRR has no default of its own and takes the queues of Cumulus.
BY_OS: dict[SwitchOs, Qos] = {
    "junos": JVD_QFX5240,
    "sonic": SONIC_ROCE,
    "cumulus": CUMULUS_ROCE,
    "frr": CUMULUS_ROCE,
}
WATCHDOGS: dict[SwitchOs, Watchdog] = {"junos": JUNOS, "sonic": SONIC, "cumulus": CUMULUS, "frr": SONIC}

# These switches want equal lossless shares on both sides, so they take the marks of one design and the memory of
# the other.
OLDER_QFX = ("qfx5220", "qfx5230")


def qos_of(os: SwitchOs, switch: str) -> Qos:
    """The profile for a switch under an OS."""
    qos = BY_OS[os]
    return replace(qos, partition=APSTRA_2024.partition) if switch.startswith(OLDER_QFX) else qos
