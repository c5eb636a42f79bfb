"""Fabrics for the tests of verification, and ways to break them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from gpuyard.catalog import Catalog, load_catalog
from gpuyard.fabric import Demand, Device, Fabric, design
from gpuyard.fabric.lossless import Lossless
from gpuyard.fabric.verify import Verification, verify, verify_topology
from gpuyard.topology import End, Link, Node, Port, Topology


@functools.cache
def catalog() -> Catalog:
    """The catalog, read once."""
    return load_catalog()


@functools.cache
def fabric(**demand: object) -> Fabric:
    """A designed fabric; two servers on Juniper switches unless told otherwise."""
    wanted = {"server_count": 2, "nic_bits_per_s": 400e9, "leaf": "qfx5240-64od"} | demand
    found = design(Demand(**wanted), catalog())  # type: ignore[arg-type]
    assert isinstance(found, Fabric)
    return found


def clos(
    *, stripes: int = 2, servers: int = 4, rails: int = 4, spines: int = 4, parallel: int = 1,
    down_bits_per_s: float = 400e9, up_bits_per_s: float = 400e9,
) -> Topology:  # fmt: skip
    """Rail-optimised stripes under one row of spines."""
    nics = tuple(Port(name=f"gpu{rail}_eth", rail=rail) for rail in range(rails))
    nodes = [Node(name=f"spine-{spine + 1}", role="spine") for spine in range(spines)]
    links: list[Link] = []
    for stripe in range(stripes):
        names = [f"server-{stripe * servers + place + 1}" for place in range(servers)]
        nodes += [Node(name=name, role="server", stripe=stripe, ports=nics) for name in names]
        for rail in range(rails):
            leaf = f"leaf-s{stripe + 1}-r{rail + 1}"
            nodes.append(Node(name=leaf, role="leaf", stripe=stripe, rail=rail))
            links += [
                cable(name, f"gpu{rail}_eth", leaf, f"d{place}", down_bits_per_s) for place, name in enumerate(names)
            ]
            links += [
                cable(leaf, f"u{spine}.{lane}", f"spine-{spine + 1}", f"{leaf}.{lane}", up_bits_per_s)
                for spine in range(spines)
                for lane in range(parallel)
            ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


def cable(a: str, a_port: str, b: str, b_port: str, speed_bits_per_s: float = 400e9) -> Link:
    """A link between two ports."""
    return Link(a=End(node=a, port=a_port), b=End(node=b, port=b_port), speed_bits_per_s=speed_bits_per_s, cable_m=5.0)


def swapped(topology: Topology, one: Link, other: Link) -> Topology:
    """The topology with the upper ends of two cables exchanged; the names of leaves sort before those of servers."""
    mixed = (
        replace(one, a=other.a, b=one.b),
        replace(other, a=one.a, b=other.b),
    )
    return replace(topology, links=(*topology.without(links=(one, other)).links, *mixed))


def with_lossless(whole: Fabric, **changes: object) -> Fabric:
    """The fabric with parts of its lossless class replaced."""
    lossless: Lossless = replace(whole.lossless, **changes)  # type: ignore[arg-type]
    return replace(whole, lossless=lossless)


def with_device(whole: Fabric, name: str, change: Callable[[Device], Device]) -> Fabric:
    """The fabric with one device changed."""
    return replace(whole, devices=tuple(change(device) if device.name == name else device for device in whole.devices))


def proven(subject: Fabric | Topology, built: Topology | None = None, name: str = "") -> Verification:
    """Everything that verification finds."""
    if isinstance(subject, Topology):
        return verify_topology(subject)
    return verify(subject, catalog(), built=built, name=name)


def found(verification: Verification, check: str) -> list[str]:
    """What a check found that is more than a note."""
    return [
        f"{finding.severity}: {finding.where}: {finding.what}"
        for finding in verification.findings
        if finding.check == check and finding.severity != "note"
    ]
