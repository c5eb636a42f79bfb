"""EOS QoS profiles and maps, resolved per port."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.configs.device_config import PortQos, QueueEcn, QueueSchedule
from gpuyard.fabric.configs.statement import Readings, range_of

_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000, "segments": 208}  # 208-byte cells


class EosQos:
    """The QoS of profiles and of interfaces, and the maps that all ports share."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._profile = readings.pairs("profile")
        self._queue_of = {int(tc): int(queue) for tc, queue in readings.values.get("tc-queue", ())}
        self._queues = tuple(sorted(self._dscp()))

    def _dscp(self) -> Iterator[tuple[int, int]]:
        # qos map dscp 26 to traffic-class 3; qos map dscp 24 25 26 to traffic-class 3
        for (line,) in self._readings.values.get("dscp", ()):
            marks, _, target = line.partition(" to traffic-class ")
            number = target.split()[0] if target else ""
            for word in marks.split():
                if word[0].isdigit() and number.isdigit():
                    for dscp in range_of(word):
                        yield dscp, self._queue_of.get(int(number), int(number))

    def of_port(self, port: str) -> PortQos:
        """Return what applies to a port: its own settings, and those of its profile."""
        holders = [name for name in (self._profile.get(port), port) if name]
        values = self._readings.values
        trusted = [one[1] for one in values.get("trust", ()) if one[0] in holders]
        states = [one[1] for one in values.get("pfc", ()) if one[0] in holders]
        paused = {int(one[1]) for one in values.get("no-drop", ()) if one[0] in holders}
        watched = any(one[0] in holders for one in values.get("watched", ()))
        timers = tuple(sorted(one[0] for one in values.get("watchdog", ())))
        return PortQos(
            queues=self._queues if not trusted or trusted[-1] == "dscp" else (),
            pfc_priorities=tuple(sorted(paused)) if states and states[-1] == "on" else (),
            ecn=tuple(self._ecn(holders)),
            schedules=tuple(self._schedules(holders)),
            watchdog=("on", *timers) if watched else (),
        )

    def _ecn(self, holders: list[str]) -> Iterator[QueueEcn]:
        for key in ("ecn", "ecn-mark", "ecn-weight"):
            for holder, queue, low, unit, high, unit_2, *mark in self._readings.values.get(key, ()):
                if holder in holders:
                    yield QueueEcn(
                        queue=int(queue),
                        unit="bytes",
                        low=float(low) * _UNITS.get(unit, 1),
                        high=float(high) * _UNITS.get(unit_2, 1),
                        mark_ratio=float(mark[0]) / 100 if mark else 1.0,
                    )

    def _schedules(self, holders: list[str]) -> Iterator[QueueSchedule]:
        shares = {
            int(queue): float(percent) / 100
            for holder, queue, percent in self._readings.values.get("share", ())
            if holder in holders
        }
        strict = {
            int(queue)
            for holder, queue in self._readings.values.get("strict", ())
            if holder in holders
        }
        for queue in sorted({*shares, *strict}):
            yield QueueSchedule(
                queue=queue,
                kind="strict" if queue in strict else "weighted",
                share_ratio=shares.get(queue),
            )

    def undefined(self) -> Iterator[str]:
        """Yield QoS profiles that ports use and that are not defined."""
        keys = ("profile-name", "profile-setting", "no-drop", "trust", "pfc")
        defined = {one[0] for key in keys for one in self._readings.values.get(key, ())}
        for name in self._profile.values():
            if name not in defined:
                yield f"qos profile {name}"
