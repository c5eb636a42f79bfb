"""Checks of the lossless class on every port of a device, and between ports and devices."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from gpuyard.errors import Finding
from gpuyard.fabric.configs.device_config import ConfiguredPort, DeviceConfig, PortQos
from gpuyard.fabric.configs.links import links_of
from gpuyard.fabric.verify.finding import error

SAME_PORTS = "configure the ports of one role alike"
MIN_PACKETS = 3  # of ECN's lower threshold (DCQCN, SIGCOMM 2015), as `ecn-thresholds` requires
PARTS: tuple[tuple[str, str, Callable[[PortQos], object]], ...] = (
    ("config-pfc", "PFC priorities", lambda qos: qos.pfc_priorities),
    ("config-pfc", "DSCPs with PFC", lambda qos: qos.pfc_dscp or ()),
    ("config-pfc", "queues of PFC priorities", lambda qos: qos.pfc_queues),
    ("config-ecn", "ECN", lambda qos: qos.ecn),
    ("config-classifier", "queues of DSCPs", lambda qos: qos.queues),
    ("config-scheduler", "schedulers", lambda qos: qos.schedules),
    ("config-watchdog", "PFC watchdog", lambda qos: qos.watchdog),
)


def of_ports(devices: Sequence[DeviceConfig]) -> Iterator[Finding]:
    """Yield ports whose lossless class does not work, or differs from that of its fellows."""
    joined = {
        (one.device.hostname, one.port.name) for pair in links_of(devices).pairs for one in pair
    }
    common: dict[str, dict[bool, PortQos]] = {}
    lossless = [one for one in devices if any(port.qos.pfc_priorities for port in one.ports)]
    # In a fabric where most devices have PFC, one without it is a finding; elsewhere it is not.
    checked = devices if 2 * len(lossless) > len(devices) else lossless
    for device in checked:
        groups: dict[bool, list[ConfiguredPort]] = defaultdict(list)
        for port in device.ports:
            if port.is_enabled and (port.addresses or port.vrf):
                groups[(device.hostname, port.name) in joined].append(port)
        for is_uplink, ports in groups.items():
            usual = _usual(ports)
            common.setdefault(device.hostname, {})[is_uplink] = usual
            yield from _unlike(device, ports, usual)
        yield from _chain(device, common.get(device.hostname, {}))
    yield from _devices(checked, common)


def _usual(ports: Sequence[ConfiguredPort]) -> PortQos:
    """The QoS that most ports have, part by part."""
    parts = {
        name: Counter(getattr(port.qos, name) for port in ports).most_common(1)[0][0]
        for name in (
            "queues",
            "pfc_priorities",
            "pfc_queues",
            "pfc_dscp",
            "ecn",
            "schedules",
            "watchdog",
        )
    }
    return PortQos(**parts)


def _unlike(
    device: DeviceConfig, ports: Sequence[ConfiguredPort], usual: PortQos
) -> Iterator[Finding]:
    for port in ports:
        reported = set[str]()
        for rule, label, part in PARTS:
            if part(port.qos) != part(usual) and rule not in reported and len(ports) > 2:
                reported.add(rule)
                place = f" ({port.where})" if port.where else ""
                what = f"{label}: {_text(part(port.qos))}; most ports: {_text(part(usual))}"
                yield error(rule, f"{device.hostname}:{port.name}{place}", what, SAME_PORTS)


def _text(value: object) -> str:
    if value in ((), None):
        return "none"
    if isinstance(value, tuple):
        return ", ".join(
            " to ".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value
        )
    return str(value)


def _chain(device: DeviceConfig, common: dict[bool, PortQos]) -> Iterator[Finding]:
    """From the DSCP over PFC to the ECN of the queue, on the usual port."""
    where = device.hostname
    for qos in {id(one): one for one in common.values()}.values():
        lossless = {queue for _, queue in qos.pfc_queues}
        lossless |= set() if qos.pfc_queues else set(qos.pfc_priorities)
        used = {queue for _, queue in qos.queues}
        for dscp in qos.pfc_dscp or ():
            if qos.queue_of(dscp) is None:
                yield error(
                    "config-pfc",
                    where,
                    f"PFC acts on DSCP {dscp}, which has no class",
                    "classify the DSCP into the lossless class",
                )
            elif lossless and qos.queue_of(dscp) not in lossless:
                queue, right = qos.queue_of(dscp), sorted(lossless)
                what = f"DSCP {dscp} has PFC and is in queue {queue}, not {right}"
                yield error("config-pfc", where, what, "use one queue and priority end to end")
        for queue in sorted(lossless):
            if used and queue not in used:
                yield error(
                    "config-classifier",
                    where,
                    f"no DSCP is in the lossless queue {queue}",
                    "classify RoCE into it",
                )
            if not any(one.queue == queue for one in qos.ecn) and device.os != "frr":
                yield error(
                    "config-ecn",
                    where,
                    f"the lossless queue {queue} has no ECN marking",
                    "enable ECN on it: PFC alone spreads congestion",
                )
        yield from _thresholds(device, qos)


def _thresholds(device: DeviceConfig, qos: PortQos) -> Iterator[Finding]:
    mtu_bytes = max((port.mtu_bytes or 0 for port in device.ports), default=0)
    for one in qos.ecn:
        where = f"{device.hostname} queue {one.queue}"
        if one.mark_ratio <= 0:
            yield error(
                "config-ecn",
                where,
                "ECN never marks: its probability is 0",
                "mark at the upper threshold",
            )
        if one.low >= one.high:
            yield error(
                "config-ecn",
                where,
                f"ECN thresholds are in reverse: {one}",
                "set the lower threshold below the upper",
            )
        elif one.unit == "bytes" and one.low < MIN_PACKETS * mtu_bytes:
            what = f"ECN marks from {one.low:g} bytes, less than {MIN_PACKETS} packets"
            yield error("config-ecn", where, what, "raise the lower threshold")
    for priority in qos.pfc_priorities:
        if not 0 <= priority <= 7:
            yield error("config-pfc", device.hostname, f"{priority} is no priority", "use 0 to 7")


def _devices(
    devices: Sequence[DeviceConfig], common: dict[str, dict[bool, PortQos]]
) -> Iterator[Finding]:
    """Devices of one OS whose usual port differs from that of most others."""
    for system in sorted({device.os for device in devices}):
        names = [one.hostname for one in devices if one.os == system and common.get(one.hostname)]
        for is_uplink in (True, False):
            some = {name: common[name][is_uplink] for name in names if is_uplink in common[name]}
            if len(some) < 3:
                continue
            reported = set[tuple[str, str]]()
            for rule, label, part in PARTS:
                counts = Counter(part(qos) for qos in some.values())
                value, count = counts.most_common(1)[0]
                if 2 * count <= len(some):
                    continue
                for name, qos in some.items():
                    if part(qos) != value and (name, rule) not in reported:
                        reported.add((name, rule))
                        most = f"{count} of {len(some)} devices: {_text(value)}"
                        what = f"{label}: {_text(part(qos))}; {most}"
                        yield error(rule, name, what, "configure every switch alike")
