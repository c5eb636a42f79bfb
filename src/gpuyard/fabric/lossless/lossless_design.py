"""Design of the lossless class: QoS profile, buffers, NIC settings and load balancing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.switches import Asic, Switch
from gpuyard.errors import Infeasible, InputError, choices_text
from gpuyard.fabric.demand import LOSSLESS, Balancing, Demand
from gpuyard.fabric.lossless.balancing import (
    ADAPTIVE,
    LoadBalancing,
    balancing_mode,
    exceeded_limits,
)
from gpuyard.fabric.lossless.buffers import BufferPlan, buffer_plan, longest_cable_m
from gpuyard.fabric.lossless.headroom import is_published
from gpuyard.fabric.lossless.lossless import Buffers, Lossless, Transport
from gpuyard.fabric.lossless.nic import nic_for
from gpuyard.fabric.lossless.qos import PfcConfig, QosProfile
from gpuyard.fabric.render.frr.frr import FRR
from gpuyard.fabric.render.switch_os import SwitchOS
from gpuyard.fabric.render.switch_os_list import switch_os
from gpuyard.topology.nodes import Role
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, BYTES, show

# Packet-wise adaptive routing avoids collisions best and NICs for it reorder; then flowlets.
PREFERRED: tuple[Balancing, ...] = ("adaptive", "flowlet", "ecmp")
Ports = tuple[tuple[float, float, int], ...]  # speed, cable length and count


def lossless_for(demand: Demand, topology: Topology, catalog: Catalog) -> Lossless | Infeasible:
    """Design the lossless class; infeasible if a cable is longer than the buffers can cover."""
    os = switch_os(demand.os) if demand.os else FRR  # InfiniBand has no OS and applies no profile
    transport = _transport(demand)
    qos = os.qos(demand.leaf or "")
    if transport != "roce":
        qos = replace(qos, pfc=PfcConfig(priorities=()))
    balancing = _balancing(demand, os, topology)
    if isinstance(balancing, Infeasible):
        return balancing
    notes: list[str] = []
    if demand.subflows:
        notes.append(
            "sub-flows: prefixes are assigned, but BGP colours and path bindings are not rendered"
        )
    buffers: list[Buffers] = []
    for role, switch, mixes in _switches(demand, topology, catalog) if transport == "roce" else ():
        plan = _largest_plan(role, switch, mixes, os.qos(switch.name), demand, catalog)
        if isinstance(plan, Infeasible):
            return plan
        buffers.append(Buffers(role=role, plan=plan))
        notes += _notes(role, switch, plan)
    return Lossless(
        transport=transport,
        qos=qos,
        watchdog=os.watchdog,
        nic=nic_for(qos),
        balancing=balancing,
        buffers=tuple(buffers),
        notes=tuple(notes),
    )


def _transport(demand: Demand) -> Transport:
    if demand.technology == "infiniband":
        return "infiniband"
    return "roce" if demand.purpose in LOSSLESS else "lossy"


def _balancing(demand: Demand, os: SwitchOS, topology: Topology) -> LoadBalancing | Infeasible:
    """The requested mode, or the first of PREFERRED that works here."""
    if demand.technology == "infiniband":
        adaptive = demand.balancing in (None, "adaptive")
        return ADAPTIVE if adaptive else LoadBalancing(mode=demand.balancing or "ecmp")
    modes = working_modes(os, topology, overlay=demand.has_overlay)
    if demand.balancing is None:
        preferred = ("ecmp",) if demand.purpose == "management" else PREFERRED
        return next(mode for name in preferred for mode in modes if mode.mode == name)
    chosen = next((mode for mode in modes if mode.mode == demand.balancing), None)
    if chosen is not None:
        return chosen
    label = balancing_mode(demand.balancing).label
    reasons = exceeded_limits(demand.balancing, topology, overlay=demand.has_overlay)
    if os.balancing_for(demand.balancing) is None:
        reasons = (f"{os.name} does not support {label}",)
    return Infeasible(
        binding="balancing",
        what="; ".join(reasons),
        fix=f"use {choices_text([mode.mode for mode in modes])}"
        + (", or uplinks of at most 400Gbps" if "links above" in reasons[0] else ""),
    )


def working_modes(os: SwitchOS, topology: Topology, *, overlay: bool) -> tuple[LoadBalancing, ...]:
    """Return the modes of an OS whose limits this cabling meets; plain ECMP always works."""
    return tuple(
        mode for mode in os.balancing if not exceeded_limits(mode.mode, topology, overlay=overlay)
    )


def _switches(
    demand: Demand, topology: Topology, catalog: Catalog
) -> Iterator[tuple[Role, Switch, set[Ports]]]:
    # Each switch role with its model and the distinct port mixes of its switches.
    models = {"leaf": demand.leaf, "spine": demand.spine, "core": demand.core}
    cables = demand.cables
    planned_m = {1: cables.server_m, 2: cables.spine_m, 3: cables.core_m}  # by tier of upper end
    tiers = {node.name: node.tier for node in topology.nodes}
    counts: dict[str, Counter[tuple[float, float]]] = {
        node.name: Counter() for node in topology.nodes if node.role != "server"
    }
    for link in topology.links:
        cable_m = link.cable_m
        if cable_m is None:
            cable_m = planned_m[max(tiers[link.a.node], tiers[link.b.node], 1)]
        for end in (link.a.node, link.b.node):
            if end in counts:
                counts[end][link.speed_bits_per_s, cable_m] += 1
    mixes: dict[Role, set[Ports]] = {}
    for node in topology.nodes:
        ports = counts.get(node.name)
        if ports:
            mix = tuple(sorted((speed, cable_m, n) for (speed, cable_m), n in ports.items()))
            mixes.setdefault(node.role, set()).add(mix)
    for role, role_mixes in mixes.items():
        model = models[role]
        if model is not None:
            yield role, catalog.switch(model), role_mixes


def _largest_plan(
    role: Role,
    switch: Switch,
    mixes: set[Ports],
    qos: QosProfile,
    demand: Demand,
    catalog: Catalog,
) -> BufferPlan | Infeasible:
    asic = catalog.asic(switch.asic) if switch.asic else None
    plans: list[BufferPlan] = []
    for ports in sorted(mixes):
        if (missing := _unpublished(role, switch, asic, ports)) is not None:
            return missing
        try:
            plan = buffer_plan(switch, asic, ports, qos.partition, demand.fabric_mtu_bytes)
        except InputError as error:
            reason = error.problems[0].what
        else:
            plans.append(plan)
            if plan.works(qos.ecn):
                continue
            need, room = show(plan.need_bytes or 0, BYTES), show(plan.room_bytes or 0, BYTES)
            late = ", and PFC pauses before ECN marks" if plan.fits else ""
            reason = f"{need} of headroom needed, {room} available{late}"
        limit_m = 0
        if asic:
            limit_m = longest_cable_m(switch, asic, ports, qos, demand.fabric_mtu_bytes)
        return _too_long(role, switch, max(cable_m for _, cable_m, _ in ports), limit_m, reason)
    return max(
        plans,
        key=lambda plan: (plan.need_bytes or 0, sum(group.port_count for group in plan.groups)),
    )


def _unpublished(role: Role, switch: Switch, asic: Asic | None, ports: Ports) -> Infeasible | None:
    """A speed that the published headroom table of a switch lacks; None without a table."""
    rows = switch.headroom_lookup or (asic.headroom_lookup if asic else ())
    for speed, _, _ in ports if asic is not None else ():
        if rows and asic is not None and not is_published(switch, asic, speed):
            known = sorted({row.speed_bits_per_s for row in rows})
            return Infeasible(
                binding="headroom",
                what=f"no PFC headroom is published for {switch.label} ({role}) at"
                f" {show(speed, BITS_PER_S)}: it cannot be made lossless there",
                fix=f"use {choices_text([show(value, BITS_PER_S) for value in known])} for NICs and"
                " uplinks, or another switch",
            )
    return None


def _too_long(
    role: Role, switch: Switch, longest_m: float, limit_m: int, reason: str
) -> Infeasible:
    fix = "use fewer or slower ports, or a switch with a larger buffer"
    if limit_m:
        fix = f"use cables of at most {limit_m} m there"
    return Infeasible(
        binding="cable",
        what=f"cables of {longest_m:g} m exceed the buffer of {switch.label} ({role}): {reason}",
        fix=fix,
    )


def _notes(role: Role, switch: Switch, plan: BufferPlan) -> Iterator[str]:
    if plan.need_bytes is None:
        speeds = {
            show(group.speed_bits_per_s, BITS_PER_S)
            for group in plan.groups
            if group.headroom is None
        }
        at = choices_text(sorted(speeds))
        yield (
            f"{switch.label} ({role}): no headroom is published at {at};"
            " the vendor's default applies"
        )
    elif plan.buffer_bytes is None:
        yield (
            f"{switch.label} ({role}): its buffer size is not published, so whether"
            f" {show(plan.need_bytes, BYTES)} of headroom fit is not checked"
        )
    ratio, count = plan.sharing_ratio, sum(group.port_count for group in plan.groups)
    if ratio is not None and ratio > 1:
        yield (
            f"{switch.label} ({role}): the headroom pool of {show(plan.room_bytes or 0, BYTES)}"
            f" covers {plan.covered_count} of {count} ports paused at once;"
            f" all would need {show(plan.need_bytes or 0, BYTES)}"
        )
