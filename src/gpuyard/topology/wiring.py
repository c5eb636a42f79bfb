"""Adjacency index of a topology: built once, and cheap to copy without failed links and nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuyard.errors import InputError
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology, no_such_node

Row = dict[int, tuple[int, ...]]  # neighbour -> the links to it, both as positions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Wiring:
    """Adjacency by position in the topology's tuples; rows are replaced, never changed in place."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    tiers: tuple[int, ...]
    positions: dict[str, int]
    rows: dict[int, Row]  # failed nodes have none

    @classmethod
    def of(cls, topology: Topology) -> Wiring:
        positions = {node.name: position for position, node in enumerate(topology.nodes)}
        rows: dict[int, Row] = {position: {} for position in range(len(topology.nodes))}
        for index, link in enumerate(topology.links):
            a, b = positions[link.a.node], positions[link.b.node]
            rows[a][b] = rows[b][a] = (*rows[a].get(b, ()), index)
        return cls(
            nodes=topology.nodes,
            links=topology.links,
            tiers=tuple(node.tier for node in topology.nodes),
            positions=positions,
            rows=rows,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.nodes[position].name for position in sorted(self.rows))

    def position(self, name: str) -> int:
        """Return the index of a node; raise InputError if the wiring has no such node."""
        position = self.positions.get(name)
        if position is None or position not in self.rows:
            raise no_such_node(name, self.names)
        return position

    def node(self, name: str) -> Node:
        return self.nodes[self.position(name)]

    def neighbours(self, name: str) -> tuple[str, ...]:
        return tuple(
            self.nodes[position].name for position in sorted(self.rows[self.position(name)])
        )

    def degree(self, name: str) -> int:
        return sum(map(len, self.rows[self.position(name)].values()))

    def links_of(self, name: str) -> tuple[Link, ...]:
        row = self.rows[self.position(name)]
        links = [self.links[index] for indexes in row.values() for index in indexes]
        return tuple(sorted(links, key=lambda link: link.end_at(name).port))

    def links_between(self, one: str, other: str) -> tuple[Link, ...]:
        indexes = self.rows[self.position(one)].get(self.position(other), ())
        return tuple(self.links[index] for index in indexes)

    def uplinks(self, name: str) -> tuple[Link, ...]:
        return self._toward(name, 1)

    def downlinks(self, name: str) -> tuple[Link, ...]:
        return self._toward(name, -1)

    def _toward(self, name: str, direction: int) -> tuple[Link, ...]:
        here = self.tiers[self.position(name)]
        return tuple(
            link
            for link in self.links_of(name)
            if (self.tiers[self.positions[link.far_from(name).node]] - here) * direction > 0
        )

    def without(self, *, links: Iterable[Link] = (), nodes: Iterable[str] = ()) -> Wiring:
        """Return the wiring after these fail; only the rows they touch are copied."""
        rows = dict(self.rows)
        for link in set(links):
            a, b = self.position(link.a.node), self.position(link.b.node)
            before = rows[a].get(b, ())
            after = tuple(index for index in before if self.links[index] != link)
            if len(after) == len(before):
                raise InputError.one("topology", f"no link {link}", "use a link of this topology")
            rows[a] = _with(rows[a], b, after)
            rows[b] = _with(rows[b], a, after)
        for dead in {self.position(name) for name in nodes}:
            for neighbour in rows.pop(dead):
                rows[neighbour] = _with(rows[neighbour], dead, ())
        return replace(self, rows=rows)


def _with(row: Row, neighbour: int, links: tuple[int, ...]) -> Row:
    changed = dict(row)
    if links:
        changed[neighbour] = links
    else:
        changed.pop(neighbour, None)
    return changed
