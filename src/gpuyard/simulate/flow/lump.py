"""Switches that no route can tell apart, as one: what sprayed or adaptive traffic loads equally is counted together.

Hosts and the switches they hang on keep their names; higher switches with the same neighbours, counted by colour
and rate, become one node (an equitable partition: 1-dimensional Weisfeiler-Leman refinement). Links between two such
nodes become one link of their joint rate. Every flow loads the members of such a link equally, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.network import Network

__all__ = ["Lumped", "lumped"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Lumped:
    """A smaller network that carries sprayed traffic as the whole one does."""

    network: Network  # rates are joint rates
    members: Ints  # of each link: how many it stands for
    link: Ints  # of each link of the whole network: the one that stands for it


def lumped(network: Network) -> Lumped:
    """The network with equal switches joined."""
    colour = _colours(network)
    cables = network.link_count // 2
    from_, to = colour[network.link_from[0::2]], colour[network.link_to[0::2]]
    if np.any(from_ == to):  # equal switches that are joined to each other: left as they are
        return Lumped(
            network=network,
            members=np.ones(network.link_count, dtype=np.int64),
            link=np.arange(network.link_count),
        )
    swapped = from_ > to
    first = np.where(swapped, 1, 0) + 2 * np.arange(cables)
    key = np.stack(
        [
            np.minimum(from_, to).astype(np.float64),
            np.maximum(from_, to).astype(np.float64),
            network.rate_bits_per_s[first],
            network.rate_bits_per_s[first ^ 1],
            network.delay_s[first],
        ],
        axis=1,
    )
    _, keeper, which, count = np.unique(key, axis=0, return_index=True, return_inverse=True, return_counts=True)
    which = which.reshape(-1)
    link = np.empty(network.link_count, dtype=np.int64)
    link[first], link[first ^ 1] = 2 * which, 2 * which + 1
    chosen = np.stack([first[keeper], first[keeper] ^ 1], axis=1).reshape(-1)
    members = np.repeat(count, 2)
    nodes = np.unique(colour, return_index=True)[1]  # colours are numbered by their first node
    joined = replace(
        network,
        tier=network.tier[nodes],
        link_from=colour[network.link_from[chosen]].astype(np.int32),
        link_to=colour[network.link_to[chosen]].astype(np.int32),
        rate_bits_per_s=network.rate_bits_per_s[chosen] * members,
        delay_s=network.delay_s[chosen],
        names=tuple(network.names[node] for node in nodes),
    )
    return Lumped(network=joined, members=members, link=link)


def _colours(network: Network) -> Ints:
    """A number for each node, the same for nodes that stand in the same relation to all others."""
    nodes, hosts = network.node_count, network.host_count
    fixed = np.arange(nodes) < hosts
    fixed[network.link_to[network.link_from < hosts]] = True
    colour = np.where(fixed, np.arange(nodes), nodes + network.tier.astype(np.int64))
    kinds = np.unique(
        np.stack([network.rate_bits_per_s, network.rate_bits_per_s[_reverse(network)], network.delay_s], axis=1),
        axis=0,
        return_inverse=True,
    )[1].reshape(-1)
    count = 0
    while True:
        colour = _numbered(colour)
        if colour.max() + 1 == count:
            return colour
        count = int(colour.max()) + 1
        seen = _mixed(colour[network.link_to].astype(np.uint64) * np.uint64(1_000_003) + kinds.astype(np.uint64))
        sums: Hashes = np.zeros(nodes, dtype=np.uint64)
        np.add.at(sums, network.link_from, seen)
        both = np.stack([colour.astype(np.uint64), np.where(fixed, np.uint64(0), sums)], axis=1)
        colour = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)


def _reverse(network: Network) -> Ints:
    """The reverse of each link."""
    return np.arange(network.link_count) ^ 1


def _numbered(colour: Ints) -> Ints:
    """Colours numbered in the order in which nodes first have them, so that hosts keep their numbers."""
    _, first, which = np.unique(colour, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[which.reshape(-1)]


def _mixed(value: Hashes) -> Hashes:
    """A hash of each number (the finaliser of SplitMix64)."""
    mixed = value + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Hashes = mixed ^ (mixed >> np.uint64(31))
    return result
