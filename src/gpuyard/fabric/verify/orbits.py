"""Parts of a network that can change places as a whole: pods, and the spines of one number with their cores.

Twins change places alone. In three tiers a spine has cores of its own, so no two spines are twins; but a whole pod can
change places with another, and spine 1 of every pod with spine 2 if their cores go along. Such exchanges are proposed
by position and then proven: every link must become a link of the same speed, and every switch one that is set alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuyard.fabric.verify.network import Ints, Network
from gpuyard.fabric.verify.symmetry import Classes, link_classes, nature

__all__ = ["Orbits", "exchanges", "orbits"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Orbits:
    """One switch and one link for all that can take each other's places, and how many each stands for."""

    nodes: dict[int, int]
    links: dict[int, int]


def orbits(network: Network, classes: Classes) -> Orbits:
    """The switches and links that stand for all."""
    kin, sizes = classes.kin(), link_classes(network, classes)
    stands = list(sizes)
    place = {_key(network, classes, link): number for number, link in enumerate(stands)}
    nodes, links = {number: number for number in kin}, {number: number for number in place.values()}
    for exchange in exchanges(network):
        for number, one in kin.items():
            _join(nodes, number, int(classes.of[exchange[one.first]]))
        for number, link in enumerate(stands):
            _join(links, number, place[_key(network, classes, link, exchange)])
    found = Orbits(nodes={}, links={})
    for number, one in kin.items():
        first = kin[_root(nodes, number)].first
        found.nodes[first] = found.nodes.get(first, 0) + one.size
    for number, link in enumerate(stands):
        first = stands[_root(links, number)]
        found.links[first] = found.links.get(first, 0) + sizes[link]
    return found


def _key(network: Network, classes: Classes, link: int, exchange: Ints | None = None) -> tuple[int, int, float]:
    """The class of a link, after an exchange."""
    ends = network.ends[link] if exchange is None else exchange[network.ends[link]]
    low, high = sorted(classes.of[ends].tolist())
    return low, high, float(network.speeds_bits_per_s[link])


def _join(groups: dict[int, int], one: int, other: int) -> None:
    """Puts two into one group; the smaller number stands for it."""
    low, high = sorted((_root(groups, one), _root(groups, other)))
    groups[high] = low


def _root(groups: dict[int, int], item: int) -> int:
    """Who stands for a group."""
    while groups[item] != item:
        groups[item] = groups[groups[item]]
        item = groups[item]
    return item


def exchanges(network: Network) -> Iterator[Ints]:
    """Exchanges of pods, and of spines with their cores, that leave the network as it is."""
    top = int(network.tiers.max(initial=0))
    if top < 3:
        return
    natures = np.array(_natures(network), np.int64)
    pods = _pods(network, top)
    for one, other in itertools.pairwise(pods):
        if len(one) == len(other):
            exchange = _swap(network.size, one, other)
            if _holds(network, natures, exchange):
                yield exchange
    yield from _columns(network, natures, pods)


def _natures(network: Network) -> list[int]:
    """A number for each switch, the same for those that are set alike."""
    numbers: dict[object, int] = {}
    return [numbers.setdefault(nature(network, node), len(numbers)) for node in range(network.size)]


def _pods(network: Network, top: int) -> list[list[int]]:
    """What is joined without the top tier, each by tier and place."""
    group = {node: node for node in range(network.size)}
    for a, b in network.ends[(network.tiers[network.ends] < top).all(axis=1)].tolist():
        _join(group, a, b)
    pods: dict[int, list[int]] = {}
    for node in np.flatnonzero(network.tiers < top).tolist():
        pods.setdefault(_root(group, node), []).append(node)
    return [sorted(pod, key=lambda node: (int(network.tiers[node]), node)) for pod in pods.values()]


def _columns(network: Network, natures: Ints, pods: list[list[int]]) -> Iterator[Ints]:
    """Spine j of every pod against spine j + 1, with the cores above them."""
    spines = [[node for node in pod if network.tiers[node] == 2] for pod in pods]
    if len({len(row) for row in spines}) != 1:
        return
    for place in range(len(spines[0]) - 1):
        left, right = ([row[place + side] for row in spines] for side in (0, 1))
        above = [_above(network, column[0]) for column in (left, right)]
        if above[0] != above[1]:
            if len(above[0]) != len(above[1]) or set(above[0]) & set(above[1]):
                continue
            left, right = left + above[0], right + above[1]
        exchange = _swap(network.size, left, right)
        if _holds(network, natures, exchange):
            yield exchange


def _above(network: Network, node: int) -> list[int]:
    """The switches above one, by place."""
    far = network.edge_node[network.starts[node] : network.starts[node + 1]]
    return sorted(set(far[network.tiers[far] > network.tiers[node]].tolist()))


def _swap(size: int, one: list[int], other: list[int]) -> Ints:
    """The exchange of two lists of switches, place by place."""
    exchange = np.arange(size)
    exchange[one], exchange[other] = other, one
    return exchange


def _holds(network: Network, natures: Ints, exchange: Ints) -> bool:
    """True if every switch becomes one of its nature, and every link a link of its speed."""
    if (natures[exchange] != natures).any():
        return False
    return np.array_equal(_links(network, network.ends), _links(network, exchange[network.ends]))


def _links(network: Network, ends: Ints) -> Ints:
    """All links in an order of their own."""
    speeds = np.unique(network.speeds_bits_per_s, return_inverse=True)[1]
    low, high = ends.min(axis=1), ends.max(axis=1)
    return np.sort((low * network.size + high) * (len(network.links) + 1) + speeds)
