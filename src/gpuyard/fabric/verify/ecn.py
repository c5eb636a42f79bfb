"""Checks of ECN: it marks, neither too early nor after PFC pauses.

Without marks, senders slow down only when PFC pauses them, and pauses spread to other flows.
Marks on an almost empty queue slow senders down on an idle network.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.fabric.lossless.headroom import SIGNAL_M_PER_S
from gpuyard.fabric.lossless.qos import EcnConfig
from gpuyard.fabric.verify.finding import Check, error, note, warning
from gpuyard.fabric.verify.subject import ConfiguredFabric
from gpuyard.units import BYTES, RATIO, bytes_from_bits, show

# DCQCN as published marks from 5 KB on, three packets of 1,500 bytes, up to 1 % at the upper
# threshold of 200 KB, on 40 Gb/s (Zhu et al., Congestion Control for Large-Scale RDMA Deployments,
# SIGCOMM 2015, figure 14; conferences.sigcomm.org/sigcomm/2015/pdf/papers/p523.pdf).
LEAST_PACKETS = 3
LEAST_MARK_RATIO = 0.01
# A link stays busy if marks begin above C·RTT/7 (Alizadeh et al., Data Center TCP (DCTCP),
# SIGCOMM 2010, section 3.4, equation 13: K > C × RTT / 7).
RTT_SHARE = 1 / 7
QUEUE = "lossless queue"


def _order(subject: ConfiguredFabric) -> Iterator[Finding]:
    ecn = subject.fabric.lossless.qos.ecn
    if not subject.has_pfc:
        return
    for low, high in ((ecn.low_bytes, ecn.high_bytes), (ecn.low_fill_ratio, ecn.high_fill_ratio)):
        if low is not None and high is not None and low >= high:
            yield error(
                "ecn",
                QUEUE,
                f"the lower threshold is {low:g} and the upper {high:g}",
                "set the lower threshold below the upper",
            )
    if ecn.high_fill_ratio is not None and ecn.high_fill_ratio >= 1:
        yield error(
            "ecn",
            QUEUE,
            f"marks all packets at a fill of {show(ecn.high_fill_ratio, RATIO)}: PFC pauses first",
            "lower the upper threshold, for example to 90%",
        )
    for buffers in subject.fabric.lossless.buffers:
        count = buffers.plan.ecn_first_count(ecn)
        if count == 0:
            yield error(
                "ecn",
                buffers.role,
                f"marks all packets at {show(ecn.high_bytes or 0, BYTES)}, and PFC pauses at"
                f" {show(buffers.plan.pfc_threshold_bytes(1) or 0, BYTES)} or less",
                "lower the ECN thresholds",
            )
        elif count is not None:
            yield note(
                "ecn",
                where=buffers.role,
                what=f"ECN marks before PFC pauses with up to {count} congested queues",
            )


def _marking(subject: ConfiguredFabric) -> Iterator[Finding]:
    ratio = subject.fabric.lossless.qos.ecn.mark_ratio
    if not subject.has_pfc:
        return
    if not 0 < ratio <= 1:
        never = "never marks" if ratio <= 0 else "is no probability"
        yield error(
            "ecn-marking",
            QUEUE,
            f"a mark ratio of {ratio:g} {never}: only PFC slows senders down",
            "set the probability at the upper threshold, for example 1%",
        )
    elif ratio < LEAST_MARK_RATIO:
        yield warning(
            "ecn-marking",
            QUEUE,
            f"marks {show(ratio, RATIO)} of packets at the upper threshold, less than any"
            " published design",
            f"use at least {show(LEAST_MARK_RATIO, RATIO)}",
        )


def _thresholds(subject: ConfiguredFabric) -> Iterator[Finding]:
    lossless = subject.fabric.lossless
    ecn = lossless.qos.ecn
    if not subject.has_pfc:
        return
    if None in (ecn.low_bytes, ecn.high_bytes) and None in (
        ecn.low_fill_ratio,
        ecn.high_fill_ratio,
    ):
        yield error(
            "ecn-thresholds", QUEUE, "has no ECN thresholds: it never marks", "set both thresholds"
        )
        return
    least_low = LEAST_PACKETS * subject.fabric.demand.fabric_mtu_bytes
    least_high = rtt_bytes(subject) * RTT_SHARE
    for buffers in lossless.buffers:
        low, high = _in_bytes(ecn, buffers.plan.shared_bytes)
        if low is not None and low < least_low:
            yield error(
                "ecn-thresholds",
                buffers.role,
                f"marks from {show(low, BYTES)} on, fewer than {LEAST_PACKETS} packets of"
                f" {subject.fabric.demand.fabric_mtu_bytes:,} bytes: senders slow down on an idle"
                " network",
                f"raise the lower threshold to at least {least_low:,} bytes",
            )
        if high is not None and high < least_high:
            yield error(
                "ecn-thresholds",
                buffers.role,
                f"marks all packets at {show(high, BYTES)}, below a seventh of the"
                f" bandwidth-delay product, {show(least_high, BYTES)}: links idle",
                f"raise the upper threshold to at least {round(least_high):,} bytes",
            )
        room = buffers.plan.shared_bytes or buffers.plan.buffer_bytes
        if high is not None and room is not None and high >= room:
            yield error(
                "ecn-thresholds",
                buffers.role,
                f"the upper threshold of {show(high, BYTES)} is above the lossless buffer of"
                f" {show(room, BYTES)}",
                "lower the ECN thresholds",
            )


def _in_bytes(ecn: EcnConfig, shared_bytes: int | None) -> tuple[float | None, float | None]:
    """Thresholds in bytes; relative ones of the longest queue, that of the whole shared buffer."""
    if ecn.low_bytes is not None or ecn.high_bytes is not None or shared_bytes is None:
        return ecn.low_bytes, ecn.high_bytes
    low, high = ecn.low_fill_ratio, ecn.high_fill_ratio
    return (
        low * shared_bytes if low is not None else None,
        high * shared_bytes if high is not None else None,
    )


def rtt_bytes(subject: ConfiguredFabric) -> float:
    """Return the least bandwidth-delay product of the longest path: cables and one MTU per hop.

    Switch and NIC latency come on top, so a threshold below a part of this is too low anywhere.
    """
    fabric = subject.fabric
    cables = fabric.demand.cables
    reach_m = (cables.server_m, cables.spine_m, cables.core_m)[: max(1, fabric.size.tiers)]
    hops = 2 * len(reach_m)
    link_bytes_per_s = bytes_from_bits(
        min(fabric.demand.plane_bits_per_s, fabric.demand.link_bits_per_s)
    )
    one_way_s = 2 * sum(reach_m) / SIGNAL_M_PER_S
    one_way_s += hops * fabric.demand.fabric_mtu_bytes / link_bytes_per_s
    return 2 * one_way_s * link_bytes_per_s


CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    Check(name="ecn", verifies="ECN marks before PFC pauses", find=_order),
    Check(
        name="ecn-marking",
        verifies="ECN marks packets of a congested queue",
        find=_marking,
    ),
    Check(
        name="ecn-thresholds",
        verifies="ECN marks neither on an idle network nor beyond the buffer",
        find=_thresholds,
    ),
)
