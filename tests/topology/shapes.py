"""Small fabrics for tests, and strategies that draw topologies of every kind."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import ROLES, Node, Port
from gpuyard.topology.topology import Topology

SPEED_BITS_PER_S = 400e9


def link(
    one: str, other: str, speed_bits_per_s: float = SPEED_BITS_PER_S, cable_m: float | None = None
) -> Link:
    """The cable between two ends written `node port`."""
    a, b = (End(node=text.rsplit(" ", 1)[0], port=text.rsplit(" ", 1)[1]) for text in (one, other))
    return Link(a=a, b=b, speed_bits_per_s=speed_bits_per_s, cable_m=cable_m)


def rail_fabric(
    stripes: int = 2, servers: int = 2, rails: int = 4, spines: int = 2, parallel: int = 1
) -> Topology:
    """Rail-optimised stripes: NIC k of each server on leaf k, each leaf to each spine `parallel` times."""
    nics = tuple(Port(name=f"gpu{rail}", rail=rail) for rail in range(rails))
    nodes = [Node(name=f"spine{spine}", role="spine") for spine in range(spines)]
    links = []
    for stripe in range(stripes):
        for place in range(servers):
            nodes.append(
                Node(name=f"server{stripe}.{place}", role="server", stripe=stripe, ports=nics)
            )
        for rail in range(rails):
            leaf = f"leaf{stripe}.{rail}"
            nodes.append(Node(name=leaf, role="leaf", stripe=stripe, rail=rail))
            links += [
                link(f"server{stripe}.{place} gpu{rail}", f"{leaf} down{place}")
                for place in range(servers)
            ]
            links += [
                link(f"{leaf} up{spine}.{lane}", f"spine{spine} {leaf}.{lane}")
                for spine in range(spines)
                for lane in range(parallel)
            ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


def three_tier(pods: int = 2, leaves: int = 2, spines: int = 2, cores: int = 2) -> Topology:
    """Pods of leaves and spines, each leaf with one server, each spine to each core."""
    nodes = [Node(name=f"core{core}", role="core") for core in range(cores)]
    links = []
    for pod in range(pods):
        for spine in range(spines):
            nodes.append(Node(name=f"spine{pod}.{spine}", role="spine"))
            links += [
                link(f"spine{pod}.{spine} up{core}", f"core{core} {pod}.{spine}")
                for core in range(cores)
            ]
        for leaf in range(leaves):
            nodes += [
                Node(name=f"leaf{pod}.{leaf}", role="leaf"),
                Node(name=f"server{pod}.{leaf}", role="server"),
            ]
            links.append(link(f"server{pod}.{leaf} gpu0", f"leaf{pod}.{leaf} down"))
            links += [
                link(f"leaf{pod}.{leaf} up{spine}", f"spine{pod}.{spine} down{leaf}")
                for spine in range(spines)
            ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


def two_planes(servers: int = 2, leaves: int = 2) -> Topology:
    """Servers with one NIC port in each of two planes that no switch joins."""
    ports = tuple(Port(name=f"gpu0p{plane}", rail=0, plane=plane) for plane in range(2))
    nodes = [Node(name=f"server{place}", role="server", ports=ports) for place in range(servers)]
    links = []
    for plane in range(2):
        nodes.append(Node(name=f"spine-p{plane}", role="spine", plane=plane))
        for leaf in range(leaves):
            name = f"leaf{leaf}-p{plane}"
            nodes.append(Node(name=name, role="leaf", plane=plane))
            links.append(link(f"{name} up", f"spine-p{plane} down{leaf}"))
        links += [
            link(f"server{place} gpu0p{plane}", f"leaf{place % leaves}-p{plane} down{place}")
            for place in range(servers)
        ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


_numbers = st.none() | st.integers(0, 3)
_names = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=6)
_attributes = st.dictionaries(
    _names, st.text(st.characters(exclude_categories=("C", "Z")), max_size=4), max_size=2
)
_cables = st.tuples(
    st.sampled_from([100e9, 400e9, 800e9]), st.none() | st.sampled_from([0.0, 2.5, 30.0])
)


@st.composite
def topologies(
    draw: st.DrawFn, max_nodes: int = 7, ports: int = 4, letters: bool = True
) -> Topology:
    """Any topology over a few names and ports, so that two draws meet in many of them."""
    count = draw(st.integers(0, max_nodes))
    declared = tuple(Port(name=f"p{port}", rail=port) for port in range(ports))
    nodes = [
        Node(
            name=f"n{number}",
            role=draw(st.sampled_from(ROLES)),
            stripe=draw(_numbers),
            rail=draw(_numbers),
            plane=draw(_numbers),
            model=draw(st.none() | _names) if letters else None,
            ports=declared if draw(st.booleans()) else (),
            attributes=tuple(draw(_attributes).items()) if letters else (),
        )
        for number in draw(st.permutations(range(max_nodes)))[:count]
    ]
    slots = draw(
        st.permutations(
            [End(node=node.name, port=f"p{port}") for node in nodes for port in range(ports)]
        )
    )
    pairs = list(zip(slots[::2], slots[1::2], strict=False))
    wanted = len(pairs) - draw(st.integers(0, len(pairs)))
    links = []
    for a, b in pairs[:wanted]:
        if a.node != b.node:
            speed, cable_m = draw(_cables)
            links.append(Link(a=a, b=b, speed_bits_per_s=speed, cable_m=cable_m))
    return Topology(nodes=tuple(nodes), links=tuple(links))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Topology, Topology]:
    """A design and what became of it: cables moved, swapped, lost, slower; nodes lost and altered."""
    design = draw(topologies())
    if draw(st.integers(0, 4)) == 0:
        return design, draw(topologies())
    lost = set(
        draw(st.lists(st.sampled_from([node.name for node in design.nodes]), max_size=1))
        if design.nodes
        else ()
    )
    kept = design.without(nodes=lost)
    touched = (
        draw(st.lists(st.sampled_from(kept.links), unique=True, max_size=4)) if kept.links else []
    )
    ends = draw(st.permutations([end for one in touched for end in one.ends]))
    links = [one for one in kept.links if one not in touched]
    for a, b in zip(ends[::2], ends[1::2], strict=True):
        if a.node != b.node and draw(st.integers(0, 3)):
            speed, cable_m = draw(_cables)
            links.append(Link(a=a, b=b, speed_bits_per_s=speed, cable_m=cable_m))
    nodes = [
        replace(node, rail=draw(_numbers)) if draw(st.integers(0, 5)) == 0 else node
        for node in kept.nodes
    ]
    return design, Topology(nodes=tuple(nodes), links=tuple(links))


def chain(length: int) -> Topology:
    """Leaves in a row, each joined to the next."""
    nodes = tuple(Node(name=f"n{number:05}", role="leaf") for number in range(length))
    links = tuple(
        link(f"n{number:05} right", f"n{number + 1:05} left") for number in range(length - 1)
    )
    return Topology(nodes=nodes, links=links)
