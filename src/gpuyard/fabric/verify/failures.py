"""What is left after a link, leaf, spine or core fails: routes, equal paths, and bandwidth under uniform traffic.

Uniform traffic: every leaf sends what its servers can send, to all other leaves of its plane in proportion to what
their servers can take. The fullest link then tells how fast all may go: with it 25 % too full, 80 % are left.
Equal paths get equal shares, so a spine with one link left of two to a leaf is still sent its full share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from gpuyard.document import Doc
from gpuyard.fabric.verify.network import Bools, Floats, Ints, Network
from gpuyard.fabric.verify.orbits import orbits
from gpuyard.fabric.verify.rib import State, alive, rib_to
from gpuyard.fabric.verify.symmetry import Classes, Kin, alone, twins

__all__ = ["Failed", "Failures", "Impact", "Progress", "failures", "impact", "intact", "mutual", "quiet"]

Failed = Literal["nothing", "link", "leaf", "spine", "core"]
Progress = Callable[[int, int], None]
BUDGET = 5e9  # edges looked at; some twenty seconds of one core
LEAST_CASES = 64
NO_WIDTH = 1 << 30
DIGITS = 9  # sums of many shares carry noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The fabric in one state."""

    failed: Failed
    where: Annotated[str, Doc("what failed: one that stands for all of its class")]
    alike_count: Annotated[int, Doc("failures that have the same effect")]
    lost_pairs_count: Annotated[int, Doc("ordered pairs of leaves, both alive, without a route")]
    lost_pair: Annotated[str, Doc("one of them")]
    least_width: Annotated[int, Doc("fewest equal links that any leaf has toward another")]
    fullest_ratio: Annotated[float, Doc("load over speed of the fullest link between switches")]
    fullest: str
    capacity_ratio: Annotated[float, Doc("share of uniform traffic at full speed that the switches carry, at most 1")]


def quiet(_done: int, _total: int) -> None:
    """Tells nobody how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The effect of every single failure, one a class."""

    impacts: tuple[Impact, ...]
    left_out_count: Annotated[int, Doc("failures not looked at, because the fabric has too little symmetry")] = 0

    def worst(self, failed: Failed) -> Impact | None:
        """The failure of a kind that leaves the least."""
        kind = [impact for impact in self.impacts if impact.failed == failed]
        return min(kind, key=lambda impact: (-impact.lost_pairs_count, impact.capacity_ratio), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One failure to look at."""

    failed: Failed
    where: str
    alike_count: int
    state: State
    classes: Classes


def intact(network: Network) -> Impact:
    """The fabric when everything works."""
    return impact(network, mutual(network), failed="nothing", where="", state=alive(network), classes=twins(network))


def failures(network: Network, told: Progress = quiet, budget: float = BUDGET) -> Failures:
    """Every single failure, one of each class; together they stand for all links and switches."""
    cases = list(_cases(network))
    leaf_classes = sum(1 for kin in twins(network).kin().values() if network.demand_bits_per_s[kin.first] > 0)
    visits = max(1, (leaf_classes + 2) * len(network.edge_node))
    room = max(LEAST_CASES, int(budget / visits))
    found, groups = [], mutual(network)
    for number, case in enumerate(cases[:room]):
        found.append(replace(impact(network, groups, failed=case.failed, where=case.where, state=case.state,
                                    classes=case.classes), alike_count=case.alike_count))  # fmt: skip
        told(number, min(room, len(cases)))
    return Failures(impacts=tuple(found), left_out_count=sum(case.alike_count for case in cases[room:]))


def _cases(network: Network) -> Iterator[_Case]:
    """One failure of each class; switches first, for there are fewer."""
    whole, classes = alive(network), twins(network)
    alike = orbits(network, classes)
    for node, count in alike.nodes.items():
        failed: Failed = {"leaf": "leaf", "spine": "spine"}.get(network.roles[node], "core")  # type: ignore[assignment]
        yield _Case(failed=failed, where=network.names[node], alike_count=count,
                    state=whole.without(node=node), classes=alone(classes, node))  # fmt: skip
    for link, count in alike.links.items():
        a, b = network.ends[link].tolist()
        yield _Case(failed="link", where=str(network.links[link]), alike_count=count, state=whole.without(link=link),
                    classes=alone(classes, a, b))  # fmt: skip


def impact(network: Network, groups: Ints, *, failed: Failed, where: str, state: State, classes: Classes) -> Impact:
    """The fabric in one state; switches that a failure touches must be classes of their own."""
    demand: Floats = np.where(state.nodes, network.demand_bits_per_s, 0.0)
    kin = classes.kin()
    sample = _sample(network, state, classes, kin)
    totals = np.zeros(len(sample.edges))
    lost, pair, width = 0, "", NO_WIDTH
    for number, one in kin.items():
        if demand[one.first] <= 0:
            continue
        rib = rib_to(network, one.first, state, _sent(demand, groups, one.first))
        totals += sample.load_of(rib.loads_bits_per_s, number, one.size)
        wanted = (demand > 0) & (groups == groups[one.first])
        wanted[one.first] = False
        without = np.flatnonzero(wanted & (rib.hops < 0))
        lost += one.size * len(without)
        if len(without) and not pair:
            pair = f"{network.names[without[0]]} to {network.names[one.first]}"
        if wanted.any():
            width = min(width, int(rib.widths[wanted].min()))
    full = totals / network.speeds_bits_per_s[network.edge_link[sample.edges]]
    worst = int(np.argmax(full)) if len(full) else -1
    ratio = float(full[worst]) if len(full) else 0.0
    return Impact(
        failed=failed,
        where=where,
        alike_count=1,
        lost_pairs_count=lost,
        lost_pair=pair,
        least_width=0 if width == NO_WIDTH else width,
        fullest_ratio=round(ratio, DIGITS),
        fullest=f"{network.names[sample.near[worst]]} to {network.names[sample.far[worst]]}" if ratio > 0 else "",
        capacity_ratio=round(min(1.0, 1.0 / ratio), DIGITS) if ratio > 0 else 1.0,
    )


def _sent(demand: Floats, groups: Ints, destination: int) -> Floats:
    """What each leaf sends to one: its share of uniform traffic."""
    same = groups == groups[destination]
    rest = np.maximum(float(demand[same].sum()) - demand, 1.0)
    sent: Floats = np.where(same, demand * demand[destination] / rest, 0.0)
    sent[destination] = 0.0
    return sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Sample:
    """One edge of each class of edges, between the second members of two classes.

    A swap of any destination with the first of its class leaves such an edge in place, so the load that traffic to
    the first puts on it is the load that traffic to any other member does. Only when the destination is the edge's
    own far end is it the load of the edge to the first, `twin`.
    """

    edges: Ints
    near: Ints
    far: Ints
    near_class: Ints
    far_class: Ints
    twin: Ints

    def load_of(self, loads_bits_per_s: Floats, number: int, size: int) -> Floats:
        """The load of traffic to all members of a class, from the loads of traffic to its first."""
        others = size - (self.near_class == number) - (self.far_class == number)
        load: Floats = others * loads_bits_per_s[self.edges]
        ends = self.far_class == number
        load[ends] += loads_bits_per_s[self.twin[ends]]
        return load


def _sample(network: Network, state: State, classes: Classes, kin: dict[int, Kin]) -> _Sample:
    """The edges that stand for all that work."""
    second = np.zeros(network.size, np.bool_)
    second[[one.second for one in kin.values()]] = True
    near = np.repeat(np.arange(network.size), np.diff(network.starts))
    works = state.links[network.edge_link] & state.nodes[near] & state.nodes[network.edge_node]
    edges = np.flatnonzero(works & second[near] & second[network.edge_node])
    far = network.edge_node[edges]
    first = np.array([kin[int(number)].first for number in classes.of[far]], np.int64)
    twin = edges.copy()
    for place in np.flatnonzero(first != far):
        twin[place] = _edge(network, works, int(near[edges[place]]), int(first[place]), int(edges[place]))
    return _Sample(edges=edges, near=near[edges], far=far, near_class=classes.of[near[edges]],
                   far_class=classes.of[far], twin=twin)  # fmt: skip


def _edge(network: Network, works: Bools, near: int, far: int, like: int) -> int:
    """A working edge from one switch to another, of the speed of edge `like`."""
    speed = network.speeds_bits_per_s[network.edge_link[like]]
    start, end = int(network.starts[near]), int(network.starts[near + 1])
    edge = start + int(np.searchsorted(network.edge_node[start:end], far))  # a node's edges are in order of far ends
    while not works[edge] or network.speeds_bits_per_s[network.edge_link[edge]] != speed:
        edge += 1
    assert network.edge_node[edge] == far, "twins have the same links"
    return edge


def mutual(network: Network) -> Ints:
    """A number for each switch; leaves of one number must reach each other.

    Those of one plane, if it has spines. Without spines every leaf is alone: the rails meet inside the servers.
    Where no planes are named, what cables join is a plane; a leaf with no cable up belongs to the first.
    """
    group = np.arange(network.size)
    above = [node for node in range(network.size) if network.tiers[node] > 1]
    if not above:
        return group
    if any(plane >= 0 for plane in network.planes):
        with_spines = {network.planes[node] for node in above}
        for node, plane in enumerate(network.planes):
            group[node] = network.size + plane if plane in with_spines else node
        return group
    for a, b in network.ends.tolist():
        low, high = sorted((_root(group, a), _root(group, b)))
        group[high] = low
    roots = np.array([_root(group, node) for node in range(network.size)])
    joined = set(roots[above].tolist())
    roots[[node for node in range(network.size) if roots[node] not in joined]] = roots[above[0]]
    return roots


def _root(group: Ints, node: int) -> int:
    """Who stands for a node's group."""
    while group[node] != node:
        group[node] = group[group[node]]
        node = int(group[node])
    return node
