"""Diff of as-designed and as-built cabling: missing, extra, changed and miswired links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology
from gpuyard.units import BITS_PER_S, LENGTH, Dimension, show


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChange:
    """A node that exists, but not as designed."""

    design: Node
    built: Node

    def __str__(self) -> str:
        # leaf-1: rail 1 expected, 2 found
        parts = [
            _field_change(field.name, before, after)
            for field in fields(Node)
            if (before := getattr(self.design, field.name))
            != (after := getattr(self.built, field.name))
        ]
        return f"{self.design.name}: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkChange:
    """A cable between the right ports, with a different speed or length."""

    design: Link
    built: Link

    def __str__(self) -> str:
        # server-1 gpu0 – leaf-1 et-0: 400Gbps expected, 200Gbps found
        return f"{self.design}: {'; '.join(_cable_changes(self.design, self.built))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miswiring:
    """A cable that is plugged in as designed at one end, `at`, and not at the other."""

    at: End
    design: Link
    built: Link
    swapped_with: End | None = None  # the port whose cable took this one's place, and vice versa

    @property
    def expected(self) -> End:
        return _other(self.design, self.at)

    @property
    def actual(self) -> End:
        return _other(self.built, self.at)

    def __str__(self) -> str:
        # server-1 gpu0: leaf-1 et-0 expected, leaf-2 et-0 found
        parts = [
            f"{self.expected} expected, {self.actual} found",
            *_cable_changes(self.design, self.built),
        ]
        swap = f" (swapped with {self.swapped_with})" if self.swapped_with else ""
        return f"{self.at}: {'; '.join(parts)}{swap}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDiff:
    """The differences between two topologies; each link is listed once."""

    missing_nodes: tuple[Node, ...] = ()
    extra_nodes: tuple[Node, ...] = ()
    changed_nodes: tuple[NodeChange, ...] = ()
    missing_links: tuple[Link, ...] = ()
    extra_links: tuple[Link, ...] = ()
    miswired: tuple[Miswiring, ...] = ()
    changed_links: tuple[LinkChange, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not any(getattr(self, field.name) for field in fields(self))

    def lines(self) -> tuple[str, ...]:
        """Return one line per difference; the line of a missing or extra node counts its cables."""
        return (
            *_presence("missing", self.missing_nodes, self.missing_links),
            *_presence("extra", self.extra_nodes, self.extra_links),
            *(f"miswired: {change}" for change in self.miswired),
            *(f"changed: {change}" for change in (*self.changed_nodes, *self.changed_links)),
        )


def diff(design: Topology, built: Topology) -> TopologyDiff:
    """Return what to fix in `built` to make it `design`; empty if and only if they are equal."""
    before = {node.name: node for node in design.nodes}
    after = {node.name: node for node in built.nodes}
    missing = _by_ends(set(design.links).difference(built.links))
    extra = _by_ends(set(built.links).difference(design.links))
    same_ends = missing.keys() & extra.keys()
    changed = tuple(
        LinkChange(design=missing.pop(ends), built=extra.pop(ends)) for ends in sorted(same_ends)
    )
    tiers = {node.name: node.tier for node in design.nodes}
    for node in built.nodes:  # the minimum makes the diff symmetric
        tiers[node.name] = min(node.tier, tiers.get(node.name, node.tier))
    miswired = _miswired(missing.values(), extra.values(), tiers)
    moved = {link for change in miswired for link in (change.design, change.built)}
    return TopologyDiff(
        missing_nodes=tuple(node for node in design.nodes if node.name not in after),
        extra_nodes=tuple(node for node in built.nodes if node.name not in before),
        changed_nodes=tuple(
            NodeChange(design=node, built=after[node.name])
            for node in design.nodes
            if after.get(node.name, node) != node
        ),
        missing_links=tuple(
            missing[ends] for ends in sorted(missing) if missing[ends] not in moved
        ),
        extra_links=tuple(extra[ends] for ends in sorted(extra) if extra[ends] not in moved),
        miswired=miswired,
        changed_links=changed,
    )


def _by_ends(links: Iterable[Link]) -> dict[tuple[End, End], Link]:
    return {link.ends: link for link in links}


def _miswired(
    missing: Iterable[Link], extra: Iterable[Link], tiers: dict[str, int]
) -> tuple[Miswiring, ...]:
    # Missing and extra links are paired at a port that both use. The port nearest to the servers is
    # taken as the right one, and each link is paired once.
    expected = {end: link for link in missing for end in link.ends}
    actual = {end: link for link in extra for end in link.ends}
    pairs: dict[End, tuple[Link, Link]] = {}
    paired: set[Link] = set()
    for at in sorted(expected.keys() & actual.keys(), key=lambda end: (tiers[end.node], end)):
        pair = expected[at], actual[at]
        if paired.isdisjoint(pair):
            pairs[at] = pair
            paired.update(pair)
    moves = {(_other(design, at), _other(built, at)): at for at, (design, built) in pairs.items()}
    return tuple(
        Miswiring(
            at=at,
            design=design,
            built=built,
            swapped_with=moves.get((_other(built, at), _other(design, at))),
        )
        for at, (design, built) in pairs.items()
    )


def _other(link: Link, end: End) -> End:
    return link.b if link.a == end else link.a


def _presence(word: str, nodes: tuple[Node, ...], links: tuple[Link, ...]) -> list[str]:
    cables = {node.name: 0 for node in nodes}
    alone: list[str] = []
    for link in links:
        owner = next((end.node for end in link.ends if end.node in cables), None)
        if owner is None:
            alone.append(f"{word}: {link}, {show(link.speed_bits_per_s, BITS_PER_S)}")
        else:
            cables[owner] += 1
    return [
        f"{word}: {node.name} ({node.role}){_with_cables(cables[node.name])}" for node in nodes
    ] + alone


def _with_cables(count: int) -> str:
    return {0: "", 1: " with 1 cable"}.get(count, f" with {count} cables")


def _cable_changes(design: Link, built: Link) -> list[str]:
    changes = []
    if design.speed_bits_per_s != built.speed_bits_per_s:
        changes.append(_quantities(design.speed_bits_per_s, built.speed_bits_per_s, BITS_PER_S))
    if design.cable_m != built.cable_m:
        changes.append("length " + _quantities(design.cable_m, built.cable_m, LENGTH))
    return changes


def _quantities(before: float | None, after: float | None, dimension: Dimension) -> str:
    # Where rounding would hide the difference, print the numbers in full.
    shown = ["unknown" if value is None else show(value, dimension) for value in (before, after)]
    if shown[0] == shown[1]:
        shown = [f"{value!r}{dimension.suffix.replace('_', ' ')}" for value in (before, after)]
    return f"{shown[0]} expected, {shown[1]} found"


def _field_change(name: str, before: object, after: object) -> str:
    if isinstance(before, tuple) and isinstance(after, tuple):
        expected = ", ".join(_item(item) for item in before if item not in after)
        actual = ", ".join(_item(item) for item in after if item not in before)
    else:
        expected, actual = ("" if value is None else str(value) for value in (before, after))
    return f"{name} {expected or 'none'} expected, {actual or 'none'} found"


def _item(item: Port | tuple[str, str]) -> str:
    if not isinstance(item, Port):
        return "=".join(item)
    places = (("rail", item.rail), ("plane", item.plane))
    return " ".join(
        [item.name, *(f"{name} {number}" for name, number in places if number is not None)]
    )
