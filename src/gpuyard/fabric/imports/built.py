"""Sightings made into a topology: devices as the design knows them, speeds and lengths from the design where unsaid."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpuyard.errors import InputError, Problem, nearest
from gpuyard.fabric.imports.identity import Design, node_from_name
from gpuyard.fabric.imports.sighting import Disagreement, Place, Seen, Sighting, seen_cables
from gpuyard.topology import TIERS, End, Link, Node, Topology

__all__ = ["AsBuilt", "as_built"]

MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AsBuilt:
    """The cabling that was found, and what those who reported it disagree about."""

    topology: Topology
    disagreements: tuple[Disagreement, ...] = ()


def as_built(
    sightings: Sequence[Sighting], design: Topology | None = None, speed_bits_per_s: float | None = None
) -> AsBuilt:  # fmt: skip
    """The topology of what was seen; `speed` is taken where neither a sighting nor the design tells one."""
    known = Design(design)
    sightings = [_resolved(sighting, known) for sighting in sightings]
    cables, odd = seen_cables(sightings)
    problems: list[Problem] = []
    nodes = _nodes(cables, known, problems)
    links = [link for seen in cables if (link := _link(seen, known, nodes, speed_bits_per_s, problems)) is not None]
    if problems:
        raise InputError(_few(problems))
    return AsBuilt(topology=Topology(nodes=tuple(nodes.values()), links=tuple(links)), disagreements=odd)


def _few(problems: list[Problem]) -> list[Problem]:
    """The first problems, and how many more there are."""
    left = len(problems) - MAX_PROBLEMS
    more = [Problem(where="import", what=f"{left} problems more", fix="mend these first")] if left > 0 else []
    return [*problems[:MAX_PROBLEMS], *more]


def _resolved(sighting: Sighting, known: Design) -> Sighting:
    """The sighting in the design's spelling."""
    ends = [known.end(place) for place in (sighting.near, sighting.far)]
    near, far = (_renamed(place, end) for place, end in zip((sighting.near, sighting.far), ends, strict=True))
    seen_by = known.device(sighting.seen_by) if sighting.seen_by else ""
    return Sighting(
        where=sighting.where, near=near, far=far, seen_by=seen_by,
        speed_bits_per_s=sighting.speed_bits_per_s, cable_m=sighting.cable_m,
    )  # fmt: skip


def _renamed(place: Place, end: End) -> Place:
    """The place under another name."""
    return Place(device=end.node, port=end.port, others=place.others)


def _nodes(cables: Iterable[Seen], known: Design, problems: list[Problem]) -> dict[str, Node]:
    """The devices, as the design has them; others by what their name tells."""
    ports: dict[str, set[str]] = {}
    where: dict[str, str] = {}
    for seen in cables:
        for place in (seen.a, seen.b):
            ports.setdefault(place.device, set()).add(place.port)
            where.setdefault(place.device, seen.where)
    nodes: dict[str, Node] = {}
    for name, used in ports.items():
        node = known.nodes.get(name) or node_from_name(name, used)
        if node is None:
            meant = nearest(name, known.nodes) if known.nodes else None
            fix = f'did you mean "{meant}"?' if meant else "use names that start with server, leaf, spine or core"
            problems.append(Problem(where=where[name], what=f'what is "{name}"? Its name tells no role', fix=fix))
            continue
        declared = {port.name for port in node.ports}
        # A cable in a port that the design does not know is a finding, not a reason to refuse the whole report.
        nodes[name] = _undeclared(node) if declared and not used <= declared else node
    return nodes


def _undeclared(node: Node) -> Node:
    """The node without a list of ports, so that a cable may be in any."""
    return Node(name=node.name, role=node.role, stripe=node.stripe, rail=node.rail, plane=node.plane,
                model=node.model, attributes=node.attributes)  # fmt: skip


def _link(
    seen: Seen, known: Design, nodes: dict[str, Node], speed_bits_per_s: float | None, problems: list[Problem]
) -> Link | None:  # fmt: skip
    """The cable; what it does not tell is taken from the design's cable at its lower end."""
    ends = [End(node=place.device, port=place.port) for place in (seen.a, seen.b)]
    if not all(end.node in nodes for end in ends):
        return None
    if ends[0].node == ends[1].node:
        problems.append(Problem(where=seen.where, what=f"{ends[0]} is joined to its own {ends[1].port}",
                                fix="remove the loop, or name the device at the other end"))  # fmt: skip
        return None
    lower = sorted(ends, key=lambda end: TIERS[nodes[end.node].role])
    designed = next((known.links[end] for end in lower if end in known.links), None)
    speed = seen.speed_bits_per_s or (designed.speed_bits_per_s if designed else None) or speed_bits_per_s
    if not speed:
        problems.append(Problem(where=seen.where, what=f"nothing tells the speed of {ends[0]} – {ends[1]}",
                                fix="add a column speed, give --speed 400Gbps, or compare with a design"))  # fmt: skip
        return None
    length = seen.cable_m if seen.cable_m is not None else designed.cable_m if designed else None
    return Link(a=ends[0], b=ends[1], speed_bits_per_s=speed, cable_m=length)
