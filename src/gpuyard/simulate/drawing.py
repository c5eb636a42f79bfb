"""A simulated network as a drawable topology."""

from __future__ import annotations

from gpuyard.simulate.network import Network, scale_up_switches
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Role
from gpuyard.topology.topology import Topology

ROLES: tuple[Role, ...] = ("server", "leaf", "spine", "core")


def device_names(network: Network, topology: Topology) -> tuple[str, ...]:
    """The device that each node belongs to in the drawing; empty for scale-up switches."""
    drawn = {node.name for node in topology.nodes}
    names = []
    for node, name in enumerate(network.names):
        owner = name if name in drawn else name.partition(" ")[0]
        if owner not in drawn and node < network.host_count:
            owner = _server(network, node)
        names.append(
            "" if owner not in drawn or (node >= network.host_count and owner != name) else owner
        )
    return tuple(names)


def topology_of(network: Network) -> Topology:
    """The topology of a network that no file describes."""
    hosts = network.host_count
    inside = scale_up_switches(network)
    shown = [number for number in range(hosts, network.node_count) if not inside[number]]
    stripes = _stripes(network)
    nodes = [
        Node(
            name=network.names[number],
            role=ROLES[int(network.tier[number])],
            stripe=stripes.get(number),
        )
        for number in shown
    ]
    nodes += [
        Node(name=name, role="server")
        for name in dict.fromkeys(_server(network, host) for host in range(hosts))
    ]
    links = []
    for cable in range(0, network.link_count, 2):
        one, other = int(network.link_from[cable]), int(network.link_to[cable])
        if inside[one] or inside[other]:
            continue
        ends = [
            End(
                node=_server(network, node) if node < hosts else network.names[node],
                port=f"p{cable // 2}",
            )
            for node in (one, other)
        ]
        links.append(
            Link(a=ends[0], b=ends[1], speed_bits_per_s=float(network.rate_bits_per_s[cable]))
        )
    return Topology(nodes=tuple(nodes), links=tuple(links))


def _server(network: Network, host: int) -> str:
    """The name of a host's server; a host alone on its server is its own."""
    name = network.names[host]
    return name.partition(" ")[0] if " " in name else name


def _stripes(network: Network) -> dict[int, int]:
    """Group leaves by the switches above them; empty if that is one group or none."""
    hosts = network.host_count
    above: dict[int, set[int]] = {}
    for one, other in zip(network.link_from.tolist(), network.link_to.tolist(), strict=True):
        if one >= hosts and network.tier[one] == 1:
            above.setdefault(one, set())
            if network.tier[other] > 1:
                above[one].add(other)
    groups = {
        key: number
        for number, key in enumerate(dict.fromkeys(frozenset(value) for value in above.values()))
    }
    if len(groups) < 2:
        return {}
    return {leaf: groups[frozenset(value)] for leaf, value in above.items()}
