"""The routes that BGP really installs: the best path of every switch to one destination, and all paths equal to it.

A switch takes the shortest AS path, uses every path of that length, and sends one of them on: the one from the
neighbour that comes first. AS paths grow by one at each hop, so paths settle in the order of their length. What a
switch may send on is decided by the labels of `network`: marks put on going down, marks refused going up, and no
route to a switch whose AS number it has passed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.compiled import compiled, compiled_inline
from gpuyard.fabric.verify.network import Bools, Floats, Ints, Network

__all__ = ["Rib", "State", "alive", "rib_to"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """What still works."""

    nodes: Bools
    links: Bools

    def without(self, *, link: int | None = None, node: int | None = None) -> State:
        """The state after one more failure."""
        nodes, links = self.nodes, self.links
        if link is not None:
            links = links.copy()
            links[link] = False
        if node is not None:
            nodes = nodes.copy()
            nodes[node] = False
        return State(nodes=nodes, links=links)


def alive(network: Network) -> State:
    """Everything works."""
    return State(nodes=np.ones(network.size, np.bool_), links=np.ones(len(network.links), np.bool_))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Rib:
    """Every switch's routes to one destination."""

    hops: Ints  # length of the AS path, -1 without a route
    widths: Ints  # links that carry traffic to it
    loads_bits_per_s: Floats  # of each edge, seen from the sender
    bounces: Bools  # switches that got traffic from above and send it up again


def rib_to(network: Network, destination: int, state: State, sent_bits_per_s: Floats) -> Rib:
    """The routes to one switch, and what the traffic `sent` to it by each switch puts on every edge."""
    hops, widths, loads, bounces = _spread(
        destination, network.starts, network.edge_node, network.edge_link, network.tiers,
        state.nodes, state.links, network.as_bits, network.marks, network.refuses, network.widths, sent_bits_per_s,
    )  # fmt: skip
    return Rib(hops=hops, widths=widths, loads_bits_per_s=loads, bounces=bounces)


@compiled_inline
def _direction(near_tier: int, far_tier: int) -> int:
    """DOWN, LEVEL or UP."""
    return 1 + (1 if far_tier > near_tier else 0) - (1 if far_tier < near_tier else 0)


@compiled
def _spread(
    destination: int, starts: Ints, edge_node: Ints, edge_link: Ints, tiers: Ints, nodes: Bools, links: Bools,
    as_bits: Ints, marks: Ints, refuses: Ints, limits: Ints, sent: Floats,
) -> tuple[Ints, Ints, Floats, Bools]:  # fmt: skip
    count = len(starts) - 1
    hops, labels = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    widths, order = np.zeros(count, np.int64), np.zeros(count, np.int64)
    loads, bounces = np.zeros(len(edge_node), np.float64), np.zeros(count, np.bool_)
    if not nodes[destination]:
        return hops, widths, loads, bounces
    hops[destination], order[0] = 0, destination
    done, met = 0, 1
    while done < met:  # neighbours hear of the route in the order of the lengths of their paths
        near = order[done]
        done += 1
        for edge in range(starts[near], starts[near + 1]):
            far = edge_node[edge]
            if not (links[edge_link[edge]] and nodes[far]) or (hops[far] >= 0 and hops[far] != hops[near] + 1):
                continue
            way = _direction(tiers[near], tiers[far])
            if labels[near] & refuses[near, way] or (labels[near] | as_bits[near]) & as_bits[far]:
                continue
            widths[far] += 1
            if hops[far] < 0:
                hops[far] = hops[near] + 1
                labels[far] = labels[near] | marks[near, way] | as_bits[near]
                order[met] = far
                met += 1
    for node in range(count):
        widths[node] = min(widths[node], limits[node])
    _flow(order[:met], starts, edge_node, edge_link, tiers, nodes, links, as_bits, refuses,
          hops, labels, widths, sent, loads, bounces)  # fmt: skip
    return hops, widths, loads, bounces


@compiled
def _flow(
    order: Ints, starts: Ints, edge_node: Ints, edge_link: Ints, tiers: Ints, nodes: Bools, links: Bools,
    as_bits: Ints, refuses: Ints, hops: Ints, labels: Ints, widths: Ints, sent: Floats, loads: Floats, bounces: Bools,
) -> None:  # fmt: skip
    carried, from_above = sent.copy(), np.zeros(len(hops), np.bool_)
    for place in range(len(order) - 1, 0, -1):  # the farthest first, so that all that a switch must pass on is there
        near = order[place]
        if carried[near] <= 0.0:
            continue
        share, left = carried[near] / widths[near], widths[near]
        for edge in range(starts[near], starts[near + 1]):
            far = edge_node[edge]
            if left == 0 or not (links[edge_link[edge]] and nodes[far]) or hops[far] != hops[near] - 1:
                continue
            back = _direction(tiers[far], tiers[near])
            if labels[far] & refuses[far, back] or (labels[far] | as_bits[far]) & as_bits[near]:
                continue
            left -= 1
            loads[edge] = share
            carried[far] += share
            if tiers[far] < tiers[near]:
                from_above[far] = True
            elif from_above[near]:
                bounces[near] = True
