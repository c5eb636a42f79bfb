"""Merge equivalent switches, which sprayed or adaptive traffic loads equally.

Idea: hosts and their leaves stay; higher switches with the same neighbours, counted by colour and
rate, become one node (an equitable partition by 1-dimensional Weisfeiler-Leman refinement). Links
between two such nodes become one link of their total rate.

Invariant: every flow loads the members of an aggregated link equally, so rates are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.network import Network
from gpuyard.simulate.splitmix import mix64_array

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AggregatedNetwork:
    """A smaller network that carries sprayed traffic as the original does."""

    network: Network  # the rate of a link is the total of its members
    members: Ints  # of each link: number of original links
    link: Ints  # of each original link: the link that stands for it


def aggregate_switches(network: Network) -> AggregatedNetwork:
    """Merge equivalent switches; networks that connect two of them directly stay as they are."""
    colour = _colours(network)
    cables = network.link_count // 2
    one, other = colour[network.link_from[0::2]], colour[network.link_to[0::2]]
    if np.any(one == other):
        return AggregatedNetwork(
            network=network,
            members=np.ones(network.link_count, dtype=np.int64),
            link=np.arange(network.link_count),
        )
    forward = 2 * np.arange(cables) + np.where(one > other, 1, 0)  # from lower to higher colour
    key = np.stack(
        [
            np.minimum(one, other).astype(np.float64),
            np.maximum(one, other).astype(np.float64),
            network.rate_bits_per_s[forward],
            network.rate_bits_per_s[forward ^ 1],
            network.delay_s[forward],
        ],
        axis=1,
    )
    _, first, number, count = np.unique(
        key, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    number = number.reshape(-1)
    link = np.empty(network.link_count, dtype=np.int64)
    link[forward], link[forward ^ 1] = 2 * number, 2 * number + 1
    chosen = np.stack([forward[first], forward[first] ^ 1], axis=1).reshape(-1)
    members = np.repeat(count, 2)
    nodes = np.unique(colour, return_index=True)[1]  # colours are numbered by their first node
    merged = replace(
        network,
        tier=network.tier[nodes],
        link_from=colour[network.link_from[chosen]].astype(np.int32),
        link_to=colour[network.link_to[chosen]].astype(np.int32),
        rate_bits_per_s=network.rate_bits_per_s[chosen] * members,
        delay_s=network.delay_s[chosen],
        names=tuple(network.names[node] for node in nodes),
    )
    return AggregatedNetwork(network=merged, members=members, link=link)


def _colours(network: Network) -> Ints:
    """A number for each node, equal for equivalent nodes."""
    nodes, hosts = network.node_count, network.host_count
    fixed = np.arange(nodes) < hosts
    fixed[network.link_to[network.link_from < hosts]] = True
    colour = np.where(fixed, np.arange(nodes), nodes + network.tier.astype(np.int64))
    rate, reverse = network.rate_bits_per_s, np.arange(network.link_count) ^ 1
    kind = np.unique(
        np.stack([rate, rate[reverse], network.delay_s], axis=1), axis=0, return_inverse=True
    )[1].reshape(-1)
    count = 0
    while True:
        colour = _renumber(colour)
        if colour.max() + 1 == count:
            return colour
        count = int(colour.max()) + 1
        neighbour = colour[network.link_to].astype(np.uint64) * np.uint64(1_000_003)
        sums = np.zeros(nodes, dtype=np.uint64)
        np.add.at(sums, network.link_from, mix64_array(neighbour + kind.astype(np.uint64)))
        both = np.stack([colour.astype(np.uint64), np.where(fixed, np.uint64(0), sums)], axis=1)
        colour = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)


def _renumber(colour: Ints) -> Ints:
    """Number colours in the order in which nodes first have them, so hosts keep their numbers."""
    _, first, number = np.unique(colour, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[number.reshape(-1)]
