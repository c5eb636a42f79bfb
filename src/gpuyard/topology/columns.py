"""Saves and loads a topology as JSON in columns; repeated strings are written once and indexed.

    {"format": "gpuyard-topology-1",
     "nodes":      {"name": [...], "role": [...], "rail": [...], ..., "ports": [index, ...]},
     "port_sets":  [{"name": [...], "rail": [...], "plane": [...]}, ...],
     "links":      {"a_node": [index, ...], "a_port": [...], "b_node": [...], "b_port": [...],
                    "cable": [...]},
     "port_names": [...],
     "cables":     {"speed_bits_per_s": [...], "cable_m": [...]}}

Columns and port sets without values are omitted.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuyard.document.frozen_json import Plain
from gpuyard.document.read import parse_json
from gpuyard.errors import InputError, Problem
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.saved_tables import (
    ATTRIBUTES,
    INDEX,
    INTEGER,
    NUMBER,
    TEXT,
    SavedColumn,
    TableReader,
    Values,
    dump_compact,
    table_of,
)
from gpuyard.topology.topology import Topology

FORMAT = "gpuyard-topology-1"

PORTS = (
    SavedColumn(name="name", kind=TEXT),
    SavedColumn(name="rail", kind=INTEGER, optional=True),
    SavedColumn(name="plane", kind=INTEGER, optional=True),
)
NODES = (
    SavedColumn(name="name", kind=TEXT),
    SavedColumn(name="role", kind=TEXT),
    SavedColumn(name="stripe", kind=INTEGER, optional=True),
    SavedColumn(name="rail", kind=INTEGER, optional=True),
    SavedColumn(name="plane", kind=INTEGER, optional=True),
    SavedColumn(name="model", kind=TEXT, optional=True),
    SavedColumn(name="ports", kind=INDEX, optional=True, into="port_sets"),
    SavedColumn(name="attributes", kind=ATTRIBUTES, optional=True),
)
CABLES = (
    SavedColumn(name="speed_bits_per_s", kind=NUMBER),
    SavedColumn(name="cable_m", kind=NUMBER, optional=True),
)
LINKS = (
    SavedColumn(name="a_node", kind=INDEX, into="nodes"),
    SavedColumn(name="a_port", kind=INDEX, into="port_names"),
    SavedColumn(name="b_node", kind=INDEX, into="nodes"),
    SavedColumn(name="b_port", kind=INDEX, into="port_names"),
    SavedColumn(name="cable", kind=INDEX, into="cables"),
)
KEYS = ("format", "nodes", "port_sets", "links", "port_names", "cables")


def to_json(topology: Topology) -> str:
    """Return the topology as JSON; equal topologies give the same bytes."""
    return dump_compact(to_plain(topology))


def from_json(text: str, file: str = "<json>") -> Topology:
    """Load a topology that `to_json` wrote; raise InputError with the place of every problem."""
    return from_plain(parse_json(text, file), file)


def to_plain(topology: Topology) -> dict[str, Plain]:
    """Return the topology as dictionaries, lists and scalars, to embed in other JSON."""
    position = {node.name: index for index, node in enumerate(topology.nodes)}
    port_sets: dict[tuple[Port, ...], int] = {}
    names: dict[str, int] = {}
    cables: dict[tuple[float, float | None], int] = {}
    nodes = [
        (
            node.name,
            node.role,
            node.stripe,
            node.rail,
            node.plane,
            node.model,
            port_sets.setdefault(node.ports, len(port_sets)) if node.ports else None,
            _attributes(node),
        )
        for node in topology.nodes
    ]
    links = [
        (
            position[link.a.node],
            names.setdefault(link.a.port, len(names)),
            position[link.b.node],
            names.setdefault(link.b.port, len(names)),
            cables.setdefault((link.speed_bits_per_s, link.cable_m), len(cables)),
        )
        for link in topology.links
    ]
    plain: dict[str, Plain] = {"format": FORMAT, "nodes": table_of(NODES, nodes)}
    if port_sets:
        plain["port_sets"] = [
            table_of(PORTS, [(port.name, port.rail, port.plane) for port in ports])
            for ports in port_sets
        ]
    plain |= {
        "links": table_of(LINKS, links),
        "port_names": list(names),
        "cables": table_of(CABLES, list(cables)),
    }
    return plain


def _attributes(node: Node) -> Plain:
    attributes: dict[str, Plain] = dict(node.attributes)
    return attributes or None


def from_plain(data: object, where: str = "<json>") -> Topology:
    """Load a topology that `to_plain` returned; `where` prefixes the place of each problem."""
    reader = TableReader(where)
    fields = reader.record(
        data, KEYS, optional=("port_sets",), what=f'a topology saved as "{FORMAT}"'
    )
    if fields.get("format", FORMAT) != FORMAT:
        reader.wrong("format", f"not {FORMAT}", f'save it again, with "format": "{FORMAT}"')
    if reader.problems:
        raise InputError(reader.problems)
    port_tables = [
        reader.table(table, PORTS, f"port_sets[{index}]")
        for index, table in enumerate(reader.items(fields.get("port_sets", []), "port_sets"))
    ]
    names = reader.column(
        fields["port_names"], SavedColumn(name="port_names", kind=TEXT), "port_names"
    )
    cables = reader.table(fields["cables"], CABLES, "cables")
    nodes = reader.table(fields["nodes"], NODES, "nodes")
    links = reader.table(fields["links"], LINKS, "links")
    if reader.problems:
        raise InputError(reader.problems)
    port_sets = [
        tuple(
            Port(name=name, rail=rail, plane=plane)
            for name, rail, plane in zip(*table, strict=True)
        )
        for table in port_tables
    ]
    try:
        return Topology(
            nodes=tuple(_nodes(nodes, port_sets)),
            links=tuple(_links(links, nodes[0], names, cables)),
        )
    except InputError as error:
        raise InputError(
            Problem(where=f"{where}: {problem.where}", what=problem.what, fix=problem.fix)
            for problem in error.problems
        ) from None


def _nodes(table: list[Values], port_sets: list[tuple[Port, ...]]) -> Iterable[Node]:
    for name, role, stripe, rail, plane, model, ports, attributes in zip(*table, strict=True):
        yield Node(
            name=name,
            role=role,
            stripe=stripe,
            rail=rail,
            plane=plane,
            model=model,
            ports=() if ports is None else port_sets[ports],
            attributes=tuple((attributes or {}).items()),
        )


def _links(
    table: list[Values], nodes: list[str], names: list[str], cables: list[Values]
) -> Iterable[Link]:
    speeds, lengths = cables
    for a_node, a_port, b_node, b_port, cable in zip(*table, strict=True):
        yield Link(
            a=End(node=nodes[a_node], port=names[a_port]),
            b=End(node=nodes[b_node], port=names[b_port]),
            speed_bits_per_s=speeds[cable],
            cable_m=lengths[cable],
        )
