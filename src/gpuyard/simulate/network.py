"""The simulated network: hosts and switches connected by one-way links, as arrays.

A host is one endpoint, a GPU with its NIC. Every cable is two links, 2i and 2i + 1, so link i ^ 1
is the reverse of link i. Shapes: the k-ary fat tree numbered as csg-htsim numbers it, leaf and
spine, one switch, and any `Topology`, of which every server port becomes a host.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError

if TYPE_CHECKING:  # a shape needs no topology, nor what reads one
    from gpuyard.topology.links import Link
    from gpuyard.topology.nodes import Node
    from gpuyard.topology.topology import Topology


# Light in single-mode fibre: group index 1.4682 at 1550 nm (Corning SMF-28 product information),
# over 299,792,458 m/s.
FIBRE_S_PER_M = 1.4682 / 299_792_458

HOST, LEAF, SPINE, CORE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Network:
    """Hosts and switches connected by one-way links, as arrays; hosts come first."""

    host_count: int
    tier: npt.NDArray[np.int8]  # of every node: 0 host, 1 leaf (or NVLink switch), 2 spine, 3 core
    link_from: npt.NDArray[np.int32]
    link_to: npt.NDArray[np.int32]
    rate_bits_per_s: npt.NDArray[np.float64]
    delay_s: npt.NDArray[np.float64]
    names: tuple[str, ...]  # of every node
    server: npt.NDArray[np.int32]  # of each host

    def __repr__(self) -> str:
        return (
            f"<Network of {self.host_count} hosts, {self.switch_count} switches and"
            f" {self.link_count} links>"
        )

    @property
    def node_count(self) -> int:
        """Number of hosts and switches."""
        return len(self.tier)

    @property
    def switch_count(self) -> int:
        return len(self.tier) - self.host_count

    @property
    def link_count(self) -> int:
        return len(self.link_from)

    def link_name(self, link: int) -> str:
        return f"{self.names[self.link_from[link]]} → {self.names[self.link_to[link]]}"

    def node(self, name: str) -> int:
        if name not in self.names:
            raise InputError.one(
                "network", f'no node named "{name}"', f'name a node, such as "{self.names[-1]}"'
            )
        return self.names.index(name)

    def links_between(self, one: int, other: int) -> npt.NDArray[np.int64]:
        """Return the links from one node to another."""
        return np.flatnonzero((self.link_from == one) & (self.link_to == other))


def network_of(
    *,
    tier: npt.NDArray[np.int8],
    ends: npt.NDArray[np.int32],
    rate_bits_per_s: npt.NDArray[np.float64],
    delay_s: npt.NDArray[np.float64],
    names: tuple[str, ...],
    server: npt.NDArray[np.int32] | None = None,
) -> Network:
    """Return the network of these cables, one per row of `ends`; hosts (tier 0) come first."""
    host_count = int(np.count_nonzero(tier == HOST))
    if np.any(tier[:host_count] != HOST):
        raise InputError.one(
            "network", "a switch is listed before a host", "number the hosts first"
        )
    if np.any(rate_bits_per_s <= 0) or np.any(delay_s < 0):
        raise InputError.one(
            "network", "a link without a rate, or with a negative delay", "give both in SI units"
        )
    return Network(
        host_count=host_count,
        tier=tier.astype(np.int8),
        link_from=ends.reshape(-1).astype(np.int32),
        link_to=ends[:, ::-1].reshape(-1).astype(np.int32),
        rate_bits_per_s=np.repeat(rate_bits_per_s, 2).astype(np.float64),
        delay_s=np.repeat(delay_s, 2).astype(np.float64),
        names=names,
        server=np.arange(host_count, dtype=np.int32) if server is None else server.astype(np.int32),
    )


def single_switch(hosts: int, *, rate_bits_per_s: float, delay_s: float) -> Network:
    """Return hosts on one switch."""
    ends = np.array([(host, hosts) for host in range(hosts)], dtype=np.int32)
    tiers = np.array([HOST] * hosts + [LEAF], dtype=np.int8)
    return _uniform(tiers, ends, rate_bits_per_s, delay_s, (*_numbered("host", hosts), "leaf0"))


def leaf_spine(
    hosts: int,
    *,
    hosts_per_leaf: int,
    spines: int,
    rate_bits_per_s: float,
    delay_s: float,
    spine_rate_bits_per_s: float | None = None,
    cables: int = 1,
) -> Network:
    """Return hosts on leaves and every leaf on every spine, with parallel cables."""
    leaves = -(-hosts // hosts_per_leaf)
    first_leaf, first_spine = hosts, hosts + leaves
    down = [(host, first_leaf + host // hosts_per_leaf) for host in range(hosts)]
    up = [
        (first_leaf + leaf, first_spine + spine)
        for leaf in range(leaves)
        for spine in range(spines)
        for _ in range(cables)
    ]
    rates = [rate_bits_per_s] * len(down) + [spine_rate_bits_per_s or rate_bits_per_s] * len(up)
    return network_of(
        tier=np.repeat(np.array([HOST, LEAF, SPINE], dtype=np.int8), [hosts, leaves, spines]),
        ends=np.array(down + up, dtype=np.int32),
        rate_bits_per_s=np.array(rates),
        delay_s=np.full(len(rates), delay_s),
        names=(*_numbered("host", hosts), *_numbered("leaf", leaves), *_numbered("spine", spines)),
    )


def fat_tree(hosts: int, *, rate_bits_per_s: float, delay_s: float) -> Network:
    """Return the k-ary fat tree of k³/4 hosts, numbered and wired as in csg-htsim."""
    radix = round((4 * hosts) ** (1 / 3))
    if hosts < 2 or radix % 2 or radix**3 != 4 * hosts:
        near = sorted(
            (2, 16, 54, 128, 250, 432, 686, 1024, 2000, 3456, 8192),
            key=lambda size: abs(size - hosts),
        )
        raise InputError.one(
            "fat-tree",
            f"{hosts} hosts are not k³/4 for an even k",
            f"use {near[0]} or {near[1]} hosts",
        )
    half = radix // 2
    leaves = spines = radix * half
    cores = half * half
    first_leaf, first_spine = hosts, hosts + leaves
    first_core = first_spine + spines
    host = np.arange(hosts)
    leaf, up = np.divmod(np.arange(leaves * half), half)
    spine, stripe = np.divmod(np.arange(spines * half), half)
    ends = np.concatenate(
        [
            np.stack([host, first_leaf + host // half], axis=1),
            np.stack([first_leaf + leaf, first_spine + leaf // half * half + up], axis=1),
            np.stack([first_spine + spine, first_core + spine % half + half * stripe], axis=1),
        ]
    )
    tiers = np.repeat(
        np.array([HOST, LEAF, SPINE, CORE], dtype=np.int8), [hosts, leaves, spines, cores]
    )
    names = (
        *_numbered("host", hosts),
        *_numbered("leaf", leaves),
        *_numbered("spine", spines),
        *_numbered("core", cores),
    )
    return _uniform(tiers, ends.astype(np.int32), rate_bits_per_s, delay_s, names)


def from_topology(
    topology: Topology,
    *,
    port_delay_s: float,
    unknown_cable_m: float | None = None,
    scale_up_bits_per_s: float | None = None,
    scale_up_delay_s: float = 0.0,
) -> Network:
    """Return the network of a topology: every wired server port becomes a host.

    With a scale-up rate, the hosts of a server are connected by a switch.

    The delay of a link is `port_delay_s` (what the receiving port and switch take) plus the light's
    way through the cable; `unknown_cable_m` is used for cables of which nobody knows the length.
    """
    servers = {node.name: node for node in topology.nodes if node.role == "server"}
    switches = [node for node in topology.nodes if node.role != "server"]
    ports = _wired_ports(topology, servers)
    if not ports:
        raise InputError.one("topology", "no server port is wired", "give it servers with links")
    positions = {end: host for host, end in enumerate(ports)}
    numbers = {name: number for number, name in enumerate(servers)}
    of_switch = {node.name: len(ports) + place for place, node in enumerate(switches)}

    ends = [
        tuple(of_switch.get(end.node, positions.get((end.node, end.port), -1)) for end in link.ends)
        for link in topology.links
    ]
    rates = [link.speed_bits_per_s for link in topology.links]
    delays = [
        port_delay_s + FIBRE_S_PER_M * _length_m(link, unknown_cable_m) for link in topology.links
    ]
    tiers = [HOST] * len(ports) + [node.tier for node in switches]
    names = [f"{node} {port}" for node, port in ports] + [node.name for node in switches]
    if scale_up_bits_per_s is not None:
        first = len(tiers)
        tiers += [LEAF] * len(servers)
        names += [f"{name} scale-up" for name in servers]
        ends += [(host, first + numbers[node]) for host, (node, _) in enumerate(ports)]
        rates += [scale_up_bits_per_s] * len(ports)
        delays += [scale_up_delay_s] * len(ports)
    return network_of(
        tier=np.array(tiers, dtype=np.int8),
        ends=np.array(ends, dtype=np.int32),
        rate_bits_per_s=np.array(rates),
        delay_s=np.array(delays),
        names=tuple(names),
        server=np.array([numbers[node] for node, _ in ports], dtype=np.int32),
    )


def _wired_ports(topology: Topology, servers: dict[str, Node]) -> list[tuple[str, str]]:
    """The server ports that a cable is in, by server, then rail, then name."""
    wired = [
        (end.node, end.port) for link in topology.links for end in link.ends if end.node in servers
    ]

    def order(end: tuple[str, str]) -> tuple[str, float, list[tuple[int, str]]]:
        rail = servers[end[0]].rail_of(end[1])
        return end[0], math.inf if rail is None else rail, _natural(end[1])

    return sorted(wired, key=order)


def _natural(name: str) -> list[tuple[int, str]]:
    """A key that puts port 2 before port 10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _length_m(link: Link, unknown_cable_m: float | None) -> float:
    if link.cable_m is not None:
        return link.cable_m
    if unknown_cable_m is None:
        raise InputError.one(
            "topology", f"{link}: no cable length", "give cable_m, or unknown_cable_m for all such"
        )
    return unknown_cable_m


def _uniform(
    tiers: npt.NDArray[np.int8],
    ends: npt.NDArray[np.int32],
    rate: float,
    delay: float,
    names: tuple[str, ...],
) -> Network:
    rates, delays = np.full(len(ends), rate), np.full(len(ends), delay)
    return network_of(tier=tiers, ends=ends, rate_bits_per_s=rates, delay_s=delays, names=names)


def _numbered(noun: str, count: int) -> tuple[str, ...]:
    return tuple(f"{noun}{number}" for number in range(count))


def scale_up_switches(network: Network) -> npt.NDArray[np.bool_]:
    """Return the nodes that connect several hosts of one server and nothing else."""
    hosts, nodes = network.host_count, network.node_count
    owner = np.append(network.server, np.full(nodes - hosts, -1, dtype=np.int32))[network.link_from]
    lowest = np.full(nodes, np.iinfo(np.int32).max, dtype=np.int32)
    highest = np.full(nodes, -2, dtype=np.int32)
    np.minimum.at(lowest, network.link_to, owner)
    np.maximum.at(highest, network.link_to, owner)
    several = np.bincount(network.link_to, minlength=nodes) > 1
    inside: npt.NDArray[np.bool_] = (
        (np.arange(nodes) >= hosts) & (lowest == highest) & (lowest >= 0) & several
    )
    return inside
