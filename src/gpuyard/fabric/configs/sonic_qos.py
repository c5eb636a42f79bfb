"""SONiC's tables of the lossless class, resolved per port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuyard.fabric.configs.device_config import BufferProfile, PortQos, QueueEcn, QueueSchedule
from gpuyard.fabric.configs.statement import Readings, range_of

Fields = dict[str, str]
_COLOURS = ("green", "yellow", "red")


class SonicQos:
    """The QoS maps, schedulers, WRED and buffer profiles, and the ports that refer to them."""

    def __init__(self, readings: Readings) -> None:
        values = readings.values
        self._maps = {
            key: _tables(values.get(key, ()))
            for key in ("dscp", "queue-map", "group-map", "pfc-queue", "pfc-group")
        }
        self._scheduler, self._wred = (
            _tables(values.get("scheduler", ())),
            _tables(values.get("wred", ())),
        )
        self._profile = _tables(values.get("buffer-profile", ()))
        self._port = _by_port(values.get("port-map", ()))
        self._watchdog = _tables(values.get("watchdog", ()))
        self._cable = {port: metres for _, port, metres in values.get("cable", ())}
        self._queue = _by_port_and_index(values.get("queue", ()))
        self._pg = _by_port_and_index(
            (*one[:1], "profile", one[1]) for one in values.get("buffer-pg", ())
        )
        self._out = _by_port_and_index(
            (*one[:1], "profile", one[1]) for one in values.get("buffer-queue", ())
        )
        self._lists = {
            port: _name(profiles)
            for ports, profiles in values.get("buffer-list", ())
            for port in ports.split(",")
        }
        self._dscp: dict[tuple[str, str], tuple[tuple[int, int], ...]] = {}

    def of_port(self, port: str) -> PortQos:
        """Return what applies to a port."""
        fields = self._port.get(port, {})
        enabled = tuple(sorted(int(one) for one in fields.get("pfc_enable", "").split(",") if one))
        cable = self._cable.get(port, "").removesuffix("m")
        pauses = self._maps["pfc-queue"].get(_name(fields.get("pfc_to_queue_map", "")), {})
        groups = self._maps["group-map"].get(_name(fields.get("tc_to_pg_map", "")), {})
        buffers = [
            *self._buffers("ingress", self._pg, port),
            *self._buffers("egress", self._out, port),
        ]
        if groups:
            used = tuple(sorted((tc, group) for tc, group in groups.items()))
            buffers.append(BufferProfile(target="priority group of traffic class", settings=used))
        if port in self._lists:
            buffers.append(
                BufferProfile(target="port", settings=(("profiles", self._lists[port]),))
            )
        return PortQos(
            queues=self._queues(fields),
            pfc_priorities=enabled,
            pfc_queues=tuple((one, int(pauses[str(one)])) for one in enabled if str(one) in pauses),
            ecn=tuple(self._ecn(port)),
            schedules=tuple(self._schedules(port)),
            buffers=tuple(buffers),
            cable_m=float(cable) if cable.isdigit() else None,
            watchdog=self._watch(port, fields),
        )

    def _queues(self, fields: Fields) -> tuple[tuple[int, int], ...]:
        names = (_name(fields.get("dscp_to_tc_map", "")), _name(fields.get("tc_to_queue_map", "")))
        if names not in self._dscp:
            queues = self._maps["queue-map"].get(names[1], {})
            self._dscp[names] = tuple(
                sorted(
                    (int(dscp), int(queues.get(tc, tc)))
                    for dscp, tc in self._maps["dscp"].get(names[0], {}).items()
                )
            )
        return self._dscp[names]

    def _watch(self, port: str, fields: Fields) -> tuple[str, ...]:
        own = self._watchdog.get(port, {})
        poll = self._watchdog.get("GLOBAL", {}).get("POLL_INTERVAL")
        settings = [f"{name} {value}" for name, value in sorted(own.items())]
        if fields.get("pfcwd_sw_enable"):
            settings.append(f"priorities {fields['pfcwd_sw_enable']}")
        return (*settings, *([f"poll {poll}"] if poll and own else []))

    def _ecn(self, port: str) -> Iterator[QueueEcn]:
        for queue, fields in self._queue.get(port, {}).items():
            wred = self._wred.get(_name(fields.get("wred_profile", "")), {})
            marked = wred.get("ecn", "ecn_none").removeprefix("ecn_")
            colours = [one for one in _COLOURS if one in marked or marked == "all"]
            for colour in colours[:1]:
                yield QueueEcn(
                    queue=queue,
                    unit="bytes",
                    low=float(wred.get(f"{colour}_min_threshold", 0)),
                    high=float(wred.get(f"{colour}_max_threshold", 0)),
                    mark_ratio=float(wred.get(f"{colour}_drop_probability", 100)) / 100,
                )

    def _schedules(self, port: str) -> Iterator[QueueSchedule]:
        for queue, fields in sorted(self._queue.get(port, {}).items()):
            scheduler = self._scheduler.get(_name(fields.get("scheduler", "")))
            if scheduler is not None:
                weight = scheduler.get("weight")
                yield QueueSchedule(
                    queue=queue,
                    kind="strict" if scheduler.get("type") == "STRICT" else "weighted",
                    share_ratio=None if weight is None else float(weight) / 100,
                )

    def _buffers(
        self, side: str, table: Mapping[str, Mapping[int, Fields]], port: str
    ) -> Iterator[BufferProfile]:
        for index, fields in sorted(table.get(port, {}).items()):
            name = _name(fields["profile"])
            profile = self._profile.get(name, {"profile": name})
            yield BufferProfile(
                target=f"{side} {index}",
                settings=tuple((key, _name(value)) for key, value in sorted(profile.items())),
            )

    def undefined(self) -> Iterator[str]:
        """Yield names that are used in a table and not defined in the other."""
        refers = {
            "dscp_to_tc_map": ("DSCP_TO_TC_MAP", self._maps["dscp"]),
            "tc_to_queue_map": ("TC_TO_QUEUE_MAP", self._maps["queue-map"]),
            "tc_to_pg_map": ("TC_TO_PRIORITY_GROUP_MAP", self._maps["group-map"]),
            "pfc_to_queue_map": ("MAP_PFC_PRIORITY_TO_QUEUE", self._maps["pfc-queue"]),
            "pfc_to_pg_map": ("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", self._maps["pfc-group"]),
            "scheduler": ("SCHEDULER", self._scheduler),
            "wred_profile": ("WRED_PROFILE", self._wred),
        }
        rows = [
            *self._port.values(),
            *(one for some in self._queue.values() for one in some.values()),
        ]
        for fields in rows:
            for field, value in fields.items():
                if field in refers and _name(value) not in refers[field][1]:
                    yield f"{refers[field][0]} {_name(value)}"
        for table in (self._pg, self._out):
            for some in table.values():
                for fields in some.values():
                    name = _name(fields["profile"])
                    if name != "NULL" and name not in self._profile:  # NULL: computed by SONiC
                        yield f"BUFFER_PROFILE {name}"


def _name(reference: str) -> str:
    # Older releases write references as [TABLE|name].
    return ",".join(
        one.strip("[]").rpartition("|")[2] for one in reference.replace("][", "],[").split(",")
    )


def _tables(rows: Sequence[tuple[str, ...]]) -> dict[str, Fields]:
    tables: dict[str, Fields] = {}
    for name, field, value in rows:
        tables.setdefault(name, {})[field] = value
    return tables


def _by_port(rows: Sequence[tuple[str, ...]]) -> dict[str, Fields]:
    ports: dict[str, Fields] = {}
    for names, field, value in rows:
        for port in names.split(","):
            ports.setdefault(port, {})[field] = value
    return ports


def _by_port_and_index(rows: Iterable[tuple[str, ...]]) -> dict[str, dict[int, Fields]]:
    # Ethernet0,Ethernet4|3-4
    ports: dict[str, dict[int, Fields]] = {}
    for key, field, value in rows:
        names, _, indices = key.rpartition("|")
        for port in names.split(","):
            for index in range_of(indices):
                ports.setdefault(port, {}).setdefault(index, {})[field] = value
    return ports
