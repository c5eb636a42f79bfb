"""A topology as JSON and back. Links and nodes are saved in columns, and texts that recur are saved once:

    {"format": "gpuyard-topology-1",
     "nodes":     {"name": [...], "role": [...], "stripe": [...], "rail": [...], ..., "ports": [index, ...]},
     "port_sets": [{"name": [...], "rail": [...], "plane": [...]}, ...],
     "links":     {"a_node": [index, ...], "a_port": [index, ...], "b_node": [...], "b_port": [...], "cable": [...]},
     "port_names": [...],
     "cables":    {"speed_bits_per_s": [...], "cable_m": [...]}}

A column in which nothing is known is left out, and so are empty tables of port sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from gpuyard.document.encode import Plain
from gpuyard.errors import InputError, Problem
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.tables import ATTRIBUTES, INDEX, NUMBER, TEXT, WHOLE, Column, Reader, Values, table_of
from gpuyard.topology.topology import Topology

__all__ = ["FORMAT", "from_json", "from_plain", "to_json", "to_plain"]

FORMAT = "gpuyard-topology-1"

PORTS = (
    Column(name="name", kind=TEXT),
    Column(name="rail", kind=WHOLE, optional=True),
    Column(name="plane", kind=WHOLE, optional=True),
)
NODES = (
    Column(name="name", kind=TEXT),
    Column(name="role", kind=TEXT),
    Column(name="stripe", kind=WHOLE, optional=True),
    Column(name="rail", kind=WHOLE, optional=True),
    Column(name="plane", kind=WHOLE, optional=True),
    Column(name="model", kind=TEXT, optional=True),
    Column(name="ports", kind=INDEX, optional=True, into="port_sets"),
    Column(name="attributes", kind=ATTRIBUTES, optional=True),
)
CABLES = (
    Column(name="speed_bits_per_s", kind=NUMBER),
    Column(name="cable_m", kind=NUMBER, optional=True),
)
LINKS = (
    Column(name="a_node", kind=INDEX, into="nodes"),
    Column(name="a_port", kind=INDEX, into="port_names"),
    Column(name="b_node", kind=INDEX, into="nodes"),
    Column(name="b_port", kind=INDEX, into="port_names"),
    Column(name="cable", kind=INDEX, into="cables"),
)
KEYS = ("format", "nodes", "port_sets", "links", "port_names", "cables")


def to_json(topology: Topology) -> str:
    """The topology as JSON text; equal topologies give the same bytes."""
    return json.dumps(to_plain(topology), separators=(",", ":"), ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str, file: str = "<json>") -> Topology:
    """The topology that `to_json` wrote; InputError with the place of everything wrong if it is none."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError.one(f"{file}:{error.lineno}", f"not JSON: {error.msg}", "mend the syntax there") from None
    except (RecursionError, ValueError) as error:
        raise InputError.one(file, f"not JSON: {error}", "mend the syntax") from None
    return from_plain(data, file)


def to_plain(topology: Topology) -> dict[str, Plain]:
    """The topology as dictionaries, lists and scalars, for JSON that holds more than a topology."""
    position = {node.name: index for index, node in enumerate(topology.nodes)}
    port_sets: dict[tuple[Port, ...], int] = {}
    names: dict[str, int] = {}
    cables: dict[tuple[float, float | None], int] = {}
    nodes = [
        (node.name, node.role, node.stripe, node.rail, node.plane, node.model,
         port_sets.setdefault(node.ports, len(port_sets)) if node.ports else None,
         _attributes(node))
        for node in topology.nodes
    ]  # fmt: skip
    links = [
        (position[link.a.node], names.setdefault(link.a.port, len(names)),
         position[link.b.node], names.setdefault(link.b.port, len(names)),
         cables.setdefault((link.speed_bits_per_s, link.cable_m), len(cables)))
        for link in topology.links
    ]  # fmt: skip
    plain: dict[str, Plain] = {"format": FORMAT, "nodes": table_of(NODES, nodes)}
    if port_sets:
        plain["port_sets"] = [
            table_of(PORTS, [(port.name, port.rail, port.plane) for port in ports]) for ports in port_sets
        ]
    plain |= {"links": table_of(LINKS, links), "port_names": list(names), "cables": table_of(CABLES, list(cables))}
    return plain


def _attributes(node: Node) -> Plain:
    """A node's attributes by key; None if it has none."""
    attributes: dict[str, Plain] = dict(node.attributes)
    return attributes or None


def from_plain(data: object, where: str = "<json>") -> Topology:
    """The topology that `to_plain` gave; `where` is put before the place of each problem."""
    reader = Reader(where)
    fields = reader.record(data, KEYS, optional=("port_sets",), what=f'a topology saved as "{FORMAT}"')
    if fields.get("format", FORMAT) != FORMAT:
        reader.wrong("format", f"not {FORMAT}", f'save it again, with "format": "{FORMAT}"')
    if reader.problems:
        raise InputError(reader.problems)
    port_tables = [
        reader.table(table, PORTS, f"port_sets[{index}]")
        for index, table in enumerate(reader.items(fields.get("port_sets", []), "port_sets"))
    ]
    names = reader.column(fields["port_names"], Column(name="port_names", kind=TEXT), "port_names")
    cables = reader.table(fields["cables"], CABLES, "cables")
    nodes = reader.table(fields["nodes"], NODES, "nodes")
    links = reader.table(fields["links"], LINKS, "links")
    if reader.problems:
        raise InputError(reader.problems)
    port_sets = [
        tuple(Port(name=name, rail=rail, plane=plane) for name, rail, plane in zip(*table, strict=True))
        for table in port_tables
    ]
    try:
        return Topology(nodes=tuple(_nodes(nodes, port_sets)), links=tuple(_links(links, nodes[0], names, cables)))
    except InputError as error:
        raise InputError(
            Problem(where=f"{where}: {problem.where}", what=problem.what, fix=problem.fix) for problem in error.problems
        ) from None


def _nodes(table: list[Values], port_sets: list[tuple[Port, ...]]) -> Iterable[Node]:
    """The nodes of a table that was read without a problem."""
    for name, role, stripe, rail, plane, model, ports, attributes in zip(*table, strict=True):
        yield Node(
            name=name, role=role, stripe=stripe, rail=rail, plane=plane, model=model,
            ports=() if ports is None else port_sets[ports],
            attributes=tuple((attributes or {}).items()),
        )  # fmt: skip


def _links(
    table: list[Values], nodes: list[str], names: list[str], cables: list[Values]
) -> Iterable[Link]:  # fmt: skip
    """The links of a table that was read without a problem."""
    speeds, lengths = cables
    for a_node, a_port, b_node, b_port, cable in zip(*table, strict=True):
        yield Link(
            a=End(node=nodes[a_node], port=names[a_port]),
            b=End(node=nodes[b_node], port=names[b_port]),
            speed_bits_per_s=speeds[cable],
            cable_m=lengths[cable],
        )
