"""Fabrics for the tests of verification, and functions that break them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from gpuyard.catalog.load import Catalog, load_catalog
from gpuyard.fabric.demand import Demand
from gpuyard.fabric.design import design
from gpuyard.fabric.fabric import Device, Fabric
from gpuyard.fabric.lossless.lossless import Lossless
from gpuyard.fabric.verify.finding import Verification
from gpuyard.fabric.verify.verify import verify, verify_topology
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology


@functools.cache
def catalog() -> Catalog:
    """The catalog, read once."""
    return load_catalog()


@functools.cache
def fabric(**demand: object) -> Fabric:
    """A designed fabric; two servers on Juniper switches by default."""
    usual = {"server_count": 2, "nic_bits_per_s": 400e9, "leaf": "qfx5240-64od"}
    wanted = usual | {"shape": "two-tier"} | demand
    designed = design(Demand(**wanted), catalog())  # type: ignore[arg-type]
    assert isinstance(designed, Fabric)
    return designed


def clos(
    *,
    stripes: int = 2,
    servers: int = 4,
    rails: int = 4,
    spines: int = 4,
    parallel: int = 1,
    down_bits_per_s: float = 400e9,
    up_bits_per_s: float = 400e9,
) -> Topology:
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
                cable(name, f"gpu{rail}_eth", leaf, f"d{place}", down_bits_per_s)
                for place, name in enumerate(names)
            ]
            links += [
                cable(
                    leaf, f"u{spine}.{lane}", f"spine-{spine + 1}", f"{leaf}.{lane}", up_bits_per_s
                )
                for spine in range(spines)
                for lane in range(parallel)
            ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


def cable(a: str, a_port: str, b: str, b_port: str, speed_bits_per_s: float = 400e9) -> Link:
    """A link between two ports."""
    return Link(
        a=End(node=a, port=a_port),
        b=End(node=b, port=b_port),
        speed_bits_per_s=speed_bits_per_s,
        cable_m=5.0,
    )


def swapped(topology: Topology, one: Link, other: Link) -> Topology:
    """Swap the upper ends of two cables; leaves sort before servers, so they are end `a`."""
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
    return replace(
        whole,
        devices=tuple(
            change(device) if device.name == name else device for device in whole.devices
        ),
    )


def verified(
    subject: Fabric | Topology, built: Topology | None = None, name: str = ""
) -> Verification:
    """Verify a fabric or cabling."""
    if isinstance(subject, Topology):
        return verify_topology(subject)
    return verify(subject, catalog(), built=built, name=name)


def violations(verification: Verification, rule: str) -> list[str]:
    """Return the errors and warnings of a rule."""
    return [
        f"{finding.severity}: {finding.where}: {finding.what}"
        for finding in verification.findings
        if finding.rule == rule and finding.severity != "note"
    ]
