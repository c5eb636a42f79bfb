"""Fabric design: from requirements to switches, cabling, addresses, lossless class and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.address_plan import address_plan
from gpuyard.fabric.addressing import devices
from gpuyard.fabric.clos_fit import ClosFit, fit
from gpuyard.fabric.demand import Demand, Shape
from gpuyard.fabric.demand_checks import demand_problems
from gpuyard.fabric.fabric import Device, Fabric, RejectedChoice
from gpuyard.fabric.lossless.lossless_design import lossless_for
from gpuyard.fabric.names import Names, names_for
from gpuyard.fabric.ports import port_names, uplink_port_names
from gpuyard.fabric.reasons import limits, reasons
from gpuyard.fabric.routing import routing_for
from gpuyard.fabric.switch_choice import choose
from gpuyard.fabric.tenants import vrfs
from gpuyard.fabric.wiring import Cable, cables
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology

SHAPES: dict[int, Shape] = {2: "two-tier", 3: "three-tier"}


def design(demand: Demand, catalog: Catalog) -> Fabric | Infeasible:
    """Design a fabric; infeasible with a working alternative, InputError for a wrong demand."""
    if problems := demand_problems(demand, catalog):
        raise InputError(problems)
    if named := demand.leaf or demand.spine:
        demand = replace(demand, technology=catalog.switch(named).technology)
    fabric = _best(demand, catalog)
    if isinstance(fabric, Infeasible) and (alternative := _alternative(demand, catalog)):
        return replace(fabric, fix=f"{fabric.fix}; {alternative}")
    return fabric


def _best(demand: Demand, catalog: Catalog) -> Fabric | Infeasible:
    # The best choice of switches whose buffers cover the cables.
    choice = choose(demand, catalog)
    if isinstance(choice, Infeasible):
        return choice
    too_small: list[RejectedChoice] = []
    first: Infeasible | None = None
    for parts in choice.ranked:
        built = _build(demand, parts, catalog)
        if isinstance(built, Fabric):
            names = {rejected.name for rejected in too_small}
            rejected = [other for other in choice.rejected(parts) if other.name not in names]
            return replace(built, rejected=(*too_small, *rejected))
        too_small.append(RejectedChoice(name=parts.leaf.name, why=built.what))
        first = first or built
    assert first is not None  # a choice has at least one candidate
    return first


def _alternative(demand: Demand, catalog: Catalog) -> str:
    # A design that works without the named switches and shape; empty if there is none.
    relaxed = replace(
        demand,
        leaf=None,
        spine=None,
        core=None,
        shape="auto",
        spine_count=None,
        links_per_pair=None,
        servers_per_stripe=None,
    )
    for attempt in dict.fromkeys((relaxed, replace(relaxed, os=None))):
        fabric = _best(attempt, catalog) if attempt != demand else None
        if isinstance(fabric, Fabric):
            size, chosen = fabric.size, fabric.demand
            counts = (
                (size.leaves, chosen.leaf),
                (size.spines, chosen.spine),
                (size.cores, chosen.core),
            )
            return "this works: " + " + ".join(
                f"{count} {catalog.switch(name).label}" for count, name in counts if name
            )
    return ""


def _build(demand: Demand, parts: ClosFit, catalog: Catalog) -> Fabric | Infeasible:
    complete, clos = _complete(demand, parts), parts.clos
    all_devices, topology = _wired(complete, parts)
    lossless = lossless_for(complete, _grown(complete, parts, topology), catalog)
    if isinstance(lossless, Infeasible):
        return lossless
    return Fabric(
        demand=complete,
        size=parts.size,
        topology=topology,
        devices=all_devices,
        routing=routing_for(complete, max(clos.leaf.uplinks, clos.uplinks_per_spine, 1)),
        vrfs=vrfs(complete),
        lossless=lossless,
        reasons=reasons(replace(demand, uplink_bits_per_s=parts.link_bits_per_s), parts, catalog),
        limits=limits(complete, parts),
    )


def _wired(demand: Demand, parts: ClosFit) -> tuple[tuple[Device, ...], Topology]:
    names, plan = names_for(demand, parts.clos), address_plan(demand, parts.clos)
    cabling = cables(demand, parts, names)
    all_devices = devices(demand, parts, names, plan, cabling)
    return all_devices, _topology(demand, parts, names, all_devices, cabling)


def _grown(demand: Demand, parts: ClosFit, topology: Topology) -> Topology:
    # Buffers are partitioned for the fabric after growth, because repartitioning stops traffic.
    if demand.final_count == demand.server_count:
        return topology
    final = replace(demand, server_count=demand.final_count)
    grown = fit(final, parts.leaf, parts.spine or parts.leaf, parts.core)
    assert isinstance(grown, ClosFit)  # the same layout, filled
    return _wired(final, grown)[1]


def _complete(demand: Demand, parts: ClosFit) -> Demand:
    return replace(
        demand,
        leaf=parts.leaf.name,
        spine=parts.spine.name if parts.spine else None,
        core=parts.core.name if parts.core else None,
        os=parts.os,
        uplink_bits_per_s=parts.link_bits_per_s if parts.clos.spines else demand.uplink_bits_per_s,
        shape="single-leaf"
        if parts.clos.single_leaf
        else SHAPES.get(parts.size.tiers, demand.shape),
    )


def _topology(
    demand: Demand,
    parts: ClosFit,
    names: Names,
    all_devices: Sequence[Device],
    cabling: tuple[list[Cable], list[Cable], list[Cable]],
) -> Topology:
    ports = tuple(
        Port(name=names.nic(rail, plane), rail=rail, plane=plane if demand.planes > 1 else None)
        for rail in range(demand.rails)
        for plane in range(demand.planes)
    )
    nic_ports = tuple(sorted(ports, key=lambda port: port.name))
    # Servers share one tuple of ports, and racks one tuple of attributes, to save memory.
    racks = {device.rack: (("rack", device.rack),) for device in all_devices}
    groups = _leaf_ports(parts)
    declared = {
        names.leaf(stripe, group, plane): ports
        for group, ports in enumerate(groups)
        for stripe in range(parts.clos.stripes)
        for plane in range(demand.planes)
    }
    nodes = tuple(
        Node(
            name=device.name,
            role=device.role,
            stripe=device.stripe,
            rail=device.rail,
            plane=device.plane,
            model=device.model,
            ports=nic_ports if device.role == "server" else declared.get(device.name, ()),
            attributes=racks[device.rack],
        )
        for device in all_devices
    )
    return Topology(nodes=nodes, links=tuple(cable.link for tier in cabling for cable in tier))


def _leaf_ports(parts: ClosFit) -> list[tuple[Port, ...]]:
    """The ports of the leaves of a stripe with their rails; a leaf of one rail declares none."""
    clos, leaf, lanes = parts.clos, parts.leaf, parts.clos.leaf.rails
    if lanes == 1 or clos.single_leaf:
        return []
    up = uplink_port_names(leaf, parts.os, parts.up_ways, parts.up_ports)
    last = leaf.port_count - (0 if leaf.uplink_port_count else parts.up_ports)
    down = port_names(leaf, parts.os, parts.down_ways)[: last * parts.down_ways]
    return [
        tuple(
            sorted(
                (
                    *(Port(name=name) for name in up),
                    *(
                        Port(
                            name=name,
                            rail=group * lanes + place % lanes
                            if place < clos.leaf.servers * lanes
                            else None,
                        )
                        for place, name in enumerate(down)
                    ),
                ),
                key=lambda port: port.name,
            )
        )
        for group in range(clos.leaves_per_stripe)
    ]
