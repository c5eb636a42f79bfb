"""Switches that cannot be told apart: twins, with the same neighbours over the same links.

Two switches of one role that have the same number of links, at the same speeds, to each other switch, the same servers
below, and the same policy can change places, and the network is still the same network. So what holds for one of them
holds for the other, and one failure stands for all failures of its class. Nothing is assumed: twins are found by
comparing every link that is there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.fabric.verify.network import ALL_ROUTES, Ints, Network
from gpuyard.fabric.verify.rib import alive, rib_to

__all__ = ["Classes", "Kin", "alone", "link_classes", "nature", "twins"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """A class of twins: its size, a member that stands for all, and another one where there is another."""

    size: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Classes:
    """Which class each switch is of."""

    of: Ints

    def kin(self) -> dict[int, Kin]:
        """Every class by its number."""
        found: dict[int, Kin] = {}
        for node, number in enumerate(self.of.tolist()):
            before = found.get(number)
            if before is None:
                found[number] = Kin(size=1, first=node, second=node)
            else:
                second = node if before.size == 1 else before.second
                found[number] = Kin(size=before.size + 1, first=before.first, second=second)
        return found


def twins(network: Network) -> Classes:
    """The classes of twins of a network in which everything works."""
    numbers: dict[object, int] = {}
    speeds = network.speeds_bits_per_s.tolist()
    far, link = network.edge_node.tolist(), network.edge_link.tolist()
    classes = np.zeros(network.size, np.int64)
    for node in range(network.size):
        joined = Counter((far[edge], speeds[link[edge]]) for edge in network.edges_of(node))
        key = (nature(network, node), tuple(sorted(joined.items())))
        classes[node] = numbers.setdefault(key, len(numbers))
    found = Classes(of=classes)
    # Which of its equal links a switch leaves out tells its neighbours apart: then each stands for itself.
    return Classes(of=np.arange(network.size)) if _leaves_out(network, found) else found


def nature(network: Network, node: int) -> tuple[object, ...]:
    """Everything that matters about a switch but its links to others."""
    return (
        network.roles[node], network.planes[node], network.server_speeds[node],
        int(network.as_bits[node]), int(network.widths[node]),
        tuple(network.marks[node].tolist()), tuple(network.refuses[node].tolist()),
    )  # fmt: skip


def _leaves_out(network: Network, classes: Classes) -> bool:
    """True if a switch has more equal routes than it uses."""
    free = replace(network, widths=np.full(network.size, ALL_ROUTES))
    if (network.widths >= np.diff(network.starts)).all():
        return False
    silence = np.zeros(network.size)
    return any(
        bool((rib_to(free, kin.first, alive(network), silence).widths > network.widths).any())
        for kin in classes.kin().values()
    )


def alone(classes: Classes, *nodes: int) -> Classes:
    """The classes after these switches became special, because they or links of theirs failed."""
    of = classes.of.copy()
    fresh = int(of.max(initial=0)) + 1
    for offset, node in enumerate(nodes):
        of[node] = fresh + offset
    return Classes(of=of)


def link_classes(network: Network, classes: Classes, links: Ints | None = None) -> dict[int, int]:
    """One link for each class of links that cannot be told apart, and how many links it stands for."""
    chosen = np.arange(len(network.links)) if links is None else links
    ends = np.sort(classes.of[network.ends[chosen]], axis=1)
    keys = np.column_stack([ends, network.speeds_bits_per_s[chosen]])
    if not len(keys):
        return {}
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return {int(chosen[first[index]]): int(counts[index]) for index in order}
