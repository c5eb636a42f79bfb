"""The topology itself: a frozen value in canonical form, checked when it is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from gpuyard.errors import InputError, nearest
from gpuyard.topology.check import problems_of
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node

__all__ = ["Topology", "no_such_node"]

_node_order = attrgetter("name")
_link_order = attrgetter("a.node", "a.port")  # a port holds one cable, so its first end orders a link


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What is wired; nodes by name and links by their first end, so that equal cabling is an equal value."""

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
        """The topology after these links and nodes (with their links) are taken away."""
        cut, dead = set(links), set(nodes)
        names = {node.name for node in self.nodes}
        if unknown := sorted(dead - names):
            raise no_such_node(unknown[0], names)
        if foreign := cut.difference(self.links):
            raise InputError.one("topology", f"no link {min(map(str, foreign))}", "name a link that it holds")
        return Topology(
            nodes=tuple(node for node in self.nodes if node.name not in dead),
            links=tuple(
                link
                for link in self.links
                if link.a.node not in dead and link.b.node not in dead and not (cut and link in cut)
            ),
        )


def no_such_node(name: str, names: Iterable[str]) -> InputError:
    """The error for a name that no node has."""
    meant = nearest(name, names)
    fix = f'did you mean "{meant}"?' if meant else "use the name of a node of this topology"
    return InputError.one("topology", f'no node named "{name}"', fix)
