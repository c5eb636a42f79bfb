"""The routes that BGP installs: the best path of every switch to a destination, and its ECMP group.

A switch takes the shortest AS path, uses every path of that length, and advertises one of them, the
one from the first neighbour. AS paths grow by one per hop, so routes settle in order of their
length. What a switch may advertise is decided by the labels of the `SwitchGraph`: marks added going
down, marks rejected going up, and no route to a switch whose AS number is on the path already.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.fabric.verify.switch_graph import Bools, Floats, Ints, SwitchGraph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FailureState:
    """The switches and links that still work."""

    nodes: Bools
    links: Bools

    def without(self, *, link: int | None = None, node: int | None = None) -> FailureState:
        """Return the state after one more failure."""
        nodes, links = self.nodes, self.links
        if link is not None:
            links = links.copy()
            links[link] = False
        if node is not None:
            nodes = nodes.copy()
            nodes[node] = False
        return FailureState(nodes=nodes, links=links)


def alive(network: SwitchGraph) -> FailureState:
    """Return the state without failures."""
    return FailureState(
        nodes=np.ones(network.size, np.bool_), links=np.ones(len(network.links), np.bool_)
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Rib:
    """The routes of every switch to one destination."""

    hops: Ints  # length of the AS path; -1 without a route
    widths: Ints  # links of the ECMP group
    loads_bits_per_s: Floats  # per edge, in the direction of traffic
    bounces: Bools  # switches that receive traffic from above and send it up again


def rib_to(
    network: SwitchGraph, destination: int, state: FailureState, sent_bits_per_s: Floats
) -> Rib:
    """Compute the routes to one switch, and the load per edge of the traffic sent to it."""
    from gpuyard.fabric.verify.rib_kernel import (  # imports Numba
        propagate_route,
        spread_load,
    )

    works = state.links[network.edge_link] & state.nodes[network.edge_node]
    if not state.nodes[destination]:
        works[:] = False
    order, hops, widths, uses = propagate_route(
        destination,
        network.starts,
        network.edge_node,
        network.edge_reverse,
        works,
        network.edge_marks,
        network.edge_refuses,
        network.as_bits,
    )
    if not state.nodes[destination]:
        hops[destination] = -1
    widths = np.minimum(widths, network.widths)
    loads, bounces = spread_load(
        order, network.starts, network.edge_node, network.tiers, uses, widths, sent_bits_per_s
    )
    return Rib(hops=hops, widths=widths, loads_bits_per_s=loads, bounces=bounces)
