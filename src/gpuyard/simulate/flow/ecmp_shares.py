"""Share of a flow on each link if every node splits it over all equal-cost links.

Idea: send one unit from the source and push it forward hop by hop. A node splits what arrived by
the weights of its links (their number when spraying, their rate with adaptive routing). Equal-cost
paths are equally long, so all shares that meet at a node arrive at the same hop, and a node is
split once.

Invariant: the shares at the nodes of the frontier and at the target add up to 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate.flow.problem import LinkShares
from gpuyard.simulate.route_tables import FAR, LAST, NONE
from gpuyard.simulate.routes import Routes, shares_scale_up

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.int32]
WHOLE = 0.999  # less of a flow than this at its target means that part of it has no route


class Spread(NamedTuple):
    """Working arrays of one flow."""

    arrived: Floats  # of each node: the share that has arrived and was not sent on
    frontier: Nodes  # [hop % 2]: the switches at which shares have arrived
    candidates: Nodes  # equal-cost links of one node
    link: Ints  # the links used so far
    share: Floats


def ecmp_shares(
    routes: Routes, source: Nodes, target: Nodes, weight: Floats
) -> tuple[LinkShares, int]:
    """Return the links and shares of every flow, and a flow without a route or -1."""
    return _share_all(routes, source.astype(np.int32), target.astype(np.int32), weight)


@jit
def _share_all(
    routes: Routes, source: Nodes, target: Nodes, weight: Floats
) -> tuple[LinkShares, int]:
    switches, links = len(routes.table), len(routes.link_to)
    spread = Spread(
        np.zeros(routes.host_count + switches),
        np.empty((2, switches + 2), dtype=np.int32),
        np.empty(links, dtype=np.int32),
        np.empty(2 * links + 8, dtype=np.int64),
        np.empty(2 * links + 8),
    )
    index = np.zeros(len(source) + 1, dtype=np.int64)
    link, share = np.empty(16 * len(source) + 64, dtype=np.int64), np.empty(16 * len(source) + 64)
    for flow in range(len(source)):
        count = _share_flow(routes, spread, weight, source[flow], target[flow])
        if count == 0:
            return LinkShares(index, link, share), flow
        begin, end = index[flow], index[flow] + count
        if end > len(link):
            link = np.concatenate((link, np.empty(end, dtype=np.int64)))
            share = np.concatenate((share, np.empty(end)))
        link[begin:end] = spread.link[:count]
        share[begin:end] = spread.share[:count]
        index[flow + 1] = end
    return LinkShares(index, link[: index[-1]].copy(), share[: index[-1]].copy()), NONE


@jit(allocates=False)
def _share_flow(routes: Routes, spread: Spread, weight: Floats, source: int, target: int) -> int:
    """Write the links and shares of a flow; return their number, 0 if it has no route."""
    if shares_scale_up(routes, source, target):
        spread.link[0], spread.link[1] = routes.scale_up[source], routes.scale_up[target] ^ 1
        spread.share[0] = spread.share[1] = 1.0
        return 2
    group = routes.group[target]
    if group == NONE:
        return 0
    spread.arrived[source] = 1.0
    spread.frontier[0, 0] = source
    hop, reached, used = 0, 1, 0
    while reached:
        sending, reached = reached, 0
        for k in range(sending):
            node = spread.frontier[hop % 2, k]
            count = _candidates(routes, spread.candidates, node, target, group)
            arrived = spread.arrived[node]
            spread.arrived[node] = 0.0
            total = 0.0
            for link in spread.candidates[:count]:
                total += weight[link]
            for link in spread.candidates[:count]:
                if weight[link] == 0.0:
                    continue
                share = arrived * weight[link] / total
                spread.link[used], spread.share[used] = link, share
                used += 1
                onward = routes.link_to[link]
                if spread.arrived[onward] == 0.0 and onward != target:
                    spread.frontier[(hop + 1) % 2, reached] = onward
                    reached += 1
                spread.arrived[onward] += share
        hop += 1
    complete = spread.arrived[target] >= WHOLE
    spread.arrived[target] = 0.0
    return used if complete else 0


@jit(allocates=False)
def _candidates(routes: Routes, candidates: Nodes, node: int, target: int, group: int) -> int:
    """Write the equal-cost links of a node on the way to a host; return their number."""
    count = 0
    if node < routes.host_count:  # the source: its links with the shortest path
        links = routes.host_links[routes.host_index[node] : routes.host_index[node + 1]]
        best = FAR
        for link in links:
            best = min(best, routes.hops[routes.link_to[link] - routes.host_count, group])
        for link in links:
            if routes.hops[routes.link_to[link] - routes.host_count, group] == best < FAR:
                candidates[count] = link
                count += 1
        return count
    chosen = routes.table[node - routes.host_count, group]
    if chosen == LAST:
        for link in routes.host_links[routes.host_index[target] : routes.host_index[target + 1]]:
            if routes.link_to[link] == node:
                candidates[count] = link ^ 1
                count += 1
    elif chosen != NONE:
        for link in routes.set_links[routes.set_index[chosen] : routes.set_index[chosen + 1]]:
            candidates[count] = link
            count += 1
    return count
