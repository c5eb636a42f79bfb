"""QoS profile, PFC watchdog and load balancing of Cumulus Linux, as NVIDIA publishes them."""

from __future__ import annotations

from gpuyard.fabric.lossless.balancing import ADAPTIVE, LoadBalancing
from gpuyard.fabric.lossless.qos import EcnConfig, PfcConfig, QosProfile, roce_classes
from gpuyard.fabric.lossless.watchdog import WatchdogConfig

CUMULUS_ROCE = QosProfile(
    name="cumulus-roce",
    classes=roce_classes(roce_dscp=tuple(range(24, 32)), cnp_dscp=tuple(range(48, 56))),
    pfc=PfcConfig(priorities=(3,)),
    ecn=EcnConfig(mark_ratio=1.0, low_bytes=150_000, high_bytes=1_500_000),
    source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, "
    "RDMA-over-Converged-Ethernet-RoCE.md, "
    "commit 506e83b3d9 (2026-08-21)",
    note="everything that `nv set qos roce` sets; Spectrum-4 programs the lower threshold as "
    "159,744 "
    "bytes. The table of the page prints 150 and 1500 KB as one number, 1501500 bytes",
)

# 100 ms polls, three in a row.
CUMULUS_WATCHDOG = WatchdogConfig(
    poll_s=0.1,
    detect_s=0.3,
    restore_s=None,
    action="drop",
    source="https://github.com/CumulusNetworks/docs, Cumulus Linux 5.19, Quality of Service, "
    "commit 506e83b3d9 "
    "(2026-08-21)",
)

CUMULUS_BALANCING = (LoadBalancing(mode="ecmp"), ADAPTIVE)
