"""Checks of switch buffers: buffer profiles and PFC headroom for the ports in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog.switches import Switch
from gpuyard.errors import Finding, InputError
from gpuyard.fabric.lossless.headroom import PortHeadroom, headroom_of
from gpuyard.fabric.verify.finding import Check, error, note, warning
from gpuyard.fabric.verify.subject import ConfiguredFabric
from gpuyard.topology.nodes import TIERS, Role
from gpuyard.units import BITS_PER_S, BYTES, show


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Ports:
    """Identical ports of a switch role; `planned_m` is the cable length of their buffer profile."""

    role: Role
    speed_bits_per_s: float
    planned_m: float
    cable_m: float | None

    def __str__(self) -> str:
        length = "unknown length" if self.cable_m is None else f"{self.cable_m:g} m"
        return f"{self.role} ports at {show(self.speed_bits_per_s, BITS_PER_S)}, {length}"


def _ports_of(subject: ConfiguredFabric) -> dict[_Ports, int]:
    # The kinds of switch ports in use, with the largest number of each on one switch.
    cables = subject.fabric.demand.cables
    planned = {
        "server": cables.server_m,
        "leaf": cables.server_m,
        "spine": cables.spine_m,
        "core": cables.core_m,
    }
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


def _profiles(subject: ConfiguredFabric) -> Iterator[Finding]:
    if not subject.has_pfc:
        return
    profiles = {
        (buffers.role, group.speed_bits_per_s, group.cable_m)
        for buffers in subject.fabric.lossless.buffers
        for group in buffers.plan.groups
    }
    for ports, count in _ports_of(subject).items():
        if (ports.role, ports.speed_bits_per_s, ports.planned_m) not in profiles:
            others = [
                f"{show(speed, BITS_PER_S)} over {cable_m:g} m"
                for role, speed, cable_m in sorted(profiles)
                if role == ports.role
            ]
            yield error(
                "profiles",
                str(ports),
                f"{count} ports per switch have no buffer profile;"
                f" profiles exist for {', '.join(others) or 'none'}",
                "create buffer profiles for the ports in use",
            )


def _headroom(subject: ConfiguredFabric) -> Iterator[Finding]:
    if not subject.has_pfc:
        return
    models = {buffers.role: buffers.plan.switch for buffers in subject.fabric.lossless.buffers}
    for ports, count in _ports_of(subject).items():
        if ports.role not in models:
            continue
        if ports.cable_m is None:
            yield warning(
                "headroom",
                where=str(ports),
                what=f"cable length unknown for {count} ports per switch",
                fix="measure the cables, or use the lengths of the design",
            )
            continue
        switch = subject.catalog.switch(models[ports.role])
        reserved = subject.fabric.lossless.headroom(
            ports.role, ports.speed_bits_per_s, ports.planned_m
        )
        try:
            need = _need(subject, switch, ports.speed_bits_per_s, ports.cable_m)
        except InputError as wrong:
            yield error("headroom", str(ports), wrong.problems[0].what, wrong.problems[0].fix)
            continue
        if need is None:
            yield warning(
                "headroom",
                where=str(ports),
                what=f"no headroom is published for {switch.label}: not verified to be lossless",
                fix="ask the vendor for its headroom table, or measure it",
            )
        elif reserved is not None and reserved.xoff_bytes < need.xoff_bytes:
            yield error(
                "headroom",
                str(ports),
                f"{reserved.xoff_bytes:,} bytes reserved,"
                f" and {need.xoff_bytes:,} may arrive after XOFF",
                "raise the cable length in the buffer profile, or use a shorter cable",
            )


def _need(
    subject: ConfiguredFabric, switch: Switch, speed_bits_per_s: float, cable_m: float
) -> PortHeadroom | None:
    asic = subject.catalog.asic(switch.asic) if switch.asic else None
    if asic is None or not (asic.headroom or asic.headroom_lookup or switch.headroom_lookup):
        return None
    return headroom_of(
        switch, asic, speed_bits_per_s, cable_m, subject.fabric.demand.fabric_mtu_bytes
    )


def _pool(subject: ConfiguredFabric) -> Iterator[Finding]:
    for buffers in subject.fabric.lossless.buffers if subject.has_pfc else ():
        plan, ratio = buffers.plan, buffers.plan.sharing_ratio
        if ratio is None:
            continue
        need, room = show(plan.need_bytes or 0, BYTES), show(plan.room_bytes or 0, BYTES)
        if not plan.fits:
            yield error(
                "headroom-pool",
                buffers.role,
                f"all ports need {need} of headroom, and {room} are available",
                "use shorter cables, fewer or slower ports, or a larger headroom share",
            )
        elif ratio > 1:
            yield note(
                "headroom-pool",
                where=buffers.role,
                what=f"{need} of headroom share a pool of {room}:"
                f" {plan.covered_count} ports can be paused at once",
            )
        else:
            yield note(
                "headroom-pool",
                where=buffers.role,
                what=f"{need} of headroom for all ports at once, of {room} available",
            )


CHECKS: tuple[Check[ConfiguredFabric], ...] = (
    Check(
        name="profiles",
        verifies="every port in use has a buffer profile for its speed and cable",
        find=_profiles,
    ),
    Check(name="headroom", verifies="headroom covers the real cable lengths", find=_headroom),
    Check(name="headroom-pool", verifies="the headroom of all ports fits the buffer", find=_pool),
)
