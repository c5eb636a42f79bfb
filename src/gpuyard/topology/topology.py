"""The topology: nodes and links as a frozen value in canonical order, validated on construction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from gpuyard.errors import InputError, closest_match
from gpuyard.topology.check import problems_of
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node

_node_order = attrgetter("name")
_link_order = attrgetter("a.node", "a.port")  # unique: a port holds one cable


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Nodes sorted by name and links sorted by first end, so that equal cabling compares equal."""

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    def __post_init__(self) -> None:
        if problems := problems_of(self.nodes, self.links):
            raise InputError(problems)
        object.__setattr__(self, "nodes", tuple(sorted(self.nodes, key=_node_order)))
        object.__setattr__(self, "links", tuple(sorted(self.links, key=_link_order)))

    def __repr__(self) -> str:
        return f"<Topology of {len(self.nodes)} nodes and {len(self.links)} links>"

    def without(self, *, links: Iterable[Link] = (), nodes: Iterable[str] = ()) -> Topology:
        cut = set(links)
        dead = set(nodes)
        names = {node.name for node in self.nodes}
        if unknown := sorted(dead - names):
            raise no_such_node(unknown[0], names)
        if foreign := cut.difference(self.links):
            raise InputError.one(
                "topology", f"no link {min(map(str, foreign))}", "use a link of this topology"
            )
        return Topology(
            nodes=tuple(node for node in self.nodes if node.name not in dead),
            links=tuple(
                link
                for link in self.links
                if link.a.node not in dead and link.b.node not in dead and not (cut and link in cut)
            ),
        )


def no_such_node(name: str, names: Iterable[str]) -> InputError:
    """Return the error for an unknown node name, with the closest match as its fix."""
    meant = closest_match(name, names)
    fix = f'did you mean "{meant}"?' if meant else "use the name of a node of this topology"
    return InputError.one("topology", f'no node named "{name}"', fix)
