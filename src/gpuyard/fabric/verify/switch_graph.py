"""The switches as arrays for route computation: adjacency, and the BGP policy of each switch.

A route carries a label, a set of bits: its communities, and the AS numbers on its path that more
than one switch has. Unique AS numbers need no bit: a shortest path never visits a switch twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.topology.links import Link
from gpuyard.topology.nodes import SWITCH_ROLES, TIERS
from gpuyard.topology.topology import Topology

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DOWN, LEVEL, UP = 0, 1, 2  # direction of a session, and its index in the policy arrays
FROM_ABOVE = 1  # the bit of the community set on routes sent down
ALL_ROUTES = 1 << 30  # more ECMP paths than any switch has
MAX_SHARED = 60  # bits of a label for AS numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """BGP export policy: routes sent down get a community, marked routes are not sent up."""

    marks_down: bool = True
    refuses_up: bool = True
    multipath_count: int = 0  # maximum ECMP paths; 0 for all


VALLEY_FREE = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """The AS number and policy of one switch."""

    asn: int
    policy: Policy = VALLEY_FREE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SwitchGraph:
    """Switches and the links with a BGP session; an edge is a link seen from one end."""

    names: tuple[str, ...]
    roles: tuple[str, ...]
    planes: tuple[int, ...]
    tiers: Ints
    demand_bits_per_s: Floats  # of the servers below each switch
    server_speeds: tuple[tuple[tuple[float, int], ...], ...]  # speed and number of server links
    links: tuple[Link, ...]  # between switches
    ends: Ints  # two nodes per link
    speeds_bits_per_s: Floats  # per link
    as_bits: Ints  # per node: the bit of a shared AS number, or 0
    marks: Ints  # bits added to a route, by node and direction
    refuses: Ints  # bits that stop a route from being sent, by node and direction
    widths: Ints  # per node: maximum ECMP paths
    starts: Ints  # first edge of each node; one more than nodes
    edge_node: Ints  # far end of an edge
    edge_link: Ints  # link of an edge
    edge_reverse: Ints  # the same link, seen from the far end
    edge_marks: Ints  # `marks` of the near node in the direction of the edge
    edge_refuses: Ints  # `refuses` of the near node in the direction of the edge

    @property
    def size(self) -> int:
        return len(self.names)

    def edges_of(self, node: int) -> range:
        return range(int(self.starts[node]), int(self.starts[node + 1]))


def speakers_of(topology: Topology, policy: Policy = VALLEY_FREE) -> dict[str, Speaker]:
    """Return speakers for cabling without a configuration: unique AS numbers and one policy."""
    switches = [node.name for node in topology.nodes if node.role in SWITCH_ROLES]
    return {
        name: Speaker(asn=number, policy=policy) for number, name in enumerate(switches, start=1)
    }


def network_of(
    topology: Topology, speakers: dict[str, Speaker], dead_sessions: frozenset[Link] = frozenset()
) -> SwitchGraph:
    """Return the graph of the switches of a topology; links in `dead_sessions` carry no routes."""
    switches = [node for node in topology.nodes if node.role in SWITCH_ROLES]
    position = {node.name: index for index, node in enumerate(switches)}
    servers: list[Counter[float]] = [Counter() for _ in switches]
    links: list[Link] = []
    ends: list[tuple[int, int]] = []
    for link in topology.links:
        a, b = position.get(link.a.node), position.get(link.b.node)
        if a is not None and b is not None:
            if link not in dead_sessions:
                links.append(link)
                ends.append((a, b))
        elif (switch := a if a is not None else b) is not None:
            servers[switch][link.speed_bits_per_s] += 1
    speaking = [speakers[node.name] for node in switches]
    tiers = np.array([TIERS[node.role] for node in switches], np.int64)
    marks = np.zeros((len(switches), 3), np.int64)
    marks[:, DOWN] = [FROM_ABOVE * speaker.policy.marks_down for speaker in speaking]
    refuses = np.zeros((len(switches), 3), np.int64)
    refuses[:, UP] = [FROM_ABOVE * speaker.policy.refuses_up for speaker in speaking]
    refuses[:, LEVEL] = refuses[:, UP]
    # Each link is two edges, sorted by node, then neighbour, then link.
    ends_array = np.array(ends, np.int64).reshape(-1, 2)
    near, far = np.concatenate([ends_array, ends_array[:, ::-1]]).T
    link_number = np.tile(np.arange(len(links)), 2)
    order = np.lexsort((link_number, far, near))
    edge_position = np.empty(len(order), np.int64)
    edge_position[order] = np.arange(len(order))
    starts = np.zeros(len(switches) + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=len(switches)), out=starts[1:])
    near, far = near[order], far[order]
    direction = LEVEL + np.sign(tiers[far] - tiers[near])
    return SwitchGraph(
        names=tuple(node.name for node in switches),
        roles=tuple(node.role for node in switches),
        planes=tuple(-1 if node.plane is None else node.plane for node in switches),
        tiers=tiers,
        demand_bits_per_s=np.array(
            [sum(speed * count for speed, count in below.items()) for below in servers], np.float64
        ),
        server_speeds=tuple(tuple(sorted(below.items())) for below in servers),
        links=tuple(links),
        ends=ends_array,
        speeds_bits_per_s=np.array([link.speed_bits_per_s for link in links], np.float64),
        as_bits=_shared([speaker.asn for speaker in speaking]),
        marks=marks,
        refuses=refuses,
        widths=np.array(
            [speaker.policy.multipath_count or ALL_ROUTES for speaker in speaking], np.int64
        ),
        starts=starts,
        edge_node=far,
        edge_link=link_number[order],
        edge_reverse=edge_position[(order + len(links)) % max(1, len(order))],
        edge_marks=marks[near, direction],
        edge_refuses=refuses[near, direction],
    )


def _shared(asns: Sequence[int]) -> Ints:
    # One bit per AS number that several switches have, as far as a label has bits.
    shared = [asn for asn, count in Counter(asns).items() if count > 1][:MAX_SHARED]
    bit = {asn: 1 << (index + 1) for index, asn in enumerate(shared)}
    return np.array([bit.get(asn, 0) for asn in asns], np.int64)
