"""NX-OS QoS: classes, PFC, WRED with ECN, the PFC watchdog and dynamic load balancing."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.lossless.lossless import Lossless

CLASSIFIER, QUEUING, NETWORK = "FABRIC-IN", "FABRIC-OUT", "FABRIC-NETWORK"
QUEUES = 8
MAX_MTU_BYTES = 9216


def nxos_qos(lossless: Lossless) -> Iterator[str]:
    """Yield the policies of the lossless class; nothing on a network without PFC."""
    qos = lossless.qos
    if not qos.pfc.priorities:
        return
    marked = [one for one in qos.classes if one.dscp]
    for one in marked:
        yield f"class-map type qos match-any {one.label.upper()}"
        yield f"  match dscp {','.join(map(str, one.dscp))}"
    yield f"policy-map type qos {CLASSIFIER}"
    for one in marked:
        yield f"  class {one.label.upper()}"
        yield f"    set qos-group {one.queue}"
    yield from _queuing(lossless)
    yield f"policy-map type network-qos {NETWORK}"
    for one in qos.classes:
        name = f"c-8q-nq{one.queue}" if one.queue else "c-8q-nq-default"
        yield f"  class type network-qos {name}"
        yield f"    mtu {MAX_MTU_BYTES}"
        if one.priority in qos.pfc.priorities:
            yield f"    pause pfc-cos {one.priority}"
    multiplier = round(lossless.watchdog.detect_s / lossless.watchdog.poll_s)
    yield from (
        "system qos",
        f"  service-policy type queuing output {QUEUING}",
        f"  service-policy type network-qos {NETWORK}",
        "priority-flow-control watch-dog-interval on",
        f"priority-flow-control watch-dog interval {round(lossless.watchdog.poll_s * 1e3)}",
        f"priority-flow-control watch-dog shutdown-multiplier {multiplier}",
    )


def _queuing(lossless: Lossless) -> Iterator[str]:
    qos = lossless.qos
    by_queue = {one.queue: one for one in qos.classes}
    yield f"policy-map type queuing {QUEUING}"
    for queue in reversed(range(QUEUES)):
        yield f"  class type queuing c-out-8q-q{queue or '-default'}"
        one = by_queue.get(queue)
        if one is not None and one.schedule == "strict":
            yield "    priority level 1"
            continue
        share_ratio = (one.share_ratio or 0.01) if one is not None else 0.0
        yield f"    bandwidth remaining percent {round(share_ratio * 100)}"
        if one is not None and one.lossless:
            low, high = ((size or 0) // 1000 for size in (qos.ecn.low_bytes, qos.ecn.high_bytes))
            yield (
                f"    random-detect minimum-threshold {low} kbytes maximum-threshold {high} kbytes"
                f" drop-probability {round(qos.ecn.mark_ratio * 100)} weight 0 ecn"
            )


def nxos_balancing(fabric: Fabric, device: Device) -> Iterator[str]:
    """Yield the hash of ECMP, and dynamic load balancing on the links between switches."""
    yield "ip load-sharing address source-destination port source-destination"
    mode = fabric.lossless.balancing.mode
    links = [port.port for port in device.interfaces if port.peer_asn is not None]
    if mode == "ecmp" or not links:
        return
    yield "hardware profile dlb"
    yield from (f"  dlb-interface {port}" for port in links)
    yield f"  mode {mode}"
