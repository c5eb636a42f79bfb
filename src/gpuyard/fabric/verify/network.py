"""The switches as arrays, for loops over every route: who is joined to whom, and what each lets through.

A route that travels carries a label, a set of bits: the communities that were put on it, and the AS numbers that more
than one switch has. An AS number of one switch alone needs no bit: a shortest path never meets a switch twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.topology import SWITCH_ROLES, TIERS, Link, Topology

__all__ = ["ALL_ROUTES", "DOWN", "LEVEL", "UP", "Network", "Policy", "Speaker", "network_of", "speakers_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

DOWN, LEVEL, UP = 0, 1, 2  # where a session leads; also the place in the arrays of policy
FROM_ABOVE = 1  # the bit of the community that marks what was sent down
ALL_ROUTES = 1 << 30  # more equal routes than any switch has
MAX_SHARED = 60  # bits of a label that are left for AS numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a switch does with routes: marks on the way down, and refuses of marked ones on the way up."""

    marks_down: bool = True
    refuses_up: bool = True
    multipath_count: int = 0  # equal routes used at once; 0 for all of them


VALLEY_FREE = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """One switch as a BGP speaker."""

    asn: int
    policy: Policy = VALLEY_FREE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Network:
    """Switches and the links between them on which a session stands; edges are links seen from one end."""

    names: tuple[str, ...]
    roles: tuple[str, ...]
    planes: tuple[int, ...]
    tiers: Ints
    demand_bits_per_s: Floats  # of the servers below each switch
    server_speeds: tuple[tuple[tuple[float, int], ...], ...]  # speed and number of the links to servers
    links: tuple[Link, ...]  # between switches
    ends: Ints  # two nodes a link
    speeds_bits_per_s: Floats  # a link
    starts: Ints  # where a node's edges begin; one more than nodes
    edge_node: Ints  # the far end of an edge
    edge_link: Ints  # the link of an edge
    as_bits: Ints  # the bit of an AS number that others have too, or 0
    marks: Ints  # bits put on a route, by node and direction
    refuses: Ints  # bits that keep a route from leaving, by node and direction
    widths: Ints  # how many equal routes a node uses

    @property
    def size(self) -> int:
        """How many switches there are."""
        return len(self.names)

    def edges_of(self, node: int) -> range:
        """The edges of a node."""
        return range(int(self.starts[node]), int(self.starts[node + 1]))


def speakers_of(topology: Topology, policy: Policy = VALLEY_FREE) -> dict[str, Speaker]:
    """Every switch with an AS number of its own and the policy of a design: for cabling without a configuration."""
    switches = [node.name for node in topology.nodes if node.role in SWITCH_ROLES]
    return {name: Speaker(asn=number, policy=policy) for number, name in enumerate(switches, start=1)}


def network_of(
    topology: Topology, speakers: dict[str, Speaker], dead_sessions: frozenset[Link] = frozenset()
) -> Network:  # fmt: skip
    """The network of the switches of a topology; links in `dead_sessions` carry no routes."""
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
    return _with_edges(
        Network(
            names=tuple(node.name for node in switches),
            roles=tuple(node.role for node in switches),
            planes=tuple(-1 if node.plane is None else node.plane for node in switches),
            tiers=np.array([TIERS[node.role] for node in switches], np.int64),
            demand_bits_per_s=np.array([sum(s * n for s, n in below.items()) for below in servers], np.float64),
            server_speeds=tuple(tuple(sorted(below.items())) for below in servers),
            links=tuple(links),
            ends=np.array(ends, np.int64).reshape(-1, 2),
            speeds_bits_per_s=np.array([link.speed_bits_per_s for link in links], np.float64),
            starts=np.zeros(0, np.int64),
            edge_node=np.zeros(0, np.int64),
            edge_link=np.zeros(0, np.int64),
            as_bits=_shared([speaker.asn for speaker in speaking]),
            marks=np.array([[FROM_ABOVE * s.policy.marks_down, 0, 0] for s in speaking], np.int64).reshape(-1, 3),
            refuses=np.array(
                [[0, FROM_ABOVE * s.policy.refuses_up, FROM_ABOVE * s.policy.refuses_up] for s in speaking], np.int64
            ).reshape(-1, 3),
            widths=np.array([s.policy.multipath_count or ALL_ROUTES for s in speaking], np.int64),
        )
    )


def _with_edges(network: Network) -> Network:
    """The network with each link as two edges, in order of node, then neighbour, then link."""
    count = len(network.links)
    near = np.concatenate([network.ends[:, 0], network.ends[:, 1]])
    far = np.concatenate([network.ends[:, 1], network.ends[:, 0]])
    link = np.concatenate([np.arange(count), np.arange(count)])
    order = np.lexsort((link, far, near))
    starts = np.zeros(network.size + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=network.size), out=starts[1:])
    return replace(network, starts=starts, edge_node=far[order], edge_link=link[order])


def _shared(asns: Sequence[int]) -> Ints:
    """A bit for each AS number that several switches have; those beyond the room of a label get none."""
    shared = [asn for asn, count in Counter(asns).items() if count > 1][:MAX_SHARED]
    bit = {asn: 1 << (index + 1) for index, asn in enumerate(shared)}
    return np.array([bit.get(asn, 0) for asn in asns], np.int64)
