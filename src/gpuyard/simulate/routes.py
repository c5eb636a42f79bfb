"""ECMP routes, and the link that a flow's hash picks.

Hosts on the same leaves are one destination group, so the table is switches × groups and not
nodes × hosts. A packet climbs and then descends: a switch that can reach the destination by
descending alone descends. Hosts never forward. Two hosts of one server that share a scale-up switch
use it, and no other traffic does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError, Problem
from gpuyard.jit import jit
from gpuyard.simulate.network import Network, scale_up_switches
from gpuyard.simulate.route_tables import FAR, LAST, NONE, SwitchLinks, distances, link_sets
from gpuyard.simulate.splitmix import GOLDEN, mix64, mix64_array
from gpuyard.simulate.traffic import FlowSet

ROCE_PORT, UDP = 4791, 17

Nodes = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]


class Routes(NamedTuple):
    """The equal-cost next links from every switch to every group of destinations.

    A named tuple, because compiled functions accept it whole.
    """

    host_count: int
    group: Nodes  # of every host: its destination group; -1 if it has no link to the fabric
    table: Nodes  # [switch, group]: a set of links, -1 no route, -2 the destination is next
    set_index: Nodes  # CSR of the sets
    set_links: Nodes
    hops: npt.NDArray[np.int16]  # [switch, group]: links from the switch to a host of the group
    host_index: Nodes  # CSR: the links of a host into the fabric; link ^ 1 is the reverse
    host_links: Nodes
    link_to: Nodes
    server: Nodes
    scale_up: Nodes  # of every host: its link to the scale-up switch, or -1
    longest: int  # links of the longest route

    def __repr__(self) -> str:
        return f"<Routes of {self.table.shape[0]} switches to {self.table.shape[1]} groups>"


def routes_of(
    network: Network, *, up_down: bool = True, alive: npt.NDArray[np.bool_] | None = None
) -> Routes:
    """Compute the routes over the links that are alive in both directions.

    Without `up_down`, routes are plain shortest paths, which may deadlock under PFC.
    """
    hosts, links = network.host_count, np.arange(network.link_count)
    usable = np.ones(len(links), dtype=np.bool_) if alive is None else alive & alive[links ^ 1]
    is_scale_up = scale_up_switches(network)[network.link_to]
    from_host = network.link_from < hosts
    scale_up = np.full(hosts, NONE, dtype=np.int32)
    inside = np.flatnonzero(usable & from_host & is_scale_up)
    scale_up[network.link_from[inside]] = inside
    host_links, host_index = _by_origin(network, usable & from_host & ~is_scale_up, 0, hosts)
    group, leaves, leaf_index = _groups(network, host_links, host_index)
    between, out_index = _by_origin(
        network, usable & ~from_host & (network.link_to >= hosts), hosts, network.node_count
    )
    switches = SwitchLinks(
        tier=network.tier[hosts:],
        offset=out_index,
        link=between,
        to=network.link_to[between] - hosts,
    )
    distance = distances(switches, leaves, leaf_index, up_down)
    sets = link_sets(switches, distance, up_down)
    return Routes(
        host_count=hosts,
        group=group,
        table=sets.table,
        set_index=sets.offset,
        set_links=sets.link,
        hops=distance.hops,
        host_index=host_index,
        host_links=host_links.astype(np.int32),
        link_to=network.link_to,
        server=network.server,
        scale_up=scale_up,
        longest=1 + int(np.max(distance.hops, initial=1, where=distance.hops < FAR)),
    )


def _by_origin(
    network: Network, chosen: npt.NDArray[np.bool_], first: int, end: int
) -> tuple[npt.NDArray[np.int64], Nodes]:
    """The chosen links in CSR form by the node that sends on them, from `first` to `end`."""
    links = np.flatnonzero(chosen)
    links = links[np.argsort(network.link_from[links], kind="stable")]
    index = np.searchsorted(network.link_from[links], np.arange(first, end + 1))
    return links, index.astype(np.int32)


def _groups(
    network: Network, host_links: npt.NDArray[np.int64], host_index: Nodes
) -> tuple[Nodes, Nodes, Nodes]:
    """The group of every host, and the switches of every group in CSR form."""
    numbers: dict[tuple[int, ...], int] = {}
    group = np.full(network.host_count, NONE, dtype=np.int32)
    attached = network.link_to[host_links] - network.host_count
    for host in range(network.host_count):
        switches = tuple(sorted(set(attached[host_index[host] : host_index[host + 1]].tolist())))
        if switches:
            group[host] = numbers.setdefault(switches, len(numbers))
    index = np.cumsum([0, *(len(switches) for switches in numbers)], dtype=np.int32)
    leaves = np.array([switch for switches in numbers for switch in switches], dtype=np.int32)
    return group, leaves, index


def switch_salts(network: Network, seed: int, *, polarised: bool = False) -> Hashes:
    """Return the hash seed of every node; polarised switches share one, as vendor defaults do."""
    salts = drawn(seed, network.node_count)
    return np.full_like(salts, salts[0]) if polarised else salts


def drawn(seed: int, count: int) -> Hashes:
    """Draw 64-bit random numbers (SplitMix64); importing NumPy's generators would take 6 MB."""
    return mix64_array(np.uint64(seed % 2**64) + np.arange(count, dtype=np.uint64) * GOLDEN)


def flow_hash(traffic: FlowSet) -> Hashes:
    """Return the RoCE 5-tuple of every flow, hashed.

    It consists of the addresses, the UDP source port by queue pair, port 4791 and protocol UDP.
    """
    return _tuples(traffic.source, traffic.target, traffic.channel)


def host_ports(routes: Routes) -> int:
    """Return the largest number of ports into the fabric that a host has, one per plane."""
    return int(np.max(np.diff(routes.host_index), initial=1))


def flow_paths(
    routes: Routes, source: Nodes, target: Nodes, hashes: Hashes, salts: Hashes, port: Nodes
) -> Nodes:
    """Return the links of every flow as ECMP picks them, one row per flow, padded with -1.

    Among the ports of its host with a shortest path, a flow leaves on the one that is `port` places
    after the hashed one.

    Raises:
        NoRouteError: a flow has no route.
    """
    paths = np.full((len(source), routes.longest), NONE, dtype=np.int32)
    unreachable = _walk_all(routes, source, target, hashes, salts, port, paths)
    if unreachable != NONE:
        raise no_route(unreachable, int(source[unreachable]), int(target[unreachable]))
    return paths


class NoRouteError(InputError):
    """A flow between hosts that the network does not connect."""


def no_route(flow: int, source: int, target: int) -> NoRouteError:
    """Return the error for a flow without a route."""
    return NoRouteError(
        [
            Problem(
                where=f"traffic flow {flow}",
                what=f"no route from host {source} to host {target}",
                fix="send between connected hosts: rail-only fabrics connect one rail or server",
            )
        ]
    )


@jit(allocates=False)
def hash32(value: np.uint64, salt: np.uint64) -> np.uint64:
    """Hash a number with a salt to 32 bits."""
    return mix64(value ^ salt) >> np.uint64(32)


@jit
def _tuples(source: Nodes, target: Nodes, channel: Nodes) -> Hashes:
    """The source port is 0xC000 plus 14 bits of the queue pair, as RoCE drivers choose it."""
    hashes = np.empty(len(source), dtype=np.uint64)
    for flow in range(len(source)):
        pair = (np.uint64(source[flow]) << np.uint64(32)) | np.uint64(target[flow])
        port = np.uint64(0xC000) | (hash32(pair, np.uint64(channel[flow])) & np.uint64(0x3FFF))
        rest = (port << np.uint64(32)) | np.uint64(ROCE_PORT << 8 | UDP)
        hashes[flow] = (hash32(pair, rest) << np.uint64(32)) | hash32(rest, pair)
    return hashes


@jit(allocates=False)
def _walk_all(
    routes: Routes,
    source: Nodes,
    target: Nodes,
    hashes: Hashes,
    salts: Hashes,
    port: Nodes,
    paths: Nodes,
) -> int:
    """Write the path of every flow; return the first flow without one, or NONE."""
    for flow in range(len(source)):
        start, end = source[flow], target[flow]
        if shares_scale_up(routes, start, end):
            paths[flow, 0], paths[flow, 1] = routes.scale_up[start], routes.scale_up[end] ^ 1
            continue
        group = routes.group[end]
        link, hop = NONE, 0
        if group != NONE:
            link = _first_link(routes, start, group, hash32(hashes[flow], salts[start]), port[flow])
        while link != NONE:
            paths[flow, hop] = link
            here = routes.link_to[link]
            if here == end:
                break
            hop += 1
            link = _next_link(routes, here, end, group, hash32(hashes[flow], salts[here]))
        if link == NONE:
            return flow
    return NONE


@jit(forceinline=True, allocates=False)
def shares_scale_up(routes: Routes, one: int, other: int) -> bool:
    """Whether two hosts communicate over the scale-up switch of their server."""
    attached = routes.scale_up[one] != NONE and routes.scale_up[other] != NONE
    return bool(attached and routes.server[one] == routes.server[other])


@jit(forceinline=True, allocates=False)
def _first_link(routes: Routes, source: int, group: int, hashed: np.uint64, port: int) -> int:
    """The link on which a host sends: among those on a shortest path, by hash and port."""
    links = range(routes.host_index[source], routes.host_index[source + 1])
    best, count = FAR, 0
    for place in links:
        hops = routes.hops[routes.link_to[routes.host_links[place]] - routes.host_count, group]
        if hops < best:
            best, count = hops, 0
        count += hops == best
    if best == FAR:
        return NONE
    skip = (int(hashed % np.uint64(count)) + port) % count
    for place in links:
        link = routes.host_links[place]
        if routes.hops[routes.link_to[link] - routes.host_count, group] == best:
            if skip == 0:
                return int(link)
            skip -= 1
    return NONE


@jit(forceinline=True, allocates=False)
def _next_link(routes: Routes, here: int, target: int, group: int, hashed: np.uint64) -> int:
    """The link on which a switch forwards; NONE if there is no route."""
    chosen = routes.table[here - routes.host_count, group]
    if chosen == NONE:
        return NONE
    if chosen == LAST:
        for place in range(routes.host_index[target], routes.host_index[target + 1]):
            if routes.link_to[routes.host_links[place]] == here:
                return int(routes.host_links[place]) ^ 1
        return NONE
    count = routes.set_index[chosen + 1] - routes.set_index[chosen]
    return int(routes.set_links[routes.set_index[chosen] + int(hashed % np.uint64(count))])
