"""As-built topology from observed cables; the design fills in roles, speeds and lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gpuyard.errors import Finding, InputError, Problem, closest_match
from gpuyard.fabric.imports.identity import Design, node_from_name
from gpuyard.fabric.imports.observed_cable import (
    MergedCable,
    ObservedCable,
    ReportedPort,
    merge_observations,
)
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import TIERS, Node
from gpuyard.topology.topology import Topology

MAX_PROBLEMS = 20  # printed at once; the rest is counted


@dataclass(frozen=True, slots=True, kw_only=True)
class AsBuilt:
    """As-built cabling, and the conflicts between its reports."""

    topology: Topology
    conflicts: tuple[Finding, ...] = ()


def as_built(
    observations: Sequence[ObservedCable],
    design: Topology | None = None,
    speed_bits_per_s: float | None = None,
) -> AsBuilt:
    """Return the as-built cabling; `speed` applies where neither report nor design has one."""
    known = Design(design)
    cables, conflicts = merge_observations([_resolved(one, known) for one in observations])
    problems: list[Problem] = []
    nodes = _nodes(cables, known, problems)
    links = [
        link
        for cable in cables
        if (link := _link(cable, known, nodes, speed_bits_per_s, problems)) is not None
    ]
    if problems:
        raise InputError(first_problems(problems, "import"))
    topology = Topology(nodes=tuple(nodes.values()), links=tuple(links))
    return AsBuilt(topology=topology, conflicts=conflicts)


def first_problems(problems: Sequence[Problem], where: str) -> list[Problem]:
    """Return the first problems, and a line with the number of the others."""
    left = len(problems) - MAX_PROBLEMS
    more = Problem(where=where, what=f"{left} more problems", fix="fix these first")
    return [*problems[:MAX_PROBLEMS], *([more] if left > 0 else [])]


def _resolved(observed: ObservedCable, known: Design) -> ObservedCable:
    return replace(
        observed,
        near=_renamed(observed.near, known),
        far=_renamed(observed.far, known),
        seen_by=known.device(observed.seen_by) if observed.seen_by else "",
    )


def _renamed(port: ReportedPort, known: Design) -> ReportedPort:
    end = known.end(port)
    return ReportedPort(device=end.node, port=end.port, others=port.others)


def _nodes(
    cables: Iterable[MergedCable], known: Design, problems: list[Problem]
) -> dict[str, Node]:
    ports: dict[str, set[str]] = {}
    where: dict[str, str] = {}
    for cable in cables:
        for port in (cable.a, cable.b):
            ports.setdefault(port.device, set()).add(port.port)
            where.setdefault(port.device, cable.where)
    nodes: dict[str, Node] = {}
    for name, used in ports.items():
        node = known.nodes.get(name) or node_from_name(name, used)
        if node is None:
            meant = closest_match(name, known.nodes) if known.nodes else None
            fix = (
                f'did you mean "{meant}"?'
                if meant
                else "use names that start with server, leaf, spine or core"
            )
            problems.append(Problem(where=where[name], what=f'unknown role of "{name}"', fix=fix))
            continue
        declared = {port.name for port in node.ports}
        # A cable in an unknown port is a finding, not a reason to reject the whole report.
        nodes[name] = replace(node, ports=()) if declared and not used <= declared else node
    return nodes


def _link(
    cable: MergedCable,
    known: Design,
    nodes: dict[str, Node],
    speed_bits_per_s: float | None,
    problems: list[Problem],
) -> Link | None:
    # Missing data is taken from the design's cable at the lower end.
    ends = [End(node=port.device, port=port.port) for port in (cable.a, cable.b)]
    if not all(end.node in nodes for end in ends):
        return None
    if ends[0].node == ends[1].node:
        problems.append(
            Problem(
                where=cable.where,
                what=f"{ends[0]} is connected to its own port {ends[1].port}",
                fix="remove the loop, or name the device at the other end",
            )
        )
        return None
    lower = sorted(ends, key=lambda end: TIERS[nodes[end.node].role])
    designed = next((known.links[end] for end in lower if end in known.links), None)
    speed = (
        cable.speed_bits_per_s
        or (designed.speed_bits_per_s if designed else None)
        or speed_bits_per_s
    )
    if not speed:
        problems.append(
            Problem(
                where=cable.where,
                what=f"unknown link speed: {ends[0]} – {ends[1]}",
                fix="add a speed column, use --speed 400Gbps, or compare with a design",
            )
        )
        return None
    cable_m = cable.cable_m
    if cable_m is None and designed is not None:
        cable_m = designed.cable_m
    return Link(a=ends[0], b=ends[1], speed_bits_per_s=speed, cable_m=cable_m)
