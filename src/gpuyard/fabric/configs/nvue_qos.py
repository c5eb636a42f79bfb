"""NVUE's QoS settings, resolved per port; `qos roce` stands for everything that it sets."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.configs.device_config import BufferProfile, PortQos, QueueEcn, QueueSchedule
from gpuyard.fabric.configs.statement import Readings, range_of
from gpuyard.fabric.lossless.qos import DSCP_COUNT
from gpuyard.fabric.render.cumulus.cumulus_profile import CUMULUS_ROCE

ON = ("enabled", "enable", "on")
_UNITS = {"KB": 1e3, "MB": 1e6, "B": 1.0}


class NvueQos:
    """The QoS profiles of a device, and the ports that use them."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        values = readings.values
        self._has_roce = readings.one("roce") in ON and (
            readings.one("roce-mode") or "lossless"
        ).startswith("lossless")
        self._pfc_priorities = readings.lists("pfc-priority")
        self._pfc: dict[str, dict[str, str]] = {}
        for name, setting, value in values.get("pfc-setting", ()):
            self._pfc.setdefault(name, {})[setting] = value
        self._port_pfc, self._port_ecn = readings.pairs("port-pfc"), readings.pairs("port-ecn")
        self._port_scheduler = readings.pairs("port-scheduler")
        self._watched = readings.pairs("port-watchdog")
        self._base = self._roce() if self._has_roce else PortQos(queues=self._queues())

    def _roce(self) -> PortQos:
        ecn, roce = CUMULUS_ROCE.ecn, CUMULUS_ROCE.roce
        queues = {
            dscp: CUMULUS_ROCE.class_of(dscp).queue
            for dscp in range(DSCP_COUNT)
            if any(dscp in one.dscp for one in CUMULUS_ROCE.classes)
        }
        queues |= dict(self._queues())
        return PortQos(
            queues=tuple(sorted(queues.items())),
            pfc_priorities=CUMULUS_ROCE.pfc.priorities,
            ecn=(
                QueueEcn(
                    queue=roce.queue,
                    unit="bytes",
                    low=ecn.low_bytes or 0,
                    high=ecn.high_bytes or 0,
                    mark_ratio=ecn.mark_ratio,
                ),
            ),
            schedules=tuple(
                QueueSchedule(queue=one.queue, kind=one.schedule, share_ratio=one.share_ratio)
                for one in CUMULUS_ROCE.classes
            ),
        )

    def _queues(self) -> tuple[tuple[int, int], ...]:
        values = self._readings.values
        queue_of = {int(one[1]): int(one[2]) for one in values.get("queue", ())}
        return tuple(
            sorted(
                (int(dscp), queue_of.get(int(priority), int(priority)))
                for _, dscp, priority in values.get("dscp", ())
            )
        )

    def of_port(self, port: str) -> PortQos:
        """Return what applies to a port: the global settings, and its own profiles."""
        base = self._base
        profile = self._port_pfc.get(port)
        settings = self._pfc.get(profile or "", {})
        priorities = base.pfc_priorities
        if profile is not None:
            both = settings.get("tx", "enable") in ON and settings.get("rx", "enable") in ON
            named = self._pfc_priorities.get(profile, [])
            priorities = tuple(sorted(int(one) for one in named)) if both else ()
        cable = settings.get("cable-length")
        watched = self._watched.get(port, "") in ON
        rest = tuple(
            sorted(
                (key, value)
                for key, value in settings.items()
                if key not in ("tx", "rx", "cable-length")
            )
        )
        return PortQos(
            queues=base.queues,
            pfc_priorities=priorities,
            ecn=tuple(self._ecn(port)) or base.ecn,
            schedules=tuple(self._schedules(port)) or base.schedules,
            buffers=(BufferProfile(target="ingress", settings=rest),) if rest else (),
            cable_m=None if cable is None else float(cable),
            watchdog=("on", *(" ".join(one) for one in self._readings.values.get("watchdog", ())))
            if watched
            else (),
        )

    def _ecn(self, port: str) -> Iterator[QueueEcn]:
        queues: dict[int, dict[str, str]] = {}
        for name, queue, setting, value in self._readings.values.get("ecn", ()):
            if name == self._port_ecn.get(port, "default-global"):
                queues.setdefault(int(queue), {})[setting] = value
        for number, one in sorted(queues.items()):
            if one.get("ecn", "enable") in ON:
                yield QueueEcn(
                    queue=number,
                    unit="bytes",
                    low=_bytes(one.get("min-threshold", "0")),
                    high=_bytes(one.get("max-threshold", "0")),
                    mark_ratio=float(one.get("probability", 100)) / 100,
                )

    def _schedules(self, port: str) -> Iterator[QueueSchedule]:
        queues: dict[int, dict[str, str]] = {}
        for name, queue, setting, value in self._readings.values.get("scheduler", ()):
            if name == self._port_scheduler.get(port, "default-global"):
                for one in _range(queue):
                    queues.setdefault(one, {})[setting] = value
        for number, settings in sorted(queues.items()):
            share = settings.get("bw-percent")
            yield QueueSchedule(
                queue=number,
                kind="strict" if settings.get("mode") == "strict" else "weighted",
                share_ratio=None if share is None else float(share) / 100,
            )

    def settings(self) -> tuple[str, ...]:
        """Return the other global settings, as text."""
        return tuple(sorted(one[0] for one in self._readings.values.get("qos-setting", ())))

    def undefined(self) -> Iterator[str]:
        """Yield profiles that ports use and that are not defined."""
        ecn = {one[0] for one in self._readings.values.get("ecn", ())}
        schedulers = {one[0] for one in self._readings.values.get("scheduler", ())}
        for kind, used, known in (
            ("pfc", self._port_pfc, set(self._pfc) | set(self._pfc_priorities)),
            ("congestion-control", self._port_ecn, ecn),
            ("egress-scheduler", self._port_scheduler, schedulers),
        ):
            yield from (f"qos {kind} {name}" for name in used.values() if name not in known)


def _bytes(text: str) -> float:
    for unit, factor in _UNITS.items():
        if text.upper().endswith(unit) and text[: -len(unit)].strip().replace(".", "").isdigit():
            return float(text[: -len(unit)]) * factor
    return float(text) if text.replace(".", "").isdigit() else 0.0


def _range(text: str) -> Iterator[int]:
    for part in text.split(","):
        yield from range_of(part)
