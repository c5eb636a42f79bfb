"""Classes of equivalent switches: same role, policy, servers, and links to the same neighbours.

Swapping two equivalent switches maps the network onto itself, so a result for one holds for the
other, and one failure represents all failures of its class. Nothing is assumed about the design:
switches are equivalent because every link was compared.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from gpuyard.fabric.verify.rib import alive, rib_to
from gpuyard.fabric.verify.switch_graph import ALL_ROUTES, Ints, SwitchGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchClass:
    """Equivalent switches: their number, a representative, and a second member if there is one."""

    size: int
    first: int
    second: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SwitchClasses:
    """The class of each switch."""

    of: Ints

    def by_number(self) -> dict[int, SwitchClass]:
        classes: dict[int, SwitchClass] = {}
        for node, number in enumerate(self.of.tolist()):
            before = classes.get(number)
            if before is None:
                classes[number] = SwitchClass(size=1, first=node, second=node)
            else:
                second = node if before.size == 1 else before.second
                classes[number] = SwitchClass(
                    size=before.size + 1, first=before.first, second=second
                )
        return classes


def equivalent_switches(network: SwitchGraph) -> SwitchClasses:
    """Return the classes of equivalent switches in a network without failures."""
    numbers: dict[object, int] = {}
    speeds = network.speeds_bits_per_s.tolist()
    far, link = network.edge_node.tolist(), network.edge_link.tolist()
    of = np.zeros(network.size, np.int64)
    for node in range(network.size):
        neighbours = Counter((far[edge], speeds[link[edge]]) for edge in network.edges_of(node))
        key = (switch_signature(network, node), tuple(sorted(neighbours.items())))
        of[node] = numbers.setdefault(key, len(numbers))
    classes = SwitchClasses(of=of)
    if _exceeds_multipath(network, classes):
        # A switch that uses only some of its ECMP paths treats its neighbours differently.
        return SwitchClasses(of=np.arange(network.size))
    return classes


def switch_signature(network: SwitchGraph, node: int) -> tuple[object, ...]:
    """Return everything that matters about a switch except its links to other switches."""
    return (
        network.roles[node],
        network.planes[node],
        network.server_speeds[node],
        int(network.as_bits[node]),
        int(network.widths[node]),
        tuple(network.marks[node].tolist()),
        tuple(network.refuses[node].tolist()),
    )


def _exceeds_multipath(network: SwitchGraph, classes: SwitchClasses) -> bool:
    unlimited = replace(network, widths=np.full(network.size, ALL_ROUTES))
    if (network.widths >= np.diff(network.starts)).all():
        return False
    no_traffic = np.zeros(network.size)
    state = alive(network)
    return any(
        bool((rib_to(unlimited, one.first, state, no_traffic).widths > network.widths).any())
        for one in classes.by_number().values()
    )


def split_failed_switches(classes: SwitchClasses, *nodes: int) -> SwitchClasses:
    """Return the classes after these switches, or links of them, failed: each is its own class."""
    of = classes.of.copy()
    fresh = int(of.max(initial=0)) + 1
    for offset, node in enumerate(nodes):
        of[node] = fresh + offset
    return SwitchClasses(of=of)


def link_classes(
    network: SwitchGraph, classes: SwitchClasses, links: Ints | None = None
) -> dict[int, int]:
    """Return one link per class of equivalent links, and the size of its class."""
    chosen = np.arange(len(network.links)) if links is None else links
    ends = np.sort(classes.of[network.ends[chosen]], axis=1)
    keys = np.column_stack([ends, network.speeds_bits_per_s[chosen]])
    if not len(keys):
        return {}
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return {int(chosen[first[index]]): int(counts[index]) for index in order}
