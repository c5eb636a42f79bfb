"""Checks of the lossless class: one class from NIC to NIC, memory for what arrives after a pause, ECN before PFC."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Switch
from gpuyard.errors import InputError
from gpuyard.fabric.lossless import Lossless, PortHeadroom, TrafficClass, headroom_of, watchdog_problems
from gpuyard.fabric.verify.finding import Check, Finding, error, note, warning
from gpuyard.fabric.verify.subject import Configured
from gpuyard.topology import TIERS, Role
from gpuyard.units import BITS_PER_S, BYTES, DURATION, RATIO, show

__all__ = ["CHECKS"]


def _class(lossless: Lossless, kind: str) -> TrafficClass | None:
    """The class of a kind, if there is one."""
    return next((each for each in lossless.qos.classes if each.kind == kind), None)


def _paused(subject: Configured) -> bool:
    """True of a fabric with a lossless Ethernet class."""
    return subject.fabric.lossless.transport == "roce"


def _qos(subject: Configured) -> Iterator[Finding]:
    """The NIC's marks lead to the lossless queue, which is paused by the priority that the NIC pauses by."""
    lossless = subject.fabric.lossless
    if not _paused(subject):
        return
    nic, qos = lossless.nic, lossless.qos
    if nic.trust != "dscp":
        yield error(
            "qos",
            "NIC",
            f"trusts {nic.trust.upper()}: its DSCP marks are ignored, traffic runs in class 0",
            "set the NIC to trust DSCP",
        )
    taken = qos.class_of(nic.roce_dscp)
    if not taken.lossless:
        yield error(
            "qos",
            "switches",
            f"DSCP {nic.roce_dscp}, with which the NIC marks RDMA, goes to {taken.label} "
            f"(traffic class {taken.traffic_class}), which is lossy",
            "map the mark to the lossless class, or mark otherwise at the NIC",
        )
    elif taken.priority != nic.roce_priority:
        yield error(
            "qos",
            "NIC",
            f"sends RDMA on priority {nic.roce_priority}, and switches pause priority {taken.priority}",
            "use one priority",
        )
    for each in qos.classes:
        if each.lossless != (each.priority in qos.pfc.priorities):
            has = "is lossless and not" if each.lossless else "is lossy and"
            yield error(
                "qos",
                each.label,
                f"{has} paused: PFC is on for priorities {_list(qos.pfc.priorities)}, and it has {each.priority}",
                "pause exactly the priorities of lossless classes",
            )
    if set(nic.pfc_priorities) != set(qos.pfc.priorities):
        yield error(
            "qos",
            "NIC",
            f"pauses priorities {_list(nic.pfc_priorities)}, the switches {_list(qos.pfc.priorities)}",
            "enable PFC for the same priorities at both ends",
        )
    yield from _queues(lossless)
    if not nic.ecn:
        yield error("qos", "NIC", "does not take part in ECN: only pauses slow it down", "enable ECN at the NIC")


def _queues(lossless: Lossless) -> Iterator[Finding]:
    """A lossless queue holds nothing else, and no mark belongs to two classes."""
    queues: dict[int, TrafficClass] = {}
    marks: dict[int, TrafficClass] = {}
    for each in lossless.qos.classes:
        other = queues.setdefault(each.queue, each)
        if other is not each and (other.lossless or each.lossless):
            yield error("qos", each.label, f"shares queue {each.queue} with {other.label}", "give each its own queue")
        for mark in each.dscp:
            if marks.setdefault(mark, each) is not each:
                yield error("qos", each.label, f"DSCP {mark} belongs to {marks[mark].label} too", "keep one of them")


def _list(numbers: tuple[int, ...]) -> str:
    """Numbers in words."""
    return ", ".join(map(str, sorted(numbers))) or "none"


def _scope(subject: Configured) -> Iterator[Finding]:
    """Pauses work on every link that lossless traffic crosses."""
    if _paused(subject) and subject.fabric.lossless.pfc.scope != "all" and subject.fabric.size.spines:
        yield warning(
            "pfc-scope",
            where="links between switches",
            what="are not paused: PFC is on toward servers alone, and a spine that fills up drops",
            fix="enable PFC on all ports, or accept it: some published designs do",
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Ports:
    """Ports of a switch role that are alike; `planned` is the cable length that their profile was made for."""

    role: Role
    speed_bits_per_s: float
    planned_m: float
    cable_m: float | None

    def __str__(self) -> str:
        length = "unknown length" if self.cable_m is None else f"{self.cable_m:g} m"
        return f"{self.role} ports at {show(self.speed_bits_per_s, BITS_PER_S)}, {length}"


def _ports_of(subject: Configured) -> dict[_Ports, int]:
    """The switch ports in use, and how many of a kind there are on the fullest switch."""
    cables = subject.fabric.demand.cables
    planned = {"server": cables.server_m, "leaf": cables.server_m, "spine": cables.spine_m, "core": cables.core_m}
    roles = {node.name: node.role for node in subject.topology.nodes}
    counts: Counter[tuple[str, _Ports]] = Counter()
    for link in subject.topology.links:
        upper = max(roles[link.a.node], roles[link.b.node], key=TIERS.__getitem__)
        for end in link.ends:
            if roles[end.node] != "server":
                kind = _Ports(
                    role=roles[end.node],
                    speed_bits_per_s=link.speed_bits_per_s,
                    planned_m=planned[upper],
                    cable_m=link.cable_m,
                )
                counts[end.node, kind] += 1
    most: dict[_Ports, int] = {}
    for (_, kind), count in counts.items():
        most[kind] = max(most.get(kind, 0), count)
    return dict(sorted(most.items(), key=str))


def _profiles(subject: Configured) -> Iterator[Finding]:
    """Every kind of port in use has a buffer profile made for it."""
    if not _paused(subject):
        return
    made = {
        (buffers.role, group.speed_bits_per_s, group.cable_m)
        for buffers in subject.fabric.lossless.buffers
        for group in buffers.plan.groups
    }
    for ports, count in _ports_of(subject).items():
        if (ports.role, ports.speed_bits_per_s, ports.planned_m) not in made:
            others = [f"{show(speed, BITS_PER_S)} over {cable_m:g} m" for role, speed, cable_m in sorted(made)
                      if role == ports.role]  # fmt: skip
            yield error(
                "profiles",
                str(ports),
                f"{count} a switch have no buffer profile; profiles are for {', '.join(others) or 'nothing'}",
                "make the profiles for the ports that are there",
            )


def _headroom(subject: Configured) -> Iterator[Finding]:
    """Reserved headroom covers what the real cable and speed let arrive after a pause."""
    if not _paused(subject):
        return
    models = {buffers.role: buffers.plan.switch for buffers in subject.fabric.lossless.buffers}
    for ports, count in _ports_of(subject).items():
        if ports.role not in models:
            continue
        if ports.cable_m is None:
            yield warning(
                "headroom",
                where=str(ports),
                what=f"nobody knows the cables of {count} ports a switch",
                fix="measure the cables, or take the lengths from the design",
            )
            continue
        switch = subject.catalog.switch(models[ports.role])
        reserved = subject.fabric.lossless.headroom(ports.role, ports.speed_bits_per_s, ports.planned_m)
        try:
            need = _need(subject, switch, ports.speed_bits_per_s, ports.cable_m)
        except InputError as refused:
            yield error("headroom", str(ports), refused.problems[0].what, refused.problems[0].fix)
            continue
        if need is None:
            yield warning(
                "headroom",
                where=str(ports),
                what=f"no headroom is published for {switch.label}: lossless cannot be shown",
                fix="ask the vendor for its table, or measure it",
            )
        elif reserved is not None and reserved.xoff_bytes < need.xoff_bytes:
            yield error(
                "headroom",
                str(ports),
                f"{reserved.xoff_bytes:,} bytes reserved, and {need.xoff_bytes:,} may arrive after a pause",
                "raise the cable length in the buffer profile, or shorten the cable",
            )


def _need(subject: Configured, switch: Switch, speed_bits_per_s: float, cable_m: float) -> PortHeadroom | None:
    """The headroom that a port needs; None where none is published."""
    asic = subject.catalog.asic(switch.asic) if switch.asic else None
    if asic is None or not (asic.headroom or asic.headroom_lookup or switch.headroom_lookup):
        return None
    return headroom_of(switch, asic, speed_bits_per_s, cable_m, subject.fabric.demand.fabric_mtu_bytes)


def _pool(subject: Configured) -> Iterator[Finding]:
    """The headroom of all ports fits into the memory that is set aside for it."""
    for buffers in subject.fabric.lossless.buffers if _paused(subject) else ():
        plan, ratio = buffers.plan, buffers.plan.sharing_ratio
        if ratio is None:
            continue
        need, room = show(plan.need_bytes or 0, BYTES), show(plan.room_bytes or 0, BYTES)
        if not plan.fits:
            yield error(
                "headroom-pool",
                buffers.role,
                f"all ports need {need} of headroom, and there is room for {room}",
                "use shorter cables, fewer or slower ports, or a larger headroom share",
            )
        elif ratio > 1:
            yield note(
                "headroom-pool",
                where=buffers.role,
                what=f"{need} of headroom share a pool of {room}: {plan.covered_count} ports may be paused at once",
            )
        else:
            yield note("headroom-pool", where=buffers.role, what=f"{need} of headroom for all ports at once, in {room}")


def _ecn(subject: Configured) -> Iterator[Finding]:
    """ECN marks before PFC pauses."""
    ecn = subject.fabric.lossless.qos.ecn
    if not _paused(subject):
        return
    for low, high in ((ecn.low_bytes, ecn.high_bytes), (ecn.low_fill_ratio, ecn.high_fill_ratio)):
        if low is not None and high is not None and low >= high:
            yield error(
                "ecn",
                "lossless queue",
                f"marking starts at {low:g} and is full at {high:g}",
                "start below the upper threshold",
            )
    if ecn.high_fill_ratio is not None and ecn.high_fill_ratio >= 1:
        yield error(
            "ecn",
            "lossless queue",
            f"marks all packets at a fill of {show(ecn.high_fill_ratio, RATIO)}: PFC pauses first",
            "lower the upper threshold, such as to 90%",
        )
    for buffers in subject.fabric.lossless.buffers:
        count = buffers.plan.ecn_first_count(ecn)
        if count == 0:
            yield error(
                "ecn",
                buffers.role,
                f"marks all packets at {show(ecn.high_bytes or 0, BYTES)}, and PFC pauses at "
                f"{show(buffers.plan.pfc_threshold_bytes(1) or 0, BYTES)} or less",
                "lower the ECN thresholds",
            )
        elif count is not None:
            yield note(
                "ecn", where=buffers.role, what=f"ECN acts before PFC while {count} queues or fewer are congested"
            )


def _cnp(subject: Configured) -> Iterator[Finding]:
    """Congestion notifications go first, and are never paused."""
    lossless = subject.fabric.lossless
    if not _paused(subject):
        return
    cnp = _class(lossless, "cnp")
    if cnp is None:
        yield error(
            "cnp",
            "switches",
            "congestion notifications have no class of their own: they wait with the rest",
            "map their DSCP to a strict queue",
        )
        return
    if cnp.lossless:
        yield error(
            "cnp",
            cnp.label,
            "is lossless: notifications wait behind the pauses that they should end",
            "put them into a lossy queue",
        )
    if cnp.schedule != "strict":
        yield error(
            "cnp",
            cnp.label,
            f"queue {cnp.queue} is weighted: notifications wait while the port is full",
            "make the queue strict, with a small cap",
        )
    if lossless.qos.class_of(lossless.nic.cnp_dscp) != cnp:
        yield error(
            "cnp",
            "NIC",
            f"marks notifications with DSCP {lossless.nic.cnp_dscp}, which is not of class {cnp.label}",
            "use one mark",
        )


def _watchdog(subject: Configured) -> Iterator[Finding]:
    """The watchdog looks often enough for the times that it keeps."""
    if _paused(subject):
        for problem in watchdog_problems(subject.fabric.lossless.watchdog):
            yield error("watchdog", problem.where, problem.what, problem.fix)


def _bfd(subject: Configured) -> Iterator[Finding]:
    """A pause that the watchdog would still end does not bring a session down."""
    fabric = subject.fabric
    if not _paused(subject) or fabric.routing.protocol != "ebgp":
        return
    stuck = fabric.lossless.watchdog.detect_s
    for noun, bfd in (("sessions", fabric.routing.bfd), ("overlay sessions", fabric.routing.overlay_bfd)):
        if bfd is not None and bfd.detect_s <= stuck:
            yield error(
                "bfd",
                noun,
                f"are given up after {show(bfd.detect_s, DURATION)}, and the watchdog frees a stuck "
                f"queue after {show(stuck, DURATION)}",
                "make BFD slower than the watchdog, such as 1 s × 3",
            )
    overlay = fabric.routing.overlay_bfd
    if overlay is not None and overlay.detect_s <= fabric.routing.bfd.detect_s:
        yield warning(
            "bfd",
            where="overlay sessions",
            what="are given up before the sessions below them have found another way",
            fix="make BFD of the overlay slower than that of the links",
        )


CHECKS: tuple[Check[Configured], ...] = (
    Check(name="qos", proves="marks, classes, queues and priorities agree from NIC to NIC", find=_qos),
    Check(name="pfc-scope", proves="every link that lossless traffic crosses can be paused", find=_scope),
    Check(name="profiles", proves="every kind of port in use has a buffer profile made for it", find=_profiles),
    Check(name="headroom", proves="headroom covers the real cables", find=_headroom),
    Check(name="headroom-pool", proves="the headroom of all ports fits into memory", find=_pool),
    Check(name="ecn", proves="ECN marks before PFC pauses", find=_ecn),
    Check(name="cnp", proves="congestion notifications have a strict queue that is never paused", find=_cnp),
    Check(name="watchdog", proves="the watchdog's times are ones that it can keep", find=_watchdog),
    Check(name="bfd", proves="pauses do not bring sessions down before the watchdog acts", find=_bfd),
)
