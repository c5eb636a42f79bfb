"""Compiled loops of `rib`: how one route spreads over the switches, and where its traffic flows."""

from __future__ import annotations

import numpy as np

from gpuyard.fabric.verify.switch_graph import Bools, Floats, Ints
from gpuyard.jit import jit

# Breadth-first search from the destination. Invariant: when a switch leaves the queue, its hops and
# label are final, because every shorter path was advertised before. If a near switch may advertise
# the route over a link, the far switch uses the same link, reversed, to send traffic.


@jit
def propagate_route(
    destination: int,
    starts: Ints,
    edge_node: Ints,
    edge_reverse: Ints,
    works: Bools,
    marks: Ints,
    refuses: Ints,
    as_bits: Ints,
) -> tuple[Ints, Ints, Ints, Bools]:
    """Return the switches in order of distance, their hops and widths, and the edges in use."""
    count = len(starts) - 1
    hops = np.full(count, -1, np.int64)
    labels = np.zeros(count, np.int64)
    widths = np.zeros(count, np.int64)
    order = np.zeros(count, np.int64)
    uses = np.zeros(len(edge_node), np.bool_)
    hops[destination] = 0
    order[0] = destination
    done = 0
    reached = 1
    while done < reached:
        near = order[done]
        done += 1
        for edge in range(starts[near], starts[near + 1]):
            far = edge_node[edge]
            if not works[edge] or (hops[far] >= 0 and hops[far] != hops[near] + 1):
                continue
            if labels[near] & refuses[edge] or (labels[near] | as_bits[near]) & as_bits[far]:
                continue
            uses[edge_reverse[edge]] = True
            widths[far] += 1
            if hops[far] < 0:
                hops[far] = hops[near] + 1
                labels[far] = labels[near] | marks[edge] | as_bits[near]
                order[reached] = far
                reached += 1
    return order[:reached], hops, widths, uses


@jit
def spread_load(
    order: Ints,
    starts: Ints,
    edge_node: Ints,
    tiers: Ints,
    uses: Bools,
    widths: Ints,
    sent: Floats,
) -> tuple[Floats, Bools]:
    """Return the load per edge, and the switches that send traffic from above up again."""
    loads = np.zeros(len(edge_node), np.float64)
    bounces = np.zeros(len(tiers), np.bool_)
    from_above = np.zeros(len(tiers), np.bool_)
    carried = sent.copy()
    for place in range(len(order) - 1, 0, -1):  # farthest first: then all transit load is known
        near = order[place]
        if carried[near] <= 0.0:
            continue
        share = carried[near] / widths[near]
        left = widths[near]
        for edge in range(starts[near], starts[near + 1]):
            if left == 0 or not uses[edge]:
                continue
            far = edge_node[edge]
            left -= 1
            loads[edge] = share
            carried[far] += share
            if tiers[far] < tiers[near]:
                from_above[far] = True
            elif from_above[near]:
                bounces[near] = True
    return loads, bounces
