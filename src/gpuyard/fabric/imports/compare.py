"""The cabling as built against the design: wrong rails, missing links, ports out of place, and how to mend each."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyard.fabric.imports.built import AsBuilt
from gpuyard.fabric.verify.finding import Finding, error, together, warning
from gpuyard.topology import End, Miswiring, Node, Topology, diff

__all__ = ["compare"]


def compare(design: Topology, built: AsBuilt) -> tuple[Finding, ...]:
    """What must be mended; empty if it was built as designed and all reports agree."""
    return together([*_differences(design, built.topology), *_disagreements(built)])


def _differences(design: Topology, built: Topology) -> Iterator[Finding]:
    """The difference of the two topologies, in the words of someone who holds a cable."""
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
            what=f"{node.role} not seen, with {cables} cables",
            fix="connect it, or ask it for its neighbours",
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
                what="is not there",
                fix="plug in the cable; if it is there, look for a dead optic",
            )
    for link in change.extra_links:
        if link.a.node not in strange and link.b.node not in strange:
            yield error(
                "extra-link", where=str(link), what="is not in the design", fix="pull it, or add it to the design"
            )
    for changed in change.changed_links:
        what = str(changed).partition(": ")[2]
        slower = changed.design.speed_bits_per_s != changed.built.speed_bits_per_s
        yield Finding(
            check="link-speed" if slower else "cable-length",
            severity="error" if slower else "warning",
            where=str(changed.design),
            what=what,
            fix="set both ends to the designed speed" if slower else "verify the headroom with the real lengths",
        )


def _miswired(change: Miswiring, nodes: dict[str, Node]) -> Finding:
    """A cable that goes elsewhere: across rails, across planes, or to another port of the right switch."""
    swapped = f", swapped with {change.swapped_with}" if change.swapped_with else ""
    what = f"goes to {change.found} instead of {change.expected}{swapped}"
    expected, found = nodes[change.expected.node], nodes[change.found.node]
    if expected.name == found.name:
        return warning(
            "port",
            where=str(change.at),
            what=what,
            fix=f"move the cable to port {change.expected.port}, so that every leaf is cabled alike",
        )
    if nodes[change.at.node].role == "server" and (expected.rail, expected.plane) != (found.rail, found.plane):
        return error(
            "rail",
            where=str(change.at),
            what=f"{what}: {_rails(expected, found)}",
            fix=_move(change.at, change.expected),
        )
    return error("miswired", where=str(change.at), what=what, fix=_move(change.at, change.expected))


def _rails(expected: Node, found: Node) -> str:
    """Which rail or plane is mixed up with which."""
    if expected.rail != found.rail:
        wanted, seen = (str(node.rail + 1) if node.rail is not None else "none" for node in (expected, found))
        return f"rail {wanted} is wired to rail {seen}"
    wanted, seen = (str(node.plane + 1) if node.plane is not None else "none" for node in (expected, found))
    return f"plane {wanted} is wired to plane {seen}"


def _move(at: End, expected: End) -> str:
    """What to do with the cable."""
    return f"move the far end of the cable at {at} to {expected}"


def _disagreements(built: AsBuilt) -> Iterator[Finding]:
    """What the reports themselves disagree about."""
    for odd in built.disagreements:
        yield warning("reports", where=odd.where, what=odd.what, fix=odd.fix)
