"""Junos class of service, resolved per port."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from gpuyard.fabric.configs.device_config import PortQos, QueueEcn, QueueSchedule
from gpuyard.fabric.configs.statement import Readings

# Names that Junos has for DSCPs: be, cs1 to cs7, af11 to af43, ef, nc1 and nc2.
_NAMES = {
    "be": 0,
    "ef": 46,
    "nc1": 48,
    "nc2": 56,
    **{f"cs{level}": 8 * level for level in range(8)},
    **{f"af{level}{drop}": 8 * level + 2 * drop for level in range(1, 5) for drop in range(1, 4)},
}


def code_point(bits: str) -> int:
    """Return a code point from its bits or its name; -1 if it is an alias of the user."""
    return int(bits, 2) if set(bits) <= {"0", "1"} else _NAMES.get(bits, -1)


class JunosQos:
    """Classifiers, schedulers and congestion notification profiles, and the ports they bind."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        values = readings.values
        self._queue: dict[str, int] = {}
        self._priority: dict[str, int] = {}  # of lossless classes
        for label, queue, *_ in (*values.get("class", ()), *values.get("class-lossless", ())):
            self._queue[label] = int(queue)
        for label, queue, *priority in values.get("class-lossless", ()):
            self._priority[label] = int(priority[0] if priority else queue)
        self._code_points: dict[str, list[tuple[int, str]]] = {}
        for name, label, _, bits in values.get("code-point", ()):
            self._code_points.setdefault(name, []).append((code_point(bits), label))
        self._maps: dict[str, list[tuple[str, str]]] = {}
        for name, label, scheduler in values.get("map", ()):
            self._maps.setdefault(name, []).append((label, scheduler))
        self._drop = {one[0]: one[-1] for one in values.get("drop-map", ())}
        self._cache: dict[tuple[str, str, str], PortQos] = {}

    def of_port(self, port: str) -> PortQos:
        """Return what applies to a port; bindings may name ports by a wildcard."""
        key = (
            self._bound("cos-classifier", port),
            self._bound("cos-map", port),
            self._bound("cos-cnp", port),
        )
        if key not in self._cache:
            self._cache[key] = self._resolve(*key)
        return self._cache[key]

    def _bound(self, key: str, port: str) -> str:
        names = [
            one[-1]
            for one in self._readings.values.get(key, ())
            if one[0] == port or ("*" in one[0] and fnmatchcase(port, one[0]))
        ]
        return names[-1] if names else ""

    def _resolve(self, classifier: str, scheduler_map: str, profile: str) -> PortQos:
        outputs = [one for one in self._readings.values.get("cnp-output", ()) if one[0] == profile]
        inputs = [one[1] for one in self._readings.values.get("cnp-dscp", ()) if one[0] == profile]
        cable = self._readings.pairs("cnp-cable").get(profile)
        pauses = tuple(sorted((code_point(bits), int(queue)) for _, bits, queue in outputs))
        watched = [
            one for one in self._readings.values.get("cnp-watchdog", ()) if one[0] == profile
        ]
        # PFC acts on the classes that are lossless and whose DSCPs the profile lists.
        priorities = {
            self._priority[label]
            for bits in inputs
            for dscp, label in self._code_points.get(classifier, ())
            if dscp == code_point(bits) and label in self._priority
        }
        return PortQos(
            queues=tuple(
                sorted(
                    (dscp, self._queue[label])
                    for dscp, label in self._code_points.get(classifier, ())
                    if label in self._queue
                )
            ),
            pfc_priorities=tuple(sorted(priorities)),
            pfc_queues=pauses,
            pfc_dscp=tuple(sorted(code_point(bits) for bits in inputs)) if profile else None,
            ecn=tuple(self._ecn(scheduler_map)),
            schedules=tuple(self._schedules(scheduler_map)),
            cable_m=None if cable is None else float(cable),
            watchdog=tuple(" ".join(["on", *one[1:]]) for one in watched),
        )

    def _ecn(self, scheduler_map: str) -> Iterator[QueueEcn]:
        marking = set(self._readings.firsts("ecn"))
        fills, drops = self._readings.lists("fill"), self._readings.lists("drop")
        for label, scheduler in self._maps.get(scheduler_map, ()):
            profile = self._drop.get(scheduler)
            levels = [float(one) / 100 for one in fills.get(profile or "", ())]
            chances = [float(one) / 100 for one in drops.get(profile or "", ())]
            if scheduler in marking and levels and chances and label in self._queue:
                yield QueueEcn(
                    queue=self._queue[label],
                    unit="ratio",
                    low=levels[0],
                    high=levels[-1],
                    mark_ratio=chances[-1],
                )

    def _schedules(self, scheduler_map: str) -> Iterator[QueueSchedule]:
        priorities, rates = self._readings.pairs("priority"), self._readings.pairs("rate")
        for label, scheduler in sorted(self._maps.get(scheduler_map, ())):
            if label in self._queue:
                rate = rates.get(scheduler)
                strict = priorities.get(scheduler, "").startswith("strict")
                yield QueueSchedule(
                    queue=self._queue[label],
                    kind="strict" if strict else "weighted",
                    share_ratio=None if rate is None else float(rate) / 100,
                )

    def undefined(self) -> Iterator[str]:
        """Yield names of class-of-service objects that are used and not defined."""
        values = self._readings.values
        defined = {
            "classifier": {one[0] for one in values.get("code-point", ())},
            "scheduler-map": set(self._maps),
            "congestion-notification-profile": {
                one[0]
                for key in ("cnp", "cnp-watchdog", "cnp-cable", "cnp-dscp", "cnp-output")
                for one in values.get(key, ())
            },
            "scheduler": {
                one[0]
                for key in ("rate", "priority", "ecn", "drop-map", "scheduler-setting")
                for one in values.get(key, ())
            },
            "drop-profile": {one[0] for key in ("fill", "drop") for one in values.get(key, ())},
            "forwarding-class": set(self._queue) | {"best-effort", "network-control"},
        }
        used = (
            ("classifier", [one[-1] for one in values.get("cos-classifier", ())]),
            ("scheduler-map", [one[-1] for one in values.get("cos-map", ())]),
            ("congestion-notification-profile", [one[-1] for one in values.get("cos-cnp", ())]),
            ("scheduler", [one[-1] for one in values.get("map", ())]),
            ("drop-profile", [one[-1] for one in values.get("drop-map", ())]),
            ("forwarding-class", [one[1] for one in values.get("map", ())]),
            ("forwarding-class", [one[1] for one in values.get("code-point", ())]),
        )
        for kind, names in used:
            yield from (f"{kind} {name}" for name in names if name not in defined[kind])
