"""The share of a flow that each link carries where packets go every equal-cost way."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.simulate.routes import LAST, NONE, Routes

__all__ = ["spread_entries"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]


def spread_entries(routes: Routes, source: Small, target: Small, weight: Floats) -> tuple[Ints, Ints, Floats, int]:
    """Links and shares of every flow in CSR form; a node splits by `weight` of its links. Last: a flow without a way.

    That last number is -1 where all flows have one.
    """
    return _spread_all(
        source.astype(np.int32), target.astype(np.int32), weight, routes.host_count, routes.group, routes.table,
        routes.set_index, routes.set_links, routes.hops, routes.host_index, routes.host_links, routes.link_to,
        routes.server, routes.scale_up,
    )  # fmt: skip


@compiled
def _spread_all(
    source: Small,
    target: Small,
    weight: Floats,
    host_count: int,
    group: Small,
    table: Small,
    set_index: Small,
    set_links: Small,
    hops: npt.NDArray[np.int16],
    host_index: Small,
    host_links: Small,
    link_to: Small,
    server: Small,
    scale_up: Small,
) -> tuple[Ints, Ints, Floats, int]:
    """Flow by flow, and in a flow hop by hop."""
    index = np.zeros(len(source) + 1, dtype=np.int64)
    links, shares = np.empty(16 * len(source) + 64, dtype=np.int64), np.empty(16 * len(source) + 64)
    here, there = np.empty(len(table) + 2, dtype=np.int64), np.empty(len(table) + 2, dtype=np.int64)
    part, at = np.zeros(host_count + len(table)), 0
    for flow in range(len(source)):
        start, end = source[flow], target[flow]
        links, shares = _roomy(links, shares, at, len(weight))
        if server[start] == server[end] and scale_up[start] != NONE and scale_up[end] != NONE:
            links[at], links[at + 1], shares[at], shares[at + 1] = scale_up[start], scale_up[end] ^ 1, 1.0, 1.0
            at += 2
        else:
            to = group[end]
            if to == NONE:
                return index, links, shares, flow
            old = at
            count, at = _first(
                start, to, weight, host_count, hops, host_index, host_links, link_to, here, part, links, shares, at
            )
            while count:
                count, at = _step(
                    here, there, count, end, to, weight, host_count, table, set_index, set_links, host_index,
                    host_links, link_to, part, links, shares, at,
                )  # fmt: skip
                here, there = there, here
            if at == old or part[end] < 0.999:
                return index, links, shares, flow
            part[end] = 0.0
        index[flow + 1] = at
    return index, links[:at].copy(), shares[:at].copy(), -1


@compiled
def _roomy(links: Ints, shares: Floats, at: int, most: int) -> tuple[Ints, Floats]:
    """The arrays with room for a flow that uses every link."""
    if at + 2 * most + 8 <= len(links):
        return links, shares
    more_links, more_shares = np.empty(2 * len(links) + 2 * most, dtype=np.int64), np.empty(2 * len(links) + 2 * most)
    for place in range(at):
        more_links[place], more_shares[place] = links[place], shares[place]
    return more_links, more_shares


@compiled
def _first(
    start: int, to: int, weight: Floats, host_count: int, hops: npt.NDArray[np.int16], host_index: Small,
    host_links: Small, link_to: Small, here: Ints, part: Floats, links: Ints, shares: Floats, at: int,
) -> tuple[int, int]:  # fmt: skip
    """The links out of a host: those with the shortest way."""
    best, total, count = 30_000, 0.0, 0
    for place in range(host_index[start], host_index[start + 1]):
        best = min(best, hops[link_to[host_links[place]] - host_count, to])
    if best >= 30_000:
        return 0, at
    for place in range(host_index[start], host_index[start + 1]):
        if hops[link_to[host_links[place]] - host_count, to] == best:
            total += weight[host_links[place]]
    for place in range(host_index[start], host_index[start + 1]):
        link = host_links[place]
        node = link_to[link]
        if hops[node - host_count, to] == best and total > 0.0:
            links[at], shares[at] = link, weight[link] / total
            if part[node] == 0.0:
                here[count] = node
                count += 1
            part[node] += shares[at]
            at += 1
    return count, at


@compiled
def _step(
    here: Ints, there: Ints, count: int, end: int, to: int, weight: Floats, host_count: int, table: Small,
    set_index: Small, set_links: Small, host_index: Small, host_links: Small, link_to: Small, part: Floats,
    links: Ints, shares: Floats, at: int,
) -> tuple[int, int]:  # fmt: skip
    """One hop of all parts of a flow; gives how many switches it is at then."""
    reached = 0
    for number in range(count):
        node = here[number]
        mine = part[node]
        part[node] = 0.0
        chosen = table[node - host_count, to]
        if chosen == LAST:
            total = 0.0
            for place in range(host_index[end], host_index[end + 1]):
                if link_to[host_links[place]] == node:
                    total += weight[host_links[place] ^ 1]
            for place in range(host_index[end], host_index[end + 1]):
                link = host_links[place] ^ 1
                if link_to[host_links[place]] == node and total > 0.0:
                    links[at], shares[at] = link, mine * weight[link] / total
                    part[end] += shares[at]
                    at += 1
        elif chosen != NONE:
            total = 0.0
            for place in range(set_index[chosen], set_index[chosen + 1]):
                total += weight[set_links[place]]
            for place in range(set_index[chosen], set_index[chosen + 1]):
                link = set_links[place]
                onward = link_to[link]
                if total > 0.0 and weight[link] > 0.0:
                    links[at], shares[at] = link, mine * weight[link] / total
                    if part[onward] == 0.0:
                        there[reached] = onward
                        reached += 1
                    part[onward] += shares[at]
                    at += 1
    return reached, at
