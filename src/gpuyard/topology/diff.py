"""A topology as designed against one as built: what is missing, what is extra, and what is plugged in elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, LENGTH, Dimension, show

__all__ = ["LinkChange", "Miswiring", "NodeChange", "TopologyDiff", "diff"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A node that is there, but not as designed."""

    design: Node
    built: Node

    def __str__(self) -> str:
        """What differs: `leaf-1: rail 1 expected, 2 found`."""
        parts = [
            _field_change(field.name, before, after)
            for field in fields(Node)
            if (before := getattr(self.design, field.name)) != (after := getattr(self.built, field.name))
        ]
        return f"{self.design.name}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """A cable between the right ports, with another speed or length."""

    design: Link
    built: Link

    def __str__(self) -> str:
        """What differs: `server-1 gpu0 – leaf-1 et-0: 400Gbps expected, 200Gbps found`."""
        return f"{self.design}: {'; '.join(_cable_changes(self.design, self.built))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miswiring:
    """A cable that is plugged in as designed at one end, `at`, and elsewhere at the other."""

    at: End
    design: Link
    built: Link
    swapped_with: End | None = None  # the port whose cable goes where this one's should, and the other way round

    @property
    def expected(self) -> End:
        """Where the cable should lead."""
        return _other(self.design, self.at)

    @property
    def found(self) -> End:
        """Where it leads."""
        return _other(self.built, self.at)

    def __str__(self) -> str:
        """Both far ends: `server-1 gpu0: leaf-1 et-0 expected, leaf-2 et-0 found`."""
        parts = [f"{self.expected} expected, {self.found} found", *_cable_changes(self.design, self.built)]
        swap = f" (swapped with {self.swapped_with})" if self.swapped_with else ""
        return f"{self.at}: {'; '.join(parts)}{swap}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDiff:
    """Everything in which two topologies differ; each link is in one of these and no more."""

    missing_nodes: tuple[Node, ...] = ()
    extra_nodes: tuple[Node, ...] = ()
    changed_nodes: tuple[NodeChange, ...] = ()
    missing_links: tuple[Link, ...] = ()
    extra_links: tuple[Link, ...] = ()
    miswired: tuple[Miswiring, ...] = ()
    changed_links: tuple[LinkChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the two are equal."""
        return not any(getattr(self, field.name) for field in fields(self))

    def lines(self) -> tuple[str, ...]:
        """One line a difference; the cables of a missing or extra node are counted in its own line."""
        return (
            *_presence("missing", self.missing_nodes, self.missing_links),
            *_presence("extra", self.extra_nodes, self.extra_links),
            *(f"miswired: {change}" for change in self.miswired),
            *(f"changed: {change}" for change in (*self.changed_nodes, *self.changed_links)),
        )


def diff(design: Topology, built: Topology) -> TopologyDiff:
    """What must be mended in `built` to make it `design`; empty if and only if they are equal."""
    before = {node.name: node for node in design.nodes}
    after = {node.name: node for node in built.nodes}
    lost, found = _by_ends(set(design.links).difference(built.links)), _by_ends(set(built.links) - set(design.links))
    same_ends = lost.keys() & found.keys()
    changed = tuple(LinkChange(design=lost.pop(ends), built=found.pop(ends)) for ends in sorted(same_ends))
    tiers = {node.name: node.tier for node in design.nodes}
    for node in built.nodes:
        tiers[node.name] = min(node.tier, tiers.get(node.name, node.tier))  # the same whichever is the design
    miswired = _miswired(lost.values(), found.values(), tiers)
    moved = {link for change in miswired for link in (change.design, change.built)}
    return TopologyDiff(
        missing_nodes=tuple(node for node in design.nodes if node.name not in after),
        extra_nodes=tuple(node for node in built.nodes if node.name not in before),
        changed_nodes=tuple(
            NodeChange(design=node, built=after[node.name])
            for node in design.nodes
            if after.get(node.name, node) != node
        ),
        missing_links=tuple(lost[ends] for ends in sorted(lost) if lost[ends] not in moved),
        extra_links=tuple(found[ends] for ends in sorted(found) if found[ends] not in moved),
        miswired=miswired,
        changed_links=changed,
    )


def _by_ends(links: Iterable[Link]) -> dict[tuple[End, End], Link]:
    """The links by the ports that they join."""
    return {link.ends: link for link in links}


def _miswired(lost: Iterable[Link], found: Iterable[Link], tiers: dict[str, int]) -> tuple[Miswiring, ...]:
    """Lost and found links paired at a port that both use; the port nearest to the servers is the one trusted."""
    expected = {end: link for link in lost for end in link.ends}
    actual = {end: link for link in found for end in link.ends}
    pairs: dict[End, tuple[Link, Link]] = {}
    paired: set[Link] = set()
    for at in sorted(expected.keys() & actual.keys(), key=lambda end: (tiers[end.node], end)):
        pair = expected[at], actual[at]
        if paired.isdisjoint(pair):
            pairs[at] = pair
            paired.update(pair)
    ways = {(_other(design, at), _other(built, at)): at for at, (design, built) in pairs.items()}
    return tuple(
        Miswiring(
            at=at,
            design=design,
            built=built,
            swapped_with=ways.get((_other(built, at), _other(design, at))),
        )
        for at, (design, built) in pairs.items()
    )


def _other(link: Link, end: End) -> End:
    """The end that is not `end`."""
    return link.b if link.a == end else link.a


def _presence(word: str, nodes: tuple[Node, ...], links: tuple[Link, ...]) -> list[str]:
    """Lines of missing or extra nodes and links."""
    cables = {node.name: 0 for node in nodes}
    alone: list[str] = []
    for link in links:
        owner = next((end.node for end in link.ends if end.node in cables), None)
        if owner is None:
            alone.append(f"{word}: {link}, {show(link.speed_bits_per_s, BITS_PER_S)}")
        else:
            cables[owner] += 1
    return [f"{word}: {node.name} ({node.role}){_with_cables(cables[node.name])}" for node in nodes] + alone


def _with_cables(count: int) -> str:
    """The cables that a node takes along, in words."""
    return {0: "", 1: " with 1 cable"}.get(count, f" with {count} cables")


def _cable_changes(design: Link, built: Link) -> list[str]:
    """Speed and length, where they differ."""
    changes = []
    if design.speed_bits_per_s != built.speed_bits_per_s:
        changes.append(_quantities(design.speed_bits_per_s, built.speed_bits_per_s, BITS_PER_S))
    if design.cable_m != built.cable_m:
        changes.append("length " + _quantities(design.cable_m, built.cable_m, LENGTH))
    return changes


def _quantities(before: float | None, after: float | None, dimension: Dimension) -> str:
    """Expected and found; where rounding would hide the difference, in full."""
    shown = ["unknown" if value is None else show(value, dimension) for value in (before, after)]
    if shown[0] == shown[1]:
        shown = [f"{value!r}{dimension.suffix.replace('_', ' ')}" for value in (before, after)]
    return f"{shown[0]} expected, {shown[1]} found"


def _field_change(name: str, before: object, after: object) -> str:
    """One field of a node; of ports and attributes, those that differ."""
    if isinstance(before, tuple) and isinstance(after, tuple):
        expected = ", ".join(_item(item) for item in before if item not in after)
        found = ", ".join(_item(item) for item in after if item not in before)
    else:
        expected, found = ("" if value is None else str(value) for value in (before, after))
    return f"{name} {expected or 'none'} expected, {found or 'none'} found"


def _item(item: Port | tuple[str, str]) -> str:
    """A port with its rail and plane, or an attribute with its value."""
    if not isinstance(item, Port):
        return "=".join(item)
    places = (("rail", item.rail), ("plane", item.plane))
    return " ".join([item.name, *(f"{name} {number}" for name, number in places if number is not None)])
