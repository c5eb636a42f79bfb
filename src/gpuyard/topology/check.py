"""Validation of nodes and links: every problem at once, with the index of its node or link."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuyard.errors import Problem, choices_text, closest_match
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import ROLES, TIERS, Node

GUESSES = 5  # matching a name against thousands of nodes is slow; a few guesses show the pattern


def problems_of(nodes: Sequence[Node], links: Sequence[Link]) -> list[Problem]:
    """Return everything wrong with these nodes and links; empty for a valid topology."""
    return [
        *_nodes(nodes),
        *_link_values(links),
        *_link_names(links),
        *_unknown_nodes(nodes, links),
        *_ports(nodes, links),
    ]


def _nodes(nodes: Sequence[Node]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, node in enumerate(nodes):
        where = f"nodes[{index}]"
        if not _is_name(node.name):
            yield _bad_name(where, "name", node.name)
        elif node.name in first:
            yield Problem(
                where=where,
                what=f'a second node named "{node.name}" (the first is nodes[{first[node.name]}])',
                fix="give each node a unique name",
            )
        first.setdefault(node.name, index)
        if node.role not in TIERS:
            yield Problem(
                where=where, what=f"no role {_quoted(node.role)}", fix=f"use {choices_text(ROLES)}"
            )
        yield from _numbers(where, stripe=node.stripe, rail=node.rail, plane=node.plane)
        yield from _texts(where, node)
        yield from _declared_ports(where, node)


def _texts(where: str, node: Node) -> Iterator[Problem]:
    if node.model is not None and not _is_name(node.model):
        yield _bad_name(where, "model", node.model)
    previous = None
    for key, value in node.attributes:  # in order of their keys
        if not _is_name(key):
            yield _bad_name(where, "attribute", key)
        elif key == previous:
            yield Problem(
                where=where, what=f"attribute {_quoted(key)} is set twice", fix="keep one of them"
            )
        if not value.isprintable():
            yield Problem(
                where=where,
                what=f"attribute {_quoted(key)}: {_quoted(value)} is not plain text",
                fix="write printable characters on one line",
            )
        previous = key


def _declared_ports(where: str, node: Node) -> Iterator[Problem]:
    previous = None
    for port in node.ports:  # in order of their names
        if not _is_name(port.name):
            yield _bad_name(where, "port", port.name)
        elif port.name == previous:
            yield Problem(
                where=where,
                what=f"port {_quoted(port.name)} is declared twice",
                fix="keep one of them",
            )
        previous = port.name
        yield from _numbers(f"{where} port {port.name}", rail=port.rail, plane=port.plane)


def _numbers(where: str, **numbers: int | None) -> Iterator[Problem]:
    for name, value in numbers.items():
        if value is not None and value < 0:
            yield Problem(
                where=where,
                what=f"{name} {value} is negative",
                fix=f"number the {name}s from 0 or 1",
            )


def _link_values(links: Sequence[Link]) -> Iterator[Problem]:
    for index, link in enumerate(links):
        if not 0 < link.speed_bits_per_s < math.inf:
            yield Problem(
                where=f"links[{index}]",
                what=f"{link}: speed is {link.speed_bits_per_s:g} bit/s",
                fix="set a speed above zero",
            )
        if link.cable_m is not None and not 0 <= link.cable_m < math.inf:
            yield Problem(
                where=f"links[{index}]",
                what=f"{link}: cable length is {link.cable_m:g} m",
                fix="set the length in metres, or none if it is unknown",
            )
        if link.a.node == link.b.node:
            yield Problem(
                where=f"links[{index}]",
                what=f"{link} connects a node to itself",
                fix="remove it, or name the node at its other end",
            )


def _link_names(links: Sequence[Link]) -> Iterator[Problem]:
    # Port names recur on every switch, so only the distinct ones are checked.
    wrong = {
        port for port in {end.port for link in links for end in link.ends} if not _is_name(port)
    }
    for index, end in _ends(links) if wrong else ():
        if end.port in wrong:
            yield _bad_name(f"links[{index}]", f"port at {_quoted(end.node)}", end.port)


def _unknown_nodes(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[Problem]:
    # One problem per unknown name, however many links use it.
    names = {node.name for node in nodes}
    if {link.a.node for link in links} <= names and {link.b.node for link in links} <= names:
        return
    used: dict[str, list[int]] = {}
    for index, end in _ends(links):
        if end.node not in names:
            used.setdefault(end.node, []).append(index)
    for guess, (name, indexes) in enumerate(used.items()):
        meant = closest_match(name, names) if guess < GUESSES else None
        more = f" (and {len(indexes) - 1} more links)" if len(indexes) > 1 else ""
        yield Problem(
            where=f"links[{indexes[0]}]",
            what=f"no node named {_quoted(name)}{more}",
            fix=f'did you mean "{meant}"?'
            if meant
            else "add the node, or use the name of an existing one",
        )


def _ports(nodes: Sequence[Node], links: Sequence[Link]) -> Iterator[Problem]:
    declared = {node.name: {port.name for port in node.ports} for node in nodes if node.ports}
    taken: dict[tuple[str, str], int] = {}
    for index, link in enumerate(links):
        for end in link.ends:
            slot = (end.node, end.port)
            before = taken.setdefault(slot, index)
            if before != index:
                yield Problem(
                    where=f"links[{index}]",
                    what=f"{end} already has a cable (links[{before}])",
                    fix="plug one cable into a port",
                )
            if end.node in declared and end.port not in declared[end.node]:
                known = sorted(declared[end.node])
                yield Problem(
                    where=f"links[{index}]",
                    what=f"{end.node} declares no port {_quoted(end.port)}",
                    fix=f"use {choices_text(known)}, or declare it",
                )


def _ends(links: Sequence[Link]) -> Iterator[tuple[int, End]]:
    return ((index, end) for index, link in enumerate(links) for end in link.ends)


def _is_name(text: str) -> bool:
    return bool(text) and text.isprintable() and text.strip() == text


def _bad_name(where: str, what: str, text: str) -> Problem:
    problem = "is empty" if not text.strip() else f"{_quoted(text)} is not a plain name"
    return Problem(
        where=where,
        what=f"{what} {problem}",
        fix="use printable characters, with no space at either end",
    )


def _quoted(text: str) -> str:
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return f'"{shown[:59]}…"' if len(shown) > 60 else f'"{shown}"'
