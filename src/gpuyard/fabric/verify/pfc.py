"""Checks of the lossless class: DSCP, queues and PFC from NIC to NIC, CNPs, watchdog, BFD."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.lossless.qos import TrafficClass
from gpuyard.fabric.lossless.watchdog import watchdog_problems
from gpuyard.fabric.verify.finding import Check, error, warning
from gpuyard.fabric.verify.subject import ConfiguredFabric
from gpuyard.units import DURATION, show


def _class(lossless: Lossless, kind: str) -> TrafficClass | None:
    return next((one for one in lossless.qos.classes if one.kind == kind), None)


def _qos(subject: ConfiguredFabric) -> Iterator[Finding]:
    lossless = subject.fabric.lossless
    if not subject.has_pfc:
        return
    nic, qos = lossless.nic, lossless.qos
    if nic.trust != "dscp":
        yield error(
            "qos",
            "NIC",
            f"trusts {nic.trust.upper()}: DSCP is ignored, and traffic runs in class 0",
            "set the NIC to trust DSCP",
        )
    actual = qos.class_of(nic.roce_dscp)
    if not actual.lossless:
        yield error(
            "qos",
            "switches",
            f"DSCP {nic.roce_dscp}, which the NIC sets on RDMA, maps to {actual.label}"
            f" (traffic class {actual.traffic_class}), which is lossy",
            "map this DSCP to the lossless class, or change it on the NIC",
        )
    elif actual.priority != nic.roce_priority:
        yield error(
            "qos",
            "NIC",
            f"sends RDMA on priority {nic.roce_priority},"
            f" and switches pause priority {actual.priority}",
            "use one priority",
        )
    for traffic in qos.classes:
        if traffic.lossless != (traffic.priority in qos.pfc.priorities):
            has = "is lossless and not" if traffic.lossless else "is lossy and"
            yield error(
                "qos",
                traffic.label,
                f"{has} paused: PFC is on for priorities {_list(qos.pfc.priorities)},"
                f" and it has priority {traffic.priority}",
                "enable PFC for exactly the priorities of lossless classes",
            )
    if set(nic.pfc_priorities) != set(qos.pfc.priorities):
        yield error(
            "qos",
            "NIC",
            f"has PFC on priorities {_list(nic.pfc_priorities)},"
            f" and the switches on {_list(qos.pfc.priorities)}",
            "enable PFC for the same priorities at both ends",
        )
    yield from _queues(lossless)
    if not nic.ecn:
        yield error(
            "qos",
            "NIC",
            "has ECN disabled: only PFC slows it down",
            "enable ECN at the NIC",
        )


def _queues(lossless: Lossless) -> Iterator[Finding]:
    queues: dict[int, TrafficClass] = {}
    owners: dict[int, TrafficClass] = {}
    for traffic in lossless.qos.classes:
        other = queues.setdefault(traffic.queue, traffic)
        if other is not traffic and (other.lossless or traffic.lossless):
            yield error(
                "qos",
                traffic.label,
                f"shares queue {traffic.queue} with {other.label}",
                "use a separate queue for each",
            )
        for dscp in traffic.dscp:
            if owners.setdefault(dscp, traffic) is not traffic:
                yield error(
                    "qos",
                    traffic.label,
                    f"DSCP {dscp} also belongs to {owners[dscp].label}",
                    "keep it in one class",
                )


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(numbers))) or "none"


def _scope(subject: ConfiguredFabric) -> Iterator[Finding]:
    if (
        subject.has_pfc
        and subject.fabric.lossless.pfc.scope != "all"
        and subject.fabric.size.spines
    ):
        yield warning(
            "pfc-scope",
            where="links between switches",
            what="have no PFC: it is on toward servers only, and a congested spine drops packets",
            fix="enable PFC on all ports, or accept drops as some published designs do",
        )


def _cnp(subject: ConfiguredFabric) -> Iterator[Finding]:
    lossless = subject.fabric.lossless
    if not subject.has_pfc:
        return
    cnp = _class(lossless, "cnp")
    if cnp is None:
        yield error(
            "cnp",
            "switches",
            "congestion notifications (CNP) have no separate class: they queue with other traffic",
            "map their DSCP to a strict-priority queue",
        )
        return
    if cnp.lossless:
        yield error(
            "cnp",
            cnp.label,
            "is lossless: PFC pauses delay the notifications that should end them",
            "use a lossy queue",
        )
    if cnp.schedule != "strict":
        yield error(
            "cnp",
            cnp.label,
            f"queue {cnp.queue} is weighted: notifications wait while the port is congested",
            "make the queue strict-priority, with a small cap",
        )
    if lossless.qos.class_of(lossless.nic.cnp_dscp) != cnp:
        yield error(
            "cnp",
            "NIC",
            f"sets DSCP {lossless.nic.cnp_dscp} on notifications,"
            f" which does not map to class {cnp.label}",
            "use one DSCP for notifications",
        )


def _watchdog(subject: ConfiguredFabric) -> Iterator[Finding]:
    if subject.has_pfc:
        for problem in watchdog_problems(subject.fabric.lossless.watchdog):
            yield error("watchdog", problem.where, problem.what, problem.fix)


def _bfd(subject: ConfiguredFabric) -> Iterator[Finding]:
    fabric = subject.fabric
    if not subject.has_pfc or fabric.routing.protocol != "ebgp":
        return
    detect_s = fabric.lossless.watchdog.detect_s
    for noun, bfd in (
        ("sessions", fabric.routing.bfd),
        ("overlay sessions", fabric.routing.overlay_bfd),
    ):
        if bfd is not None and bfd.detect_s <= detect_s:
            yield error(
                "bfd",
                noun,
                f"go down after {show(bfd.detect_s, DURATION)}, and the PFC watchdog"
                f" acts after {show(detect_s, DURATION)}",
                "make BFD slower than the watchdog, for example 1 s × 3",
            )
    overlay = fabric.routing.overlay_bfd
    if overlay is not None and overlay.detect_s <= fabric.routing.bfd.detect_s:
        yield warning(
            "bfd",
            where="overlay sessions",
            what="go down before the underlay has rerouted",
            fix="make overlay BFD slower than link BFD",
        )


CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    Check(
        name="qos",
        verifies="DSCP, traffic classes, queues and priorities agree from NIC to NIC",
        find=_qos,
    ),
    Check(
        name="pfc-scope",
        verifies="PFC is on for every link that lossless traffic crosses",
        find=_scope,
    ),
    Check(
        name="cnp",
        verifies="congestion notifications have a strict-priority queue without PFC",
        find=_cnp,
    ),
    Check(name="watchdog", verifies="the PFC watchdog can keep its times", find=_watchdog),
    Check(
        name="bfd",
        verifies="PFC pauses do not bring sessions down before the watchdog acts",
        find=_bfd,
    ),
)
