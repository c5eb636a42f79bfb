"""The lossless class of a fabric, end to end: marks, queues, pauses, memory, NICs and balancing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from gpuyard.catalog import Asic, Catalog, Switch, SwitchOs
from gpuyard.document import Doc
from gpuyard.errors import Infeasible, InputError, one_of
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.lossless.balancing import Balancer, balancer_for, option
from gpuyard.fabric.lossless.buffers import BufferPlan, buffer_plan, longest_cable_m
from gpuyard.fabric.lossless.classes import Pfc, Qos
from gpuyard.fabric.lossless.headroom import PortHeadroom
from gpuyard.fabric.lossless.nic import Nic, nic_for
from gpuyard.fabric.lossless.profiles import WATCHDOGS, qos_of
from gpuyard.fabric.lossless.watchdog import Watchdog
from gpuyard.topology import Role, Topology
from gpuyard.units import BITS_PER_S, BYTES, show

__all__ = ["Buffers", "Lossless", "Transport", "lossless_for"]

Transport = Literal["roce", "infiniband", "lossy"]
Ports = tuple[tuple[float, float, int], ...]  # speed, cable and count
LINUX: SwitchOs = "frr"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffers:
    """The memory of the fullest switch of a role."""

    role: Role
    plan: BufferPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossless:
    """How a fabric keeps RDMA traffic from being dropped."""

    transport: Annotated[Transport, Doc("lossy: no class is paused; infiniband: credits, nothing to set here")]
    qos: Qos
    watchdog: Watchdog
    nic: Nic
    balancing: Balancer
    buffers: Annotated[tuple[Buffers, ...], Doc("one for each role; empty without PFC")] = ()
    notes: Annotated[tuple[str, ...], Doc("what is not known or not covered")] = ()

    @property
    def pfc(self) -> Pfc:
        """The priorities that may be paused, and where."""
        return self.qos.pfc

    def headroom(self, role: Role, speed_bits_per_s: float, cable_m: float) -> PortHeadroom | None:
        """Headroom of a port of a role; None where none is published or nothing is paused."""
        for buffers in self.buffers:
            if buffers.role == role:
                for group in buffers.plan.groups:
                    if (group.speed_bits_per_s, group.cable_m) == (speed_bits_per_s, cable_m):
                        return group.headroom
        return None


def lossless_for(demand: Demand, topology: Topology, catalog: Catalog) -> Lossless | Infeasible:
    """The lossless class of a fabric; Infeasible if a cable is longer than the buffers can cover."""
    os = demand.os or LINUX
    qos = qos_of(os, demand.leaf or "")
    transport: Transport = "roce"
    if demand.technology == "infiniband":
        transport = "infiniband"
    elif demand.purpose == "frontend":
        transport = "lossy"
    if transport != "roce":
        qos = replace(qos, pfc=Pfc(priorities=()))
    mode = demand.balancing if os in option(demand.balancing).os or transport == "infiniband" else "ecmp"
    notes = [] if mode == demand.balancing else [
        f"{option(demand.balancing).label} is not a feature of {os}: paths are chosen by hash"
    ]  # fmt: skip
    if demand.subflows:
        notes.append("sub-flows: their prefixes are planned; colours of BGP and the binding to paths are not written")
    buffers: list[Buffers] = []
    for role, switch, mixes in _switches(demand, topology, catalog) if transport == "roce" else ():
        asic = catalog.asic(switch.asic) if switch.asic else None
        plan = _fullest(role, switch, asic, mixes, qos_of(os, switch.name), demand.fabric_mtu_bytes)
        if isinstance(plan, Infeasible):
            return plan
        buffers.append(Buffers(role=role, plan=plan))
        notes += _notes(role, switch, plan)
    return Lossless(
        transport=transport, qos=qos, watchdog=WATCHDOGS[os], nic=nic_for(qos),
        balancing=balancer_for(mode, os), buffers=tuple(buffers), notes=tuple(notes),
    )  # fmt: skip


def _switches(demand: Demand, topology: Topology, catalog: Catalog) -> Iterator[tuple[Role, Switch, set[Ports]]]:
    """Each switch role with its model and the distinct mixes of ports found in it."""
    models = {"leaf": demand.leaf, "spine": demand.spine, "core": demand.core}
    lengths = {"leaf": demand.cables.server_m, "spine": demand.cables.spine_m, "core": demand.cables.core_m}
    roles: dict[str, Role] = {node.name: node.role for node in topology.nodes if node.role != "server"}
    tiers = {node.name: node.tier for node in topology.nodes}
    counts: dict[str, Counter[tuple[float, float]]] = {name: Counter() for name in roles}
    above = {1: lengths["leaf"], 2: lengths["spine"], 3: lengths["core"]}  # by the higher end
    for link in topology.links:
        cable_m = link.cable_m
        if cable_m is None:
            cable_m = above[max(tiers[link.a.node], tiers[link.b.node], 1)]
        for end in (link.a.node, link.b.node):
            if end in counts:
                counts[end][link.speed_bits_per_s, cable_m] += 1
    mixes: dict[Role, set[Ports]] = {}
    for name, ports in counts.items():
        mix = tuple(sorted((speed, cable_m, count) for (speed, cable_m), count in ports.items()))
        if mix:
            mixes.setdefault(roles[name], set()).add(mix)
    for role, found in mixes.items():
        model = models[role]
        if model is not None:
            yield role, catalog.switch(model), found


def _fullest(
    role: Role, switch: Switch, asic: Asic | None, mixes: set[Ports], qos: Qos, mtu_bytes: int
) -> BufferPlan | Infeasible:
    """The plan of the mix that needs most; Infeasible with the longest cable if it does not fit."""
    plans: list[BufferPlan] = []
    for ports in sorted(mixes):
        try:
            plan = buffer_plan(switch, asic, ports, qos.partition, mtu_bytes)
        except InputError as error:
            return _too_long(role, switch, asic, ports, qos, mtu_bytes, error.problems[0].what)
        if not plan.works(qos.ecn):
            need, room = show(plan.need_bytes or 0, BYTES), show(plan.room_bytes or 0, BYTES)
            late = ", and what is left is full before ECN marks" if plan.fits else ""
            said = f"headroom of {need} against room for {room}{late}"
            return _too_long(role, switch, asic, ports, qos, mtu_bytes, said)
        plans.append(plan)
    return max(plans, key=lambda plan: (plan.need_bytes or 0, sum(group.port_count for group in plan.groups)))


def _too_long(
    role: Role, switch: Switch, asic: Asic | None, ports: Ports, qos: Qos, mtu_bytes: int, said: str
) -> Infeasible:
    """The refusal, with the longest cable that would do."""
    longest = max(cable_m for _, cable_m, _ in ports)
    limit = longest_cable_m(switch, asic, ports, qos, mtu_bytes) if asic else 0
    fix = (
        f"use cables of {limit} m or less there" if limit else "use fewer or slower ports, or a switch with more buffer"
    )
    return Infeasible(
        binding="cable",
        what=f"{longest:g} m is more than the buffer of {switch.label} ({role}) can cover: {said}",
        fix=fix,
    )


def _notes(role: Role, switch: Switch, plan: BufferPlan) -> Iterator[str]:
    """What a plan does not cover."""
    if plan.need_bytes is None:
        speeds = {show(group.speed_bits_per_s, BITS_PER_S) for group in plan.groups if group.headroom is None}
        at = one_of(sorted(speeds))
        yield f"{switch.label} ({role}): no headroom is published at {at}; the vendor's default applies"
    elif plan.buffer_bytes is None:
        need = show(plan.need_bytes, BYTES)
        yield f"{switch.label} ({role}): its memory is not published; whether {need} of headroom fit is not checked"
    ratio, count = plan.sharing_ratio, sum(group.port_count for group in plan.groups)
    if ratio is not None and ratio > 1:
        yield (
            f"{switch.label} ({role}): the headroom pool of {show(plan.room_bytes or 0, BYTES)} covers "
            f"{plan.covered_count} of {count} ports paused at once; all would need {show(plan.need_bytes or 0, BYTES)}"
        )
