"""Compares as-built cabling with the design: wrong rails, missing links, wrong ports, and fixes."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.errors import Finding
from gpuyard.fabric.imports.built import AsBuilt
from gpuyard.fabric.verify.finding import error, merged, warning
from gpuyard.topology.diff import Miswiring, diff
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology


def compare(design: Topology, built: AsBuilt) -> tuple[Finding, ...]:
    """Return what to fix; empty if it was built as designed and all reports agree."""
    return merged([*_differences(design, built.topology), *built.conflicts])


def _differences(design: Topology, built: Topology) -> Iterator[Finding]:
    change = diff(design, built)
    nodes = {node.name: node for node in (*built.nodes, *design.nodes)}
    gone = {node.name for node in change.missing_nodes}
    strange = {node.name for node in change.extra_nodes}
    for miswiring in change.miswired:
        yield _miswired(miswiring, nodes)
    for node in change.missing_nodes:
        cables = sum(node.name in (link.a.node, link.b.node) for link in change.missing_links)
        yield error(
            "missing-device",
            where=node.name,
            what=f"{node.role} not observed, with {cables} cables",
            fix="connect it, or collect its LLDP neighbours",
        )
    for node in change.extra_nodes:
        yield error(
            "extra-device",
            where=node.name,
            what=f"{node.role} that is not in the design",
            fix="remove it, or correct its name",
        )
    for link in change.missing_links:
        if link.a.node not in gone and link.b.node not in gone:
            yield error(
                "missing-link",
                where=str(link),
                what="is missing",
                fix="connect the cable; if it is connected, check the optics",
            )
    for link in change.extra_links:
        if link.a.node not in strange and link.b.node not in strange:
            yield error(
                "extra-link",
                where=str(link),
                what="is not in the design",
                fix="remove it, or add it to the design",
            )
    for changed in change.changed_links:
        what = str(changed).partition(": ")[2]
        where = str(changed.design)
        if changed.design.speed_bits_per_s != changed.built.speed_bits_per_s:
            yield error("link-speed", where, what, "set both ends to the designed speed")
        else:
            yield warning("cable-length", where, what, "verify headroom with the real lengths")


def _miswired(change: Miswiring, nodes: dict[str, Node]) -> Finding:
    swapped = f", swapped with {change.swapped_with}" if change.swapped_with else ""
    what = f"goes to {change.actual} instead of {change.expected}{swapped}"
    expected, actual = nodes[change.expected.node], nodes[change.actual.node]
    if expected.name == actual.name:
        return warning(
            "port",
            where=str(change.at),
            what=what,
            fix=f"move the cable to port {change.expected.port}, to cable every leaf alike",
        )
    fix = f"move the far end of the cable at {change.at} to {change.expected}"
    rails = expected.rail_of(change.expected.port), actual.rail_of(change.actual.port)
    same_rail = rails[0] == rails[1] and expected.plane == actual.plane
    if nodes[change.at.node].role != "server" or same_rail:
        return error("miswired", where=str(change.at), what=what, fix=fix)
    if rails[0] != rails[1]:
        mixed = f"rail {_number(rails[0])} is wired to rail {_number(rails[1])}"
    else:
        mixed = f"plane {_number(expected.plane)} is wired to plane {_number(actual.plane)}"
    return error("rail", where=str(change.at), what=f"{what}: {mixed}", fix=fix)


def _number(index: int | None) -> str:
    return "none" if index is None else str(index + 1)
