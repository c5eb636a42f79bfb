"""SONiC tables of the lossless class: QoS maps, schedulers, PFC, ECN, watchdog and buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.fabric.lossless.buffers import BufferPlan
from gpuyard.fabric.lossless.headroom import PortHeadroom
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.lossless.qos import DSCP_COUNT, QosProfile
from gpuyard.fabric.render.sonic.config_db_tables import Rows, row, table

MAP = "AZURE"  # the name in SONiC's templates
QUEUES = range(8)
INGRESS, EGRESS, EGRESS_LOSSY = "ingress_lossless_pool", "egress_lossless_pool", "egress_lossy_pool"
ALPHA_INDEX = "0"  # SONiC's default_dynamic_th: a queue may use as much as is free
LOSSY_ALPHA_INDEX = "3"
UNLIMITED_ALPHA_INDEX = "7"  # egress of the lossless class is limited at ingress
Cables = Mapping[tuple[str, str], float]


def qos_tables(fabric: Fabric, device: Device, cables: Cables) -> Iterator[str]:
    """Yield the tables of the lossless class of one switch."""
    lossless = fabric.lossless
    qos = lossless.qos
    ports = [
        port
        for port in device.interfaces
        if lossless.pfc.scope == "all" or port.peer_role == "server"
    ]
    yield from _maps(qos)
    yield from _queues(qos, ports)
    yield table("WRED_PROFILE", [("ROCE", _wred(qos))])
    port_map = _port_map(qos)
    yield table("PORT_QOS_MAP", ((port.port, port_map) for port in ports))
    yield from _watchdog(lossless, ports)
    yield table("CABLE_LENGTH", [(MAP, _lengths(device, ports, cables))])
    plan = next((buffers.plan for buffers in lossless.buffers if buffers.role == device.role), None)
    if plan is not None and plan.buffer_bytes is not None:
        yield from _memory(lossless, plan, device, ports, cables)


def _maps(qos: QosProfile) -> Iterator[str]:
    marks = [qos.class_of(dscp) for dscp in range(DSCP_COUNT)]
    paused = {one.traffic_class for one in qos.classes if one.lossless}
    queues = {one.traffic_class: one.queue for one in qos.classes}
    groups = [part for tc in QUEUES for part in (str(tc), str(tc) if tc in paused else "0")]
    yield table(
        "DSCP_TO_TC_MAP",
        [(MAP, row(*_pairs({d: one.traffic_class for d, one in enumerate(marks)})))],
    )
    yield table("TC_TO_QUEUE_MAP", [(MAP, row(*_pairs({tc: queues.get(tc, tc) for tc in QUEUES})))])
    yield table("TC_TO_PRIORITY_GROUP_MAP", [(MAP, row(*groups))])
    pauses = {one.priority: one.queue for one in qos.classes if one.lossless}
    yield table(
        "MAP_PFC_PRIORITY_TO_QUEUE", [(MAP, row(*_pairs({p: pauses.get(p, p) for p in QUEUES})))]
    )
    own = {one.priority: one.traffic_class for one in qos.classes if one.lossless}
    yield table("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", [(MAP, row(*_pairs(own)))])


def _pairs(numbers: Mapping[int, int]) -> list[str]:
    return [str(part) for pair in numbers.items() for part in pair]


def _queues(qos: QosProfile, ports: Sequence[Interface]) -> Iterator[str]:
    yield table(
        "SCHEDULER",
        (
            (
                f"scheduler.{one.label}",
                row("type", "STRICT")
                if one.schedule == "strict"
                else row("type", "DWRR", "weight", str(round((one.share_ratio or 0.01) * 100))),
            )
            for one in qos.classes
        ),
    )
    rows = [
        (
            f"|{one.queue}",
            row("scheduler", f"scheduler.{one.label}", "wred_profile", "ROCE")
            if one.lossless
            else row("scheduler", f"scheduler.{one.label}"),
        )
        for one in qos.classes
    ]
    yield table(
        "QUEUE", ((port.port + queue, encoded) for port in ports for queue, encoded in rows)
    )


def _wred(qos: QosProfile) -> str:
    low, high, mark = (
        str(qos.ecn.low_bytes),
        str(qos.ecn.high_bytes),
        str(round(qos.ecn.mark_ratio * 100)),
    )
    fields = ["ecn", "ecn_all"]
    for colour in ("green", "yellow", "red"):
        fields += [
            f"wred_{colour}_enable",
            "true",
            f"{colour}_min_threshold",
            low,
            f"{colour}_max_threshold",
            high,
            f"{colour}_drop_probability",
            mark,
        ]
    return row(*fields)


def _port_map(qos: QosProfile) -> str:
    priorities = ",".join(map(str, qos.pfc.priorities))
    return row(
        "dscp_to_tc_map",
        MAP,
        "tc_to_queue_map",
        MAP,
        "tc_to_pg_map",
        MAP,
        "pfc_to_queue_map",
        MAP,
        "pfc_to_pg_map",
        MAP,
        "pfc_enable",
        priorities,
        "pfcwd_sw_enable",
        priorities,
    )


def _watchdog(lossless: Lossless, ports: Sequence[Interface]) -> Iterator[str]:
    watchdog = lossless.watchdog
    timers = row(
        "action",
        watchdog.action,
        "detection_time",
        _ms(watchdog.detect_s),
        "restoration_time",
        _ms(watchdog.restore_s or watchdog.detect_s),
    )
    rows = [
        ("GLOBAL", row("POLL_INTERVAL", _ms(watchdog.poll_s))),
        *((port.port, timers) for port in ports),
    ]
    yield table("PFC_WD", rows)


def _ms(seconds: float) -> str:
    return str(round(seconds * 1e3))


def _lengths(device: Device, ports: Sequence[Interface], cables: Cables) -> str:
    known = ((port.port, cables.get((device.name, port.port))) for port in ports)
    return row(
        *[
            part
            for name, metres in known
            if metres is not None
            for part in (name, f"{-int(-metres // 1)}m")
        ]
    )


def _memory(
    lossless: Lossless, plan: BufferPlan, device: Device, ports: Sequence[Interface], cables: Cables
) -> Iterator[str]:
    named: dict[str, PortHeadroom] = {}
    of_port: list[tuple[str, str]] = []
    for port in ports:
        metres = cables.get((device.name, port.port))
        if metres is None:
            continue
        headroom = lossless.headroom(device.role, port.speed_bits_per_s, metres)
        if headroom is not None:
            name = f"pg_lossless_{round(port.speed_bits_per_s / 1e6)}_{-int(-metres // 1)}m_profile"
            named[name] = headroom
            of_port.append((port.port, name))
    yield table("BUFFER_POOL", _pools(plan))
    yield table("BUFFER_PROFILE", _profiles(named))
    lossy = row("profile", "ingress_lossy_profile")
    paused = [one for one in lossless.qos.classes if one.lossless]
    yield table(
        "BUFFER_PG",
        (
            pair
            for port, name in of_port
            for pair in (
                (f"{port}|0", lossy),
                *((f"{port}|{one.traffic_class}", row("profile", name)) for one in paused),
            )
        ),
    )
    rows = [
        (f"|{queues}", row("profile", f"egress_{kind}_profile"))
        for queues, kind in _runs(lossless.qos)
    ]
    yield table(
        "BUFFER_QUEUE", ((port.port + queue, encoded) for port in ports for queue, encoded in rows)
    )


def _runs(qos: QosProfile) -> Iterator[tuple[str, str]]:
    # Ranges of queues with the same treatment: 0-2 lossy, 3 lossless, 4-7 lossy.
    paused = {one.queue for one in qos.classes if one.lossless}
    for is_paused, run in groupby(QUEUES, key=lambda queue: queue in paused):
        queues = list(run)
        yield (
            f"{queues[0]}-{queues[-1]}" if len(queues) > 1 else str(queues[0]),
            "lossless" if is_paused else "lossy",
        )


def _pools(plan: BufferPlan) -> Rows:
    buffer, shared = str(plan.buffer_bytes), str(plan.shared_bytes)
    headroom = ("xoff", str(plan.room_bytes)) if plan.pooled else ()
    yield INGRESS, row("type", "ingress", "mode", "dynamic", "size", shared, *headroom)
    yield EGRESS, row("type", "egress", "mode", "dynamic", "size", buffer)
    yield EGRESS_LOSSY, row("type", "egress", "mode", "dynamic", "size", shared)


def _profiles(named: Mapping[str, PortHeadroom]) -> Rows:
    yield (
        "ingress_lossy_profile",
        row("pool", INGRESS, "size", "0", "dynamic_th", LOSSY_ALPHA_INDEX),
    )
    yield (
        "egress_lossless_profile",
        row("pool", EGRESS, "size", "0", "dynamic_th", UNLIMITED_ALPHA_INDEX),
    )
    yield (
        "egress_lossy_profile",
        row("pool", EGRESS_LOSSY, "size", "0", "dynamic_th", LOSSY_ALPHA_INDEX),
    )
    for name, headroom in named.items():
        offset: tuple[str, ...] = ()
        if headroom.xon_offset_bytes is not None:
            offset = ("xon_offset", str(headroom.xon_offset_bytes))
        yield (
            name,
            row(
                "pool",
                INGRESS,
                "size",
                str(headroom.size_bytes),
                "xon",
                str(headroom.xon_bytes),
                "xoff",
                str(headroom.xoff_bytes),
                *offset,
                "dynamic_th",
                ALPHA_INDEX,
            ),
        )


def ars_tables(fabric: Fabric, device: Device) -> Iterator[str]:
    """Yield tables for adaptive routing over uplinks (SONiC's local ARS design, revision 1.4)."""
    balancing = fabric.lossless.balancing
    modes = {
        "flowlet": "per_flowlet_quality",
        "per-packet": "per_packet_quality",
        "spray": "per_packet_quality",
    }
    mode, uplinks = modes.get(balancing.mode), device.uplinks
    if mode is None or not uplinks or fabric.vrfs:  # ARS does not support tunnels
        return
    idle = balancing.inactivity_s
    yield table(
        "ARS_PROFILE",
        [
            (
                "fabric",
                row(
                    "algorithm",
                    "ewma",
                    "ars_nhg_path_selector_mode",
                    "interface",
                    "default_ars_object",
                    "fabric",
                    "ipv4_enable",
                    "true",
                    "ipv6_enable",
                    "true",
                ),
            )
        ],
    )
    times = (
        ("flowlet_idle_time", str(round(idle * 1e6)))
        if idle is not None and balancing.mode == "flowlet"
        else ()
    )
    yield table("ARS_OBJECT", [("fabric", row("assign_mode", mode, *times))])
    yield table("ARS_INTERFACES", ((port.port, row("ars_obj_name", "fabric")) for port in uplinks))
