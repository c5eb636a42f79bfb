"""Symmetry of pods in three-tier networks: one failure represents all that are equivalent to it.

In three tiers each spine has its own cores, so no two spines are equivalent on their own. But a
whole pod can be swapped with another, and spine 1 of every pod with spine 2 together with their
cores. Such swaps are proposed by position and then proven: every link must map to a link of the
same speed, and every switch to one with the same signature.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuyard.fabric.verify.switch_classes import SwitchClasses, link_classes, switch_signature
from gpuyard.fabric.verify.switch_graph import Ints, SwitchGraph


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Representatives:
    """Representative switches and links, and the number of equivalent ones of each."""

    nodes: dict[int, int]
    links: dict[int, int]


def representatives(network: SwitchGraph, classes: SwitchClasses) -> Representatives:
    """Return one switch and one link per class of equivalent ones."""
    by_number = classes.by_number()
    link_sizes = link_classes(network, classes)
    chosen = list(link_sizes)
    place = {_key(network, classes, link): number for number, link in enumerate(chosen)}
    nodes = {number: number for number in by_number}
    links = {number: number for number in place.values()}
    for swap in symmetry_swaps(network):
        for number, one in by_number.items():
            _join(nodes, number, int(classes.of[swap[one.first]]))
        for number, link in enumerate(chosen):
            _join(links, number, place[_key(network, classes, link, swap)])
    result = Representatives(nodes={}, links={})
    for number, one in by_number.items():
        first = by_number[_root(nodes, number)].first
        result.nodes[first] = result.nodes.get(first, 0) + one.size
    for number, link in enumerate(chosen):
        first = chosen[_root(links, number)]
        result.links[first] = result.links.get(first, 0) + link_sizes[link]
    return result


def _key(
    network: SwitchGraph, classes: SwitchClasses, link: int, swap: Ints | None = None
) -> tuple[int, int, float]:
    ends = network.ends[link] if swap is None else swap[network.ends[link]]
    low, high = sorted(classes.of[ends].tolist())
    return low, high, float(network.speeds_bits_per_s[link])


def _join(groups: dict[int, int], one: int, other: int) -> None:
    low, high = sorted((_root(groups, one), _root(groups, other)))
    groups[high] = low


def _root(groups: dict[int, int], item: int) -> int:
    while groups[item] != item:
        groups[item] = groups[groups[item]]
        item = groups[item]
    return item


def symmetry_swaps(network: SwitchGraph) -> Iterator[Ints]:
    """Yield the swaps of pods, and of spines with their cores, that map the network onto itself."""
    top = int(network.tiers.max(initial=0))
    if top < 3:
        return
    signatures = np.array(_signatures(network), np.int64)
    pods = _pods(network, top)
    for one, other in itertools.pairwise(pods):
        if len(one) == len(other):
            swap = _swap(network.size, one, other)
            if _is_symmetry(network, signatures, swap):
                yield swap
    yield from _spine_swaps(network, signatures, pods)


def _signatures(network: SwitchGraph) -> list[int]:
    numbers: dict[object, int] = {}
    return [
        numbers.setdefault(switch_signature(network, node), len(numbers))
        for node in range(network.size)
    ]


def _pods(network: SwitchGraph, top: int) -> list[list[int]]:
    group = {node: node for node in range(network.size)}
    for a, b in network.ends[(network.tiers[network.ends] < top).all(axis=1)].tolist():
        _join(group, a, b)
    pods: dict[int, list[int]] = {}
    for node in np.flatnonzero(network.tiers < top).tolist():
        pods.setdefault(_root(group, node), []).append(node)
    return [sorted(pod, key=lambda node: (int(network.tiers[node]), node)) for pod in pods.values()]


def _spine_swaps(network: SwitchGraph, signatures: Ints, pods: list[list[int]]) -> Iterator[Ints]:
    # Spine j of every pod against spine j + 1, with the cores above them.
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
        swap = _swap(network.size, left, right)
        if _is_symmetry(network, signatures, swap):
            yield swap


def _above(network: SwitchGraph, node: int) -> list[int]:
    far = network.edge_node[network.starts[node] : network.starts[node + 1]]
    return sorted(set(far[network.tiers[far] > network.tiers[node]].tolist()))


def _swap(size: int, one: list[int], other: list[int]) -> Ints:
    swap = np.arange(size)
    swap[one], swap[other] = other, one
    return swap


def _is_symmetry(network: SwitchGraph, signatures: Ints, swap: Ints) -> bool:
    if (signatures[swap] != signatures).any():
        return False
    return np.array_equal(_links(network, network.ends), _links(network, swap[network.ends]))


def _links(network: SwitchGraph, ends: Ints) -> Ints:
    # Links as sorted numbers, so that equal multisets of links are equal arrays.
    speeds = np.unique(network.speeds_bits_per_s, return_inverse=True)[1]
    low, high = ends.min(axis=1), ends.max(axis=1)
    return np.sort((low * network.size + high) * (len(network.links) + 1) + speeds)
