"""Equal-cost routes: which links a node may take to a destination, and which of them a flow's hash picks.

Hosts on the same leaves are one destination group, so the table is switches × groups and not nodes × hosts. A
packet climbs and then descends: a switch from which the destination can be reached going down alone goes down.
Hosts never forward. Two hosts of one server that share a scale-up switch use it and nothing else does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.errors import InputError
from gpuyard.simulate.network import Network
from gpuyard.simulate.route_tables import FAR, LAST, NONE, distances, link_sets
from gpuyard.simulate.traffic import Traffic

__all__ = [
    "LAST", "NONE", "Routes", "drawn", "flow_hash", "flow_paths", "hash32", "last_link", "next_links", "routes_of",
    "scale_up_switches", "switch_salts",
]  # fmt: skip

ROCE_PORT, UDP = 4791, 17


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Routes:
    """The equal-cost next links of every switch to every group of destinations, in shared sets."""

    host_count: int
    group: npt.NDArray[np.int32]  # of every host: its destination group; -1 if it has no link to the fabric
    table: npt.NDArray[np.int32]  # [switch, group]: a set of links, -1 no way, -2 the destination is next
    set_index: npt.NDArray[np.int32]  # CSR of the sets
    set_links: npt.NDArray[np.int32]
    hops: npt.NDArray[np.int16]  # [switch, group]: links from the switch to a host of the group
    host_index: npt.NDArray[np.int32]  # CSR: the links of a host into the fabric; link ^ 1 comes back
    host_links: npt.NDArray[np.int32]
    link_to: npt.NDArray[np.int32]
    server: npt.NDArray[np.int32]
    scale_up: npt.NDArray[np.int32]  # of every host: its link to the scale-up switch, or -1
    longest: int  # the most links that a route has

    def __repr__(self) -> str:
        return f"<Routes of {self.table.shape[0]} switches to {self.table.shape[1]} groups>"


def routes_of(network: Network, *, up_down: bool = True, alive: npt.NDArray[np.bool_] | None = None) -> Routes:
    """The routes over the links that are alive; without `up_down`, plain shortest paths (which may deadlock)."""
    usable = np.ones(network.link_count, dtype=np.bool_) if alive is None else alive & alive[np.arange(len(alive)) ^ 1]
    hosts = network.host_count
    inner = scale_up_switches(network)
    from_host = network.link_from < hosts
    scale_up = np.full(hosts, NONE, dtype=np.int32)
    inside = np.flatnonzero(usable & from_host & inner[network.link_to])
    scale_up[network.link_from[inside]] = inside
    fabric = np.flatnonzero(usable & from_host & ~inner[network.link_to])
    fabric = fabric[np.argsort(network.link_from[fabric], kind="stable")]
    host_index = np.searchsorted(network.link_from[fabric], np.arange(hosts + 1)).astype(np.int32)
    group, leaves, leaf_index = _groups(network, fabric, host_index)
    inner_links = np.flatnonzero(usable & ~from_host & (network.link_to >= hosts))
    between = inner_links[np.argsort(network.link_from[inner_links], kind="stable")]
    out_index = np.searchsorted(network.link_from[between], np.arange(hosts, network.node_count + 1)).astype(np.int32)
    far, hops, down = distances(
        network.tier[hosts:], out_index, network.link_to[between] - hosts, leaves, leaf_index, up_down
    )
    table, set_index, set_links = link_sets(
        network.tier[hosts:], out_index, between, network.link_to[between] - hosts, hops, down, up_down
    )
    return Routes(
        host_count=hosts,
        group=group,
        table=table,
        set_index=set_index,
        set_links=set_links,
        hops=hops,
        host_index=host_index,
        host_links=fabric.astype(np.int32),
        link_to=network.link_to,
        server=network.server,
        scale_up=scale_up,
        longest=max(2, int(far) + 1),
    )


def switch_salts(network: Network, seed: int, *, polarised: bool = False) -> npt.NDArray[np.uint64]:
    """What every switch adds to its hash; polarised switches all add the same, as with one vendor's default seed."""
    salts = drawn(seed, network.node_count)
    return np.full_like(salts, salts[0]) if polarised else salts


def drawn(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """So many numbers of 64 bits by the seed (SplitMix64); NumPy's generators would take 6 MB in every process."""
    state = np.uint64(seed % 2**64) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(state ^ (state >> np.uint64(31)))


def flow_hash(traffic: Traffic) -> npt.NDArray[np.uint64]:
    """The RoCE 5-tuple of every flow as one number: addresses, UDP source port from the queue pair, 4791, UDP."""
    return _tuples(traffic.source, traffic.target, traffic.channel)


def flow_paths(
    routes: Routes,
    source: npt.NDArray[np.int32],
    target: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.uint64],
    salts: npt.NDArray[np.uint64],
) -> npt.NDArray[np.int32]:
    """The links of every flow as ECMP picks them, one row a flow, filled up with -1; InputError if there is no way."""
    paths = np.full((len(source), routes.longest), NONE, dtype=np.int32)
    lost = _walk_all(
        source, target, hashes, salts, paths, routes.host_count, routes.group, routes.table, routes.set_index,
        routes.set_links, routes.hops, routes.host_index, routes.host_links, routes.link_to, routes.server,
        routes.scale_up,
    )  # fmt: skip
    if lost >= 0:
        raise InputError.one(
            f"traffic flow {lost}",
            f"no route from host {source[lost]} to host {target[lost]}",
            "join them, or send between hosts that are joined",
        )
    return paths


def next_links(routes: Routes, node: int, target: int) -> npt.NDArray[np.int32]:
    """The equal-cost links from a switch to a host."""
    group = int(routes.group[target])
    chosen = NONE if group < 0 else routes.table[node - routes.host_count, group]
    if chosen == LAST:
        links = routes.host_links[routes.host_index[target] : routes.host_index[target + 1]]
        back: npt.NDArray[np.int32] = links[routes.link_to[links] == node] ^ np.int32(1)
        return back
    if chosen == NONE:
        return np.empty(0, dtype=np.int32)
    return routes.set_links[routes.set_index[chosen] : routes.set_index[chosen + 1]]


@compiled
def hash32(value: np.uint64, salt: np.uint64) -> np.uint64:
    """A well-mixed 32-bit number of a tuple and a salt (the finaliser of SplitMix64)."""
    mixed = (value ^ salt) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)


@compiled
def _tuples(
    source: npt.NDArray[np.int32], target: npt.NDArray[np.int32], channel: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint64]:
    """The 5-tuples, mixed; the source port is 0xC000 plus 14 bits of the queue pair, as the RoCE drivers make it."""
    made = np.empty(len(source), dtype=np.uint64)
    for flow in range(len(source)):
        pair = (np.uint64(source[flow]) << np.uint64(32)) | np.uint64(target[flow])
        port = np.uint64(0xC000) | (hash32(pair, np.uint64(channel[flow])) & np.uint64(0x3FFF))
        rest = (port << np.uint64(32)) | np.uint64(ROCE_PORT << 8 | UDP)
        made[flow] = (hash32(pair, rest) << np.uint64(32)) | hash32(rest, pair)
    return made


def scale_up_switches(network: Network) -> npt.NDArray[np.bool_]:
    """Nodes that join several hosts of one server and nothing else."""
    hosts, nodes = network.host_count, network.node_count
    owner = np.append(network.server, np.full(nodes - hosts, NONE, dtype=np.int32))[network.link_from]
    lowest = np.full(nodes, np.iinfo(np.int32).max, dtype=np.int32)
    highest = np.full(nodes, -2, dtype=np.int32)
    np.minimum.at(lowest, network.link_to, owner)
    np.maximum.at(highest, network.link_to, owner)
    several = np.bincount(network.link_to, minlength=nodes) > 1
    inside: npt.NDArray[np.bool_] = (np.arange(nodes) >= hosts) & (lowest == highest) & (lowest >= 0) & several
    return inside


def _groups(
    network: Network, fabric: npt.NDArray[np.int64], host_index: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The group of every host, and the switches of every group in CSR form."""
    seen: dict[tuple[int, ...], int] = {}
    group = np.full(network.host_count, NONE, dtype=np.int32)
    attached = network.link_to[fabric] - network.host_count
    for host in range(network.host_count):
        switches = tuple(sorted(set(attached[host_index[host] : host_index[host + 1]].tolist())))
        if switches:
            group[host] = seen.setdefault(switches, len(seen))
    index = np.cumsum([0, *(len(switches) for switches in seen)], dtype=np.int32)
    return group, np.array([switch for switches in seen for switch in switches], dtype=np.int32), index


@compiled
def _first_link(
    source: int,
    group: int,
    hashed: np.uint64,
    host_count: int,
    table: npt.NDArray[np.int32],
    hops: npt.NDArray[np.int16],
    host_index: npt.NDArray[np.int32],
    host_links: npt.NDArray[np.int32],
    link_to: npt.NDArray[np.int32],
) -> int:
    """The link on which a host sends towards a group: of those on a shortest path, the one that the hash picks."""
    best, count = FAR, 0
    for place in range(host_index[source], host_index[source + 1]):
        switch = link_to[host_links[place]] - host_count
        far = hops[switch, group] if table[switch, group] != NONE else FAR
        if far < best:
            best, count = far, 0
        count += far == best
    if best == FAR:
        return NONE
    wanted = int(hashed % np.uint64(count))
    for place in range(host_index[source], host_index[source + 1]):
        if hops[link_to[host_links[place]] - host_count, group] == best:
            if wanted == 0:
                return int(host_links[place])
            wanted -= 1
    return NONE


@compiled
def last_link(
    switch: int,
    target: int,
    host_index: npt.NDArray[np.int32],
    host_links: npt.NDArray[np.int32],
    link_to: npt.NDArray[np.int32],
) -> int:
    """The link from a switch to a host beside it."""
    for place in range(host_index[target], host_index[target + 1]):
        if link_to[host_links[place]] == switch:
            return int(host_links[place]) ^ 1
    return NONE


@compiled
def _walk_all(
    source: npt.NDArray[np.int32],
    target: npt.NDArray[np.int32],
    hashes: npt.NDArray[np.uint64],
    salts: npt.NDArray[np.uint64],
    paths: npt.NDArray[np.int32],
    host_count: int,
    group: npt.NDArray[np.int32],
    table: npt.NDArray[np.int32],
    set_index: npt.NDArray[np.int32],
    set_links: npt.NDArray[np.int32],
    hops: npt.NDArray[np.int16],
    host_index: npt.NDArray[np.int32],
    host_links: npt.NDArray[np.int32],
    link_to: npt.NDArray[np.int32],
    server: npt.NDArray[np.int32],
    scale_up: npt.NDArray[np.int32],
) -> int:
    """Writes the path of every flow; gives the first flow without one, or -1."""
    for flow in range(len(source)):
        start, end = source[flow], target[flow]
        if server[start] == server[end] and scale_up[start] != NONE and scale_up[end] != NONE:
            paths[flow, 0], paths[flow, 1] = scale_up[start], scale_up[end] ^ 1
            continue
        to = group[end]
        picked = hash32(hashes[flow], salts[start])
        link = NONE
        if to != NONE:
            link = _first_link(start, to, picked, host_count, table, hops, host_index, host_links, link_to)
        step = 0
        while link != NONE:
            paths[flow, step] = link
            here = link_to[link]
            if here == end:
                break
            step += 1
            chosen = table[here - host_count, to]
            if chosen == LAST:
                link = last_link(here, end, host_index, host_links, link_to)
            elif chosen == NONE:
                link = NONE
            else:
                count = set_index[chosen + 1] - set_index[chosen]
                place = int(hash32(hashes[flow], salts[here]) % np.uint64(count))
                link = int(set_links[set_index[chosen] + place])
        if link == NONE:
            return flow
    return -1
