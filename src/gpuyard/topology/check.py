"""What makes nodes and links a topology; every problem is told with its place in the order given."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuyard.errors import Problem, nearest, one_of
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import ROLES, TIERS, Node

__all__ = ["problems_of"]

GUESSES = 5  # comparing a wrong name with thousands of nodes takes a while; a few guesses show the pattern


def problems_of(nodes: Sequence[Node], links: Sequence[Link]) -> list[Problem]:
    """Everything that is wrong with these nodes and links; empty if they make a topology."""
    return [*_nodes(nodes), *_link_values(links), *_link_names(links), *_unknown_nodes(nodes, links),
            *_ports(nodes, links)]  # fmt: skip


def _nodes(nodes: Sequence[Node]) -> Iterator[Problem]:
    """Names, roles, numbers, ports and attributes of the nodes."""
    first: dict[str, int] = {}
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        if not _is_name(node.name):
            yield _bad_name(where, "name", node.name)
        elif node.name in first:
            yield Problem(
                where=where,
                what=f'a second node named "{node.name}" (the first is nodes[{first[node.name]}])',
                fix="give each node a name of its own",
            )
        first.setdefault(node.name, index)
        if node.role not in TIERS:
            yield Problem(where=where, what=f"no role {_quoted(node.role)}", fix=f"use {one_of(ROLES)}")
        yield from _numbers(where, stripe=node.stripe, rail=node.rail, plane=node.plane)
        yield from _texts(where, node)
        yield from _declared_ports(where, node)


def _texts(where: str, node: Node) -> Iterator[Problem]:
    """The model and the attributes."""
    if node.model is not None and not _is_name(node.model):
        yield _bad_name(where, "model", node.model)
    previous = None
    for key, value in node.attributes:  # in order of their keys
        if not _is_name(key):
            yield _bad_name(where, "attribute", key)
        elif key == previous:
            yield Problem(where=where, what=f"attribute {_quoted(key)} is given twice", fix="keep one of them")
        if not value.isprintable():
            yield Problem(where=where, what=f"attribute {_quoted(key)}: {_quoted(value)} is not plain text",
                          fix="write printable characters on one line")  # fmt: skip
        previous = key


def _declared_ports(where: str, node: Node) -> Iterator[Problem]:
    """The ports that a node declares."""
    previous = None
    for port in node.ports:  # in order of their names
        if not _is_name(port.name):
            yield _bad_name(where, "port", port.name)
        elif port.name == previous:
            yield Problem(where=where, what=f"port {_quoted(port.name)} is declared twice", fix="keep one of them")
        previous = port.name
        yield from _numbers(f"{where} port {port.name}", rail=port.rail, plane=port.plane)


def _numbers(where: str, **numbers: int | None) -> Iterator[Problem]:
    """Stripe, rail and plane count from 0."""
    for name, value in numbers.items():
        if value is not None and value < 0:
            yield Problem(where=where, what=f"{name} {value} is negative", fix=f"number the {name}s from 0 or 1")


def _link_values(links: Sequence[Link]) -> Iterator[Problem]:
    """Speeds, lengths, and links from a node to itself."""
    for index, link in enumerate(links):
        if not 0 < link.speed_bits_per_s < math.inf:
            yield Problem(where=f"links[{index}]", what=f"{link}: speed is {link.speed_bits_per_s:g} bit/s",
                          fix="give the speed of the link, above zero")  # fmt: skip
        if link.cable_m is not None and not 0 <= link.cable_m < math.inf:
            yield Problem(where=f"links[{index}]", what=f"{link}: cable length is {link.cable_m:g} m",
                          fix="give the length in metres, or none if it is not known")  # fmt: skip
        if link.a.node == link.b.node:
            yield Problem(where=f"links[{index}]", what=f"{link} joins a node to itself",
                          fix="remove it, or name the node at its other end")  # fmt: skip


def _link_names(links: Sequence[Link]) -> Iterator[Problem]:
    """Names of ports; the few distinct ones are checked, then the wrong ones are looked for."""
    wrong = {port for port in {end.port for link in links for end in link.ends} if not _is_name(port)}
    for index, end in _ends(links) if wrong else ():
        if end.port in wrong:
            yield _bad_name(f"links[{index}]", f"port at {_quoted(end.node)}", end.port)


def _unknown_nodes(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[Problem]:
    """Names in links that no node has: one problem a name, however many links use it."""
    names = {node.name for node in nodes}
    if {link.a.node for link in links} <= names and {link.b.node for link in links} <= names:
        return
    used: dict[str, list[int]] = {}
    for index, end in _ends(links):
        if end.node not in names:
            used.setdefault(end.node, []).append(index)
    for guess, (name, indexes) in enumerate(used.items()):
        meant = nearest(name, names) if guess < GUESSES else None
        more = f" (and {len(indexes) - 1} links more)" if len(indexes) > 1 else ""
        yield Problem(
            where=f"links[{indexes[0]}]",
            what=f"no node named {_quoted(name)}{more}",
            fix=f'did you mean "{meant}"?' if meant else "add the node, or name one that is there",
        )


def _ports(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[Problem]:
    """Ports with two cables, and ports that their node does not declare."""
    declared = {node.name: {port.name for port in node.ports} for node in nodes if node.ports}
    taken: dict[tuple[str, str], int] = {}
    for index, link in enumerate(links):
        for end in link.ends:
            slot = (end.node, end.port)
            before = taken.setdefault(slot, index)
            if before != index:
                yield Problem(where=f"links[{index}]", what=f"{end} already has a cable (links[{before}])",
                              fix="plug one cable into a port")  # fmt: skip
            if end.node in declared and end.port not in declared[end.node]:
                known = sorted(declared[end.node])
                yield Problem(where=f"links[{index}]", what=f"{end.node} declares no port {_quoted(end.port)}",
                              fix=f"use {one_of(known)}, or declare it")  # fmt: skip


def _ends(links: Sequence[Link]) -> Iterator[tuple[int, End]]:
    """Every end with the index of its link."""
    return ((index, end) for index, link in enumerate(links) for end in link.ends)


def _is_name(text: str) -> bool:
    """True of a text that can stand in a line of a report and be written to a file."""
    return bool(text) and text.isprintable() and text.strip() == text


def _bad_name(where: str, what: str, text: str) -> Problem:
    """The problem with a name that is empty or cannot be shown."""
    said = f"{what} is empty" if not text.strip() else f"{what} {_quoted(text)} is not a plain name"
    return Problem(where=where, what=said, fix="use printable characters, with no space at either end")


def _quoted(text: str) -> str:
    """The text in quotes, what cannot be printed escaped, and cut if it is long."""
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return f'"{shown[:59]}…"' if len(shown) > 60 else f'"{shown}"'
