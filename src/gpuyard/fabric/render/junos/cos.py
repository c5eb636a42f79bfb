"""Class of service: classes, marks, pauses, ECN and memory, by the statements of Juniper's validated design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gpuyard.fabric.fabric import Device
from gpuyard.fabric.lossless import Lossless, Partition, Qos, TrafficClass, qos_of

__all__ = ["cos"]

CLASSIFIER, MAP, ECN_PROFILE = "roce", "roce", "ecn"
Cables = Mapping[tuple[str, str], float]


def cos(lossless: Lossless, device: Device, cables: Cables) -> Iterator[str]:
    """Everything under class-of-service; nothing where no class is lossless."""
    qos = lossless.qos
    if not qos.pfc.priorities:
        return
    start = "set class-of-service"
    for each in qos.classes:
        if each.dscp:
            marks = " ".join(f"{dscp:06b}" for dscp in each.dscp)
            listed = f"[ {marks} ]" if len(each.dscp) > 1 else marks
            here = f"{start} classifiers dscp {CLASSIFIER} forwarding-class {each.label}"
            yield f"{here} loss-priority low code-points {listed}"
            lossless_part = f" no-loss pfc-priority {each.priority}" if each.lossless else ""
            yield f"{start} forwarding-classes class {each.label} queue-num {each.queue}{lossless_part}"
    yield from _ecn(start, qos)
    partition = qos_of("junos", device.model or "").partition
    plan = next((buffers.plan for buffers in lossless.buffers if buffers.role == device.role), None)
    if partition is not None and plan is not None and plan.buffer_bytes is not None:
        yield from _partition(start, partition)  # a chassis with a memory on every line card is not divided so
    yield from _schedulers(start, qos)
    lengths = sorted({math.ceil(cables[device.name, port.port]) for port in device.interfaces
                      if (device.name, port.port) in cables})  # fmt: skip
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
    """The profile of a cable length."""
    return f"pfc-{metres}m"


def _profile(start: str, lossless: Lossless, metres: int) -> Iterator[str]:
    """PFC both ways for a cable of this length; priorities in and out are the same, as Junos demands."""
    here = f"{start} congestion-notification-profile {_name(metres)}"
    yield f"{here} pfc-watchdog"
    yield f"{here} input cable-length {metres}"
    for each in lossless.qos.classes:
        if each.lossless:
            for dscp in each.dscp:
                yield f"{here} input dscp code-point {dscp:06b} pfc"
            yield f"{here} output ieee-802.1 code-point {each.priority:03b} flow-control-queue {each.queue}"


def _ecn(start: str, qos: Qos) -> Iterator[str]:
    """Marking instead of dropping, between two fills of the queue."""
    low, high = qos.ecn.low_fill_ratio, qos.ecn.high_fill_ratio
    if low is None or high is None:
        return
    here = f"{start} drop-profiles {ECN_PROFILE} interpolate"
    yield f"{here} fill-level [ {_percent(low)} {_percent(high)} ]"
    yield f"{here} drop-probability [ 0 {_percent(qos.ecn.mark_ratio)} ]"


def _partition(start: str, partition: Partition) -> Iterator[str]:
    """How the memory is divided. To change it stops traffic on all ports."""
    here = f"{start} shared-buffer"
    yield f"{here} ingress buffer-partition lossless percent {_percent(partition.ingress_lossless_ratio)}"
    if partition.dynamic_threshold is not None:
        yield f"{here} ingress buffer-partition lossless dynamic-threshold {partition.dynamic_threshold}"
    yield f"{here} ingress buffer-partition lossless-headroom percent {_percent(partition.ingress_headroom_ratio)}"
    yield f"{here} ingress buffer-partition lossy percent {_percent(partition.ingress_lossy_ratio)}"
    yield f"{here} egress buffer-partition lossless percent {_percent(partition.egress_lossless_ratio)}"
    yield f"{here} egress buffer-partition lossy percent {_percent(partition.egress_lossy_ratio)}"
    if partition.dedicated_ingress_ratio is not None and partition.dedicated_egress_ratio is not None:
        yield f"{start} dedicated-buffer ingress percent {_percent(partition.dedicated_ingress_ratio)}"
        yield f"{start} dedicated-buffer egress percent {_percent(partition.dedicated_egress_ratio)}"


def _schedulers(start: str, qos: Qos) -> Iterator[str]:
    """The lossless queue marks; notifications go first, with a cap."""
    for each in qos.classes:
        if each.dscp:
            yield f"{start} scheduler-maps {MAP} forwarding-class {each.label} scheduler {each.label}"
            yield from _scheduler(f"{start} schedulers {each.label}", each)


def _scheduler(here: str, each: TrafficClass) -> Iterator[str]:
    """One queue."""
    if each.share_ratio is not None:
        yield f"{here} transmit-rate percent {_percent(each.share_ratio)}"
    if each.schedule == "strict":
        yield f"{here} priority strict-high"
    if each.lossless:
        yield f"{here} drop-profile-map loss-priority any protocol any drop-profile {ECN_PROFILE}"
        yield f"{here} explicit-congestion-notification"


def _percent(ratio: float) -> int:
    """A share as Junos writes it."""
    return round(ratio * 100)
