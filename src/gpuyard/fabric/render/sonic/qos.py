"""Queues, pauses, marks and memory in SONiC's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gpuyard.fabric.fabric import Device, Fabric, Interface
from gpuyard.fabric.lossless import BufferPlan, Lossless, PortHeadroom, Qos
from gpuyard.fabric.lossless.classes import DSCP_COUNT
from gpuyard.fabric.render.sonic.tables import Rows, row, table

__all__ = ["ars_tables", "qos_tables"]

MAP = "AZURE"  # SONiC's templates look for maps of this name
QUEUES = range(8)
INGRESS, EGRESS, EGRESS_LOSSY = "ingress_lossless_pool", "egress_lossless_pool", "egress_lossy_pool"
ALPHA_INDEX = "0"  # of SONiC's default_dynamic_th: a queue may take as much as is free
LOSSY_ALPHA_INDEX = "3"
UNLIMITED_ALPHA_INDEX = "7"  # egress of the lossless class: ingress decides
Cables = Mapping[tuple[str, str], float]


def qos_tables(fabric: Fabric, device: Device, cables: Cables) -> Iterator[str]:
    """Every table of the lossless class on one switch."""
    lossless = fabric.lossless
    qos = lossless.qos
    ports = [port for port in device.interfaces if lossless.pfc.scope == "all" or port.peer_role == "server"]
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


def _maps(qos: Qos) -> Iterator[str]:
    """From the mark to the class, and from the class to queue and priority group."""
    marks = [qos.class_of(dscp) for dscp in range(DSCP_COUNT)]
    paused = {each.traffic_class for each in qos.classes if each.lossless}
    queues = {each.traffic_class: each.queue for each in qos.classes}
    groups = [part for tc in QUEUES for part in (str(tc), str(tc) if tc in paused else "0")]
    yield table("DSCP_TO_TC_MAP", [(MAP, row(*_pairs({d: each.traffic_class for d, each in enumerate(marks)})))])
    yield table("TC_TO_QUEUE_MAP", [(MAP, row(*_pairs({tc: queues.get(tc, tc) for tc in QUEUES})))])
    yield table("TC_TO_PRIORITY_GROUP_MAP", [(MAP, row(*groups))])
    pauses = {each.priority: each.queue for each in qos.classes if each.lossless}
    yield table("MAP_PFC_PRIORITY_TO_QUEUE", [(MAP, row(*_pairs({p: pauses.get(p, p) for p in QUEUES})))])
    own = {each.priority: each.traffic_class for each in qos.classes if each.lossless}
    yield table("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", [(MAP, row(*_pairs(own)))])


def _pairs(numbers: Mapping[int, int]) -> list[str]:
    """A map of numbers as key, value, key, value."""
    return [str(part) for pair in numbers.items() for part in pair]


def _queues(qos: Qos, ports: Sequence[Interface]) -> Iterator[str]:
    """A scheduler for each class; ECN on the lossless queue."""
    yield table("SCHEDULER", (
        (f"scheduler.{each.label}",
         row("type", "STRICT") if each.schedule == "strict"
         else row("type", "DWRR", "weight", str(round((each.share_ratio or 0.01) * 100))))
        for each in qos.classes
    ))  # fmt: skip
    rows = [
        (f"|{each.queue}",
         row("scheduler", f"scheduler.{each.label}", "wred_profile", "ROCE") if each.lossless
         else row("scheduler", f"scheduler.{each.label}"))
        for each in qos.classes
    ]  # fmt: skip
    yield table("QUEUE", ((port.port + queue, encoded) for port in ports for queue, encoded in rows))


def _wred(qos: Qos) -> str:
    """Marks between two fills; nothing is dropped early."""
    low, high, mark = str(qos.ecn.low_bytes), str(qos.ecn.high_bytes), str(round(qos.ecn.mark_ratio * 100))
    fields = ["ecn", "ecn_all"]
    for colour in ("green", "yellow", "red"):
        fields += [f"wred_{colour}_enable", "true", f"{colour}_min_threshold", low,
                   f"{colour}_max_threshold", high, f"{colour}_drop_probability", mark]  # fmt: skip
    return row(*fields)


def _port_map(qos: Qos) -> str:
    """What a port uses."""
    priorities = ",".join(map(str, qos.pfc.priorities))
    return row("dscp_to_tc_map", MAP, "tc_to_queue_map", MAP, "tc_to_pg_map", MAP, "pfc_to_queue_map", MAP,
               "pfc_to_pg_map", MAP, "pfc_enable", priorities, "pfcwd_sw_enable", priorities)  # fmt: skip


def _watchdog(lossless: Lossless, ports: Sequence[Interface]) -> Iterator[str]:
    """Times in milliseconds."""
    watchdog = lossless.watchdog
    each = row("action", watchdog.action, "detection_time", _ms(watchdog.detect_s),
               "restoration_time", _ms(watchdog.restore_s or watchdog.detect_s))  # fmt: skip
    rows = [("GLOBAL", row("POLL_INTERVAL", _ms(watchdog.poll_s))), *((port.port, each) for port in ports)]
    yield table("PFC_WD", rows)


def _ms(seconds: float) -> str:
    """Whole milliseconds."""
    return str(round(seconds * 1e3))


def _lengths(device: Device, ports: Sequence[Interface], cables: Cables) -> str:
    """The cable in each port, in whole metres, rounded up."""
    known = ((port.port, cables.get((device.name, port.port))) for port in ports)
    return row(*[part for name, metres in known if metres is not None for part in (name, f"{-int(-metres // 1)}m")])


def _memory(
    lossless: Lossless, plan: BufferPlan, device: Device, ports: Sequence[Interface], cables: Cables
) -> Iterator[str]:
    """Pools, a profile for each speed and cable, and who uses which."""
    named: dict[str, PortHeadroom] = {}
    of_port: list[tuple[str, str]] = []
    for port in ports:
        metres = cables.get((device.name, port.port))
        found = lossless.headroom(device.role, port.speed_bits_per_s, metres) if metres is not None else None
        if metres is not None and found is not None:
            name = f"pg_lossless_{round(port.speed_bits_per_s / 1e6)}_{-int(-metres // 1)}m_profile"
            named[name] = found
            of_port.append((port.port, name))
    yield table("BUFFER_POOL", _pools(plan))
    yield table("BUFFER_PROFILE", _profiles(named))
    lossy = row("profile", "ingress_lossy_profile")
    paused = [each for each in lossless.qos.classes if each.lossless]
    yield table("BUFFER_PG", (
        pair for port, name in of_port
        for pair in ((f"{port}|0", lossy), *((f"{port}|{each.traffic_class}", row("profile", name)) for each in paused))
    ))  # fmt: skip
    rows = [(f"|{queues}", row("profile", f"egress_{kind}_profile")) for queues, kind in _runs(lossless.qos)]
    yield table("BUFFER_QUEUE", ((port.port + queue, encoded) for port in ports for queue, encoded in rows))


def _runs(qos: Qos) -> Iterator[tuple[str, str]]:
    """Queues side by side that are treated alike: 0-2 lossy, 3 lossless, 4-7 lossy."""
    paused = {each.queue for each in qos.classes if each.lossless}
    for is_paused, run in groupby(QUEUES, key=lambda queue: queue in paused):
        queues = list(run)
        yield f"{queues[0]}-{queues[-1]}" if len(queues) > 1 else str(queues[0]), "lossless" if is_paused else "lossy"


def _pools(plan: BufferPlan) -> Rows:
    """One pool for what comes in, with the shared headroom beside it where there is one."""
    buffer, shared = str(plan.buffer_bytes), str(plan.shared_bytes)
    headroom = ("xoff", str(plan.room_bytes)) if plan.pooled else ()
    yield INGRESS, row("type", "ingress", "mode", "dynamic", "size", shared, *headroom)
    yield EGRESS, row("type", "egress", "mode", "dynamic", "size", buffer)
    yield EGRESS_LOSSY, row("type", "egress", "mode", "dynamic", "size", shared)


def _profiles(named: Mapping[str, PortHeadroom]) -> Rows:
    """The profile of each kind of traffic."""
    yield "ingress_lossy_profile", row("pool", INGRESS, "size", "0", "dynamic_th", LOSSY_ALPHA_INDEX)
    yield "egress_lossless_profile", row("pool", EGRESS, "size", "0", "dynamic_th", UNLIMITED_ALPHA_INDEX)
    yield "egress_lossy_profile", row("pool", EGRESS_LOSSY, "size", "0", "dynamic_th", LOSSY_ALPHA_INDEX)
    for name, found in named.items():
        offset = ("xon_offset", str(found.xon_offset_bytes)) if found.xon_offset_bytes is not None else ()
        yield name, row("pool", INGRESS, "size", str(found.size_bytes), "xon", str(found.xon_bytes),
                        "xoff", str(found.xoff_bytes), *offset, "dynamic_th", ALPHA_INDEX)  # fmt: skip


def ars_tables(fabric: Fabric, device: Device) -> Iterator[str]:
    """Adaptive routing over the uplinks (SONiC's local ARS design, revision 1.4)."""
    balancing = fabric.lossless.balancing
    modes = {"flowlet": "per_flowlet_quality", "per-packet": "per_packet_quality", "spray": "per_packet_quality"}
    mode, uplinks = modes.get(balancing.mode), device.uplinks
    if mode is None or not uplinks or fabric.vrfs:  # tunnels are not balanced so
        return
    idle = balancing.inactivity_s
    yield table("ARS_PROFILE", [("fabric", row("algorithm", "ewma", "ars_nhg_path_selector_mode", "interface",
                                               "default_ars_object", "fabric", "ipv4_enable", "true",
                                               "ipv6_enable", "true"))])  # fmt: skip
    times = ("flowlet_idle_time", str(round(idle * 1e6))) if idle is not None and balancing.mode == "flowlet" else ()
    yield table("ARS_OBJECT", [("fabric", row("assign_mode", mode, *times))])
    yield table("ARS_INTERFACES", ((port.port, row("ars_obj_name", "fabric")) for port in uplinks))
