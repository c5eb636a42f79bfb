"""NX-OS QoS policies, resolved per port: classes, PFC, WRED with ECN, schedulers, the watchdog."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuyard.fabric.configs.device_config import PortQos, QueueEcn, QueueSchedule
from gpuyard.fabric.configs.statement import Readings

_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000, "packets": 208}
_QUEUE = re.compile(r"c-out-(?:8q-)?q(?P<number>\d|-default)")
_ECN = re.compile(
    r"random-detect(?: minimum-threshold (?P<low>[\d.]+) (?P<low_unit>\w+)"
    r" maximum-threshold (?P<high>[\d.]+) (?P<high_unit>\w+))?"
    r"(?: drop-probability (?P<mark>\d+))?(?: weight \d+)?(?: cap-average)? ecn"
)
DSCP = {
    "default": 0, "ef": 46, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48,
    "cs7": 56, "af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22, "af31": 26,
    "af32": 28, "af33": 30, "af41": 34, "af42": 36, "af43": 38,
}  # fmt: skip
MODELLED: dict[str, tuple[str, ...]] = {
    "class-map": (
        "class-map type qos match-any {name}",
        "class-map type qos match-all {name}",
        "class-map type qos {name}",
        "class-map match-any {name}",
        "class-map match-all {name}",
    ),
    "class-dscp": (
        "class-map type qos match-any {name} match dscp {values*}",
        "class-map type qos match-all {name} match dscp {values*}",
        "class-map type qos {name} match dscp {values*}",
        "class-map match-any {name} match dscp {values*}",
        "class-map match-all {name} match dscp {values*}",
    ),
    "policy": (
        "policy-map type {kind} {name}",
        "policy-map type {kind} template {name}",
        "policy-map {name}",
    ),
    "policy-class": (
        "policy-map type {kind} {name} class type {kind2} {class}",
        "policy-map type {kind} {name} class {class}",
    ),
    "policy-line": (
        "policy-map type {kind} {name} class type {kind2} {class} {line*}",
        "policy-map type {kind} {name} class {class} {line*}",
    ),
    "system-policy": (
        "system qos service-policy type {kind} {name}",
        "system qos service-policy type {kind} {direction} {name}",
    ),
    "system": ("system qos",),
    "port-policy": (
        "interface {port} service-policy type {kind} {direction} {name}",
        "interface {port} service-policy type {kind} {direction} {name} no-stats",
    ),
    "pfc": (
        "interface {port} priority-flow-control mode {state}",
        "interface {port} priority-flow-control mode {state} send-tlv",
    ),
    "watched": ("interface {port} priority-flow-control watch-dog-interval {state}",),
    "watchdog": ("priority-flow-control {setting*}",),
}


class NxosQos:
    """The QoS policies of a device, and where they apply."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        values = readings.values
        self._dscp: dict[str, list[int]] = {}
        for name, line in values.get("class-dscp", ()):
            self._dscp.setdefault(name, []).extend(_dscps(line))
        self._lines: dict[tuple[str, str], dict[str, list[str]]] = {}
        for kind, name, *rest in values.get("policy-line", ()):
            *_, owner, line = rest
            policy = self._lines.setdefault((kind, name), {})
            policy.setdefault(owner, []).append(line)
        self._system = {one[0]: one[-1] for one in values.get("system-policy", ())}
        self._port = {(one[0], one[1]): one[3] for one in values.get("port-policy", ())}
        self._states = readings.pairs("pfc")
        self._watched = readings.pairs("watched")
        self._timers = tuple(sorted(one[0] for one in values.get("watchdog", ())))

    def of_port(self, port: str) -> PortQos:
        """Return what applies to a port: its own policies, else those of the system."""
        queuing = self._policy(port, "queuing")
        paused = self._paused() if self._states.get(port) == "on" else ()
        is_watched = "watch-dog-interval on" in self._timers
        is_watched = is_watched and self._watched.get(port, "on") == "on"
        return PortQos(
            queues=tuple(sorted(self._classified(port))),
            pfc_priorities=tuple(sorted({priority for priority, _ in paused})),
            pfc_queues=tuple(sorted(paused)),
            ecn=tuple(_ecn(queuing)),
            schedules=tuple(_schedules(queuing)),
            watchdog=("on", *self._timers) if is_watched else (),
        )

    def _policy(self, port: str, kind: str) -> dict[str, list[str]]:
        name = self._port.get((port, kind), self._system.get(kind, ""))
        return self._lines.get((kind, name), {})

    def _classified(self, port: str) -> Iterator[tuple[int, int]]:
        for owner, lines in self._policy(port, "qos").items():
            groups = [line.split()[-1] for line in lines if line.startswith("set qos-group ")]
            for dscp in self._dscp.get(owner, ()):
                if groups and groups[-1].isdigit():
                    yield dscp, int(groups[-1])

    def _paused(self) -> tuple[tuple[int, int], ...]:
        network = self._lines.get(("network-qos", self._system.get("network-qos", "")), {})
        return tuple(
            (int(line.split()[2]), int(owner[-1]))
            for owner, lines in network.items()
            for line in lines
            if line.startswith("pause pfc-cos ") and owner[-1].isdigit()
        )

    def undefined(self) -> Iterator[str]:
        """Yield policies and classes that are used and not defined."""
        values = self._readings.values
        defined = {one[-1] for one in values.get("policy", ())}
        used = (*self._system.values(), *self._port.values())
        for name in dict.fromkeys(used):
            if name not in defined and not name.startswith("default"):
                yield f"policy-map {name}"
        classes = {one[0] for one in values.get("class-map", ())} | {"class-default"}
        for kind, _, *_, owner in values.get("policy-class", ()):
            if kind == "qos" and owner not in classes:
                yield f"class-map {owner}"

    def settings(self) -> tuple[str, ...]:
        """Return the MTUs and other lines of the network policy, as text."""
        network = self._lines.get(("network-qos", self._system.get("network-qos", "")), {})
        return tuple(
            sorted(
                f"{owner} {line}"
                for owner, some in network.items()
                for line in some
                if not line.startswith("pause pfc-cos ")  # of the ports
            )
        )


def _dscps(line: str) -> Iterator[int]:
    for word in line.replace(",", " ").split():
        low, _, high = word.partition("-")
        if low in DSCP:
            yield DSCP[low]
        elif low.isdigit() and (high or low).isdigit():
            yield from range(int(low), min(int(high or low), 63) + 1)


def _ecn(policy: dict[str, list[str]]) -> Iterator[QueueEcn]:
    for owner, lines in policy.items():
        queue = _QUEUE.fullmatch(owner)
        for line in lines:
            match = _ECN.fullmatch(line)
            if queue and match:
                yield QueueEcn(
                    queue=_number(queue),
                    unit="bytes",
                    low=float(match["low"] or 0) * _UNITS.get(match["low_unit"] or "", 1),
                    high=float(match["high"] or 0) * _UNITS.get(match["high_unit"] or "", 1),
                    mark_ratio=float(match["mark"]) / 100 if match["mark"] else 1.0,
                )


def _schedules(policy: dict[str, list[str]]) -> Iterator[QueueSchedule]:
    for owner, lines in policy.items():
        queue = _QUEUE.fullmatch(owner)
        shares = [float(line.split()[-1]) / 100 for line in lines if line.startswith("bandwidth ")]
        strict = any(line.startswith("priority level") for line in lines)
        if queue and (strict or shares):
            yield QueueSchedule(
                queue=_number(queue),
                kind="strict" if strict else "weighted",
                share_ratio=shares[-1] if shares else None,
            )


def _number(queue: re.Match[str]) -> int:
    return int(queue["number"]) if queue["number"].isdigit() else 0
