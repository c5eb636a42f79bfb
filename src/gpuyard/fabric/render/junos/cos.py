"""Junos class of service: classifiers, PFC, ECN, buffers, as in Juniper's validated design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gpuyard.fabric.fabric import Device
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.lossless.qos import BufferPartition, QosProfile, TrafficClass
from gpuyard.fabric.render.junos.junos_profile import junos_qos

CLASSIFIER, MAP, ECN_PROFILE = "roce", "roce", "ecn"
Cables = Mapping[tuple[str, str], float]


def cos(lossless: Lossless, device: Device, cables: Cables) -> Iterator[str]:
    """Yield the class-of-service statements; none without PFC."""
    qos = lossless.qos
    if not qos.pfc.priorities:
        return
    start = "set class-of-service"
    for traffic in qos.classes:
        if traffic.dscp:
            marks = " ".join(f"{dscp:06b}" for dscp in traffic.dscp)
            listed = f"[ {marks} ]" if len(traffic.dscp) > 1 else marks
            here = f"{start} classifiers dscp {CLASSIFIER} forwarding-class {traffic.label}"
            yield f"{here} loss-priority low code-points {listed}"
            lossless_part = f" no-loss pfc-priority {traffic.priority}" if traffic.lossless else ""
            queue = f"queue-num {traffic.queue}{lossless_part}"
            yield f"{start} forwarding-classes class {traffic.label} {queue}"
    yield from _ecn(start, qos)
    partition = junos_qos(device.model or "").partition
    plan = next((buffers.plan for buffers in lossless.buffers if buffers.role == device.role), None)
    if partition is not None and plan is not None and plan.buffer_bytes is not None:
        yield from _partition(start, partition)  # not on a chassis with buffers on its line cards
    yield from _schedulers(start, qos)
    lengths = sorted(
        {
            math.ceil(cables[device.name, port.port])
            for port in device.interfaces
            if (device.name, port.port) in cables
        }
    )
    for metres in lengths:
        yield from _profile(start, lossless, metres)
    for port in device.interfaces:
        here = f"{start} interfaces {port.port}"
        cable_m = cables.get((device.name, port.port))
        if cable_m is not None and (lossless.pfc.scope == "all" or port.peer_role == "server"):
            yield f"{here} congestion-notification-profile {_name(math.ceil(cable_m))}"
        yield f"{here} scheduler-map {MAP}"
        yield f"{here} unit 0 classifiers dscp {CLASSIFIER}"


def _name(metres: int) -> str:
    return f"pfc-{metres}m"


def _profile(start: str, lossless: Lossless, metres: int) -> Iterator[str]:
    here = f"{start} congestion-notification-profile {_name(metres)}"
    yield f"{here} pfc-watchdog"
    yield f"{here} input cable-length {metres}"
    for traffic in lossless.qos.classes:
        if traffic.lossless:
            for dscp in traffic.dscp:
                yield f"{here} input dscp code-point {dscp:06b} pfc"
            code_point = f"output ieee-802.1 code-point {traffic.priority:03b}"
            yield f"{here} {code_point} flow-control-queue {traffic.queue}"


def _ecn(start: str, qos: QosProfile) -> Iterator[str]:
    low, high = qos.ecn.low_fill_ratio, qos.ecn.high_fill_ratio
    if low is None or high is None:
        return
    here = f"{start} drop-profiles {ECN_PROFILE} interpolate"
    yield f"{here} fill-level [ {_percent(low)} {_percent(high)} ]"
    yield f"{here} drop-probability [ 0 {_percent(qos.ecn.mark_ratio)} ]"


def _partition(start: str, partition: BufferPartition) -> Iterator[str]:
    # Changing the partition stops traffic on all ports.
    ingress = f"{start} shared-buffer ingress buffer-partition"
    egress = f"{start} shared-buffer egress buffer-partition"
    yield f"{ingress} lossless percent {_percent(partition.ingress_lossless_ratio)}"
    if partition.dynamic_threshold is not None:
        yield f"{ingress} lossless dynamic-threshold {partition.dynamic_threshold}"
    yield f"{ingress} lossless-headroom percent {_percent(partition.ingress_headroom_ratio)}"
    yield f"{ingress} lossy percent {_percent(partition.ingress_lossy_ratio)}"
    yield f"{egress} lossless percent {_percent(partition.egress_lossless_ratio)}"
    yield f"{egress} lossy percent {_percent(partition.egress_lossy_ratio)}"
    if (
        partition.dedicated_ingress_ratio is not None
        and partition.dedicated_egress_ratio is not None
    ):
        dedicated = f"{start} dedicated-buffer"
        yield f"{dedicated} ingress percent {_percent(partition.dedicated_ingress_ratio)}"
        yield f"{dedicated} egress percent {_percent(partition.dedicated_egress_ratio)}"


def _schedulers(start: str, qos: QosProfile) -> Iterator[str]:
    for traffic in qos.classes:
        if traffic.dscp:
            scheduler = f"forwarding-class {traffic.label} scheduler {traffic.label}"
            yield f"{start} scheduler-maps {MAP} {scheduler}"
            yield from _scheduler(f"{start} schedulers {traffic.label}", traffic)


def _scheduler(here: str, traffic: TrafficClass) -> Iterator[str]:
    if traffic.share_ratio is not None:
        yield f"{here} transmit-rate percent {_percent(traffic.share_ratio)}"
    if traffic.schedule == "strict":
        yield f"{here} priority strict-high"
    if traffic.lossless:
        yield f"{here} drop-profile-map loss-priority any protocol any drop-profile {ECN_PROFILE}"
        yield f"{here} explicit-congestion-notification"


def _percent(ratio: float) -> int:
    return round(ratio * 100)
