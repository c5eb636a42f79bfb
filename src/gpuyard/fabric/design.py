"""From a demand to a fabric: switches chosen, cables laid, numbers given, lossless class set, reasons told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.catalog import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.fabric.addressing import devices
from gpuyard.fabric.check import demand_problems
from gpuyard.fabric.choice import choose
from gpuyard.fabric.demand import Demand, Shape
from gpuyard.fabric.fabric import Device, Fabric, Rejected
from gpuyard.fabric.fit import Parts, fit
from gpuyard.fabric.lossless import lossless_for
from gpuyard.fabric.names import Names, names_for
from gpuyard.fabric.numbers import numbers_for
from gpuyard.fabric.reasons import limits, reasons
from gpuyard.fabric.routing import routing_for
from gpuyard.fabric.tenants import vrfs
from gpuyard.fabric.wiring import Cable, cables
from gpuyard.topology import Node, Port, Topology

__all__ = ["design"]

SHAPES: dict[int, Shape] = {2: "two-tier", 3: "three-tier"}


def design(demand: Demand, catalog: Catalog) -> Fabric | Infeasible:
    """The fabric for a demand; InputError if the demand is wrong, Infeasible with what works if it cannot be."""
    if problems := demand_problems(demand, catalog):
        raise InputError(problems)
    if named := demand.leaf or demand.spine:
        demand = replace(demand, technology=catalog.switch(named).technology)
    found = _first(demand, catalog)
    if isinstance(found, Infeasible) and (near := _nearest(demand, catalog)):
        return replace(found, fix=f"{found.fix}; {near}")
    return found


def _first(demand: Demand, catalog: Catalog) -> Fabric | Infeasible:
    """The best choice whose packet memory covers the cables."""
    choice = choose(demand, catalog)
    if isinstance(choice, Infeasible):
        return choice
    refused: list[Rejected] = []
    first: Infeasible | None = None
    for parts in choice.ranked:
        built = _build(demand, parts, catalog)
        if isinstance(built, Fabric):
            passed = {rejected.name for rejected in refused}
            rejected = [other for other in choice.rejected(parts) if other.name not in passed]
            return replace(built, rejected=(*refused, *rejected))
        refused.append(Rejected(name=parts.leaf.name, why=built.what))
        first = first or built
    assert first is not None  # a choice holds at least one design
    return first


def _nearest(demand: Demand, catalog: Catalog) -> str:
    """The design that works after letting go of names and shape; empty if none does."""
    freed = replace(
        demand, leaf=None, spine=None, core=None, shape="auto", spine_count=None, links_per_pair=None,
        servers_per_stripe=None,
    )  # fmt: skip
    for attempt in dict.fromkeys((freed, replace(freed, os=None))):
        found = _first(attempt, catalog) if attempt != demand else None
        if isinstance(found, Fabric):
            size, chosen = found.size, found.demand
            counts = ((size.leaves, chosen.leaf), (size.spines, chosen.spine), (size.cores, chosen.core))
            return "this works: " + " + ".join(
                f"{count} {catalog.switch(name).label}" for count, name in counts if name
            )
    return ""


def _build(demand: Demand, parts: Parts, catalog: Catalog) -> Fabric | Infeasible:
    """The fabric of chosen parts; Infeasible if their packet memory does not cover the cables."""
    complete, clos = _complete(demand, parts), parts.clos
    made, topology = _wired(complete, parts)
    lossless = lossless_for(complete, _grown(complete, parts, topology), catalog)
    if isinstance(lossless, Infeasible):
        return lossless
    return Fabric(
        demand=complete,
        size=parts.size,
        topology=topology,
        devices=made,
        routing=routing_for(complete, max(clos.leaf.uplinks, clos.uplinks_per_spine, 1)),
        vrfs=vrfs(complete),
        lossless=lossless,
        reasons=reasons(demand, parts, catalog),
        limits=limits(complete, parts),
    )


def _wired(demand: Demand, parts: Parts) -> tuple[tuple[Device, ...], Topology]:
    """The devices and what joins them."""
    names, numbers = names_for(demand, parts.clos), numbers_for(demand, parts.clos)
    cabling = cables(demand, parts, names)
    made = devices(demand, parts, names, numbers, cabling)
    return made, _topology(demand, names, made, cabling)


def _grown(demand: Demand, parts: Parts, topology: Topology) -> Topology:
    """What will be wired in the end: buffers are divided for it, for to divide them anew stops all traffic."""
    if demand.final_count == demand.server_count:
        return topology
    whole = replace(demand, server_count=demand.final_count)
    grown = fit(whole, parts.leaf, parts.spine or parts.leaf, parts.core)
    assert isinstance(grown, Parts)  # the same layout, filled
    return _wired(whole, grown)[1]


def _complete(demand: Demand, parts: Parts) -> Demand:
    """The demand with what was chosen."""
    return replace(
        demand,
        leaf=parts.leaf.name,
        spine=parts.spine.name if parts.spine else None,
        core=parts.core.name if parts.core else None,
        os=parts.os,
        shape=SHAPES.get(parts.size.tiers, demand.shape),
    )


def _topology(
    demand: Demand, names: Names, made: Sequence[Device], cabling: tuple[list[Cable], list[Cable], list[Cable]]
) -> Topology:
    """What is wired; every server shares one tuple of ports, and every rack one tuple of attributes."""
    ports = tuple(
        Port(name=names.nic(rail, plane), rail=rail, plane=plane if demand.planes > 1 else None)
        for rail in range(demand.rails)
        for plane in range(demand.planes)
    )
    nic_ports = tuple(sorted(ports, key=lambda port: port.name))
    racks = {device.rack: (("rack", device.rack),) for device in made}
    nodes = tuple(
        Node(
            name=device.name, role=device.role, stripe=device.stripe, rail=device.rail, plane=device.plane,
            model=device.model, ports=nic_ports if device.role == "server" else (), attributes=racks[device.rack],
        )
        for device in made
    )  # fmt: skip
    return Topology(nodes=nodes, links=tuple(cable.link for tier in cabling for cable in tier))
