"""Impact of every single failure: routes, ECMP width and bandwidth left under uniform traffic.

Uniform traffic: every leaf sends at the full rate of its servers to all other leaves of its plane,
in proportion to the rate of their servers. The most loaded link limits the rate of all: at 125 % of
its speed, 80 % of the traffic is carried. ECMP paths get equal shares, so a spine that lost one of
two links to a leaf still receives its full share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np

from gpuyard.document.field_types import Doc
from gpuyard.fabric.verify.pod_symmetry import representatives
from gpuyard.fabric.verify.rib import FailureState, alive, rib_to
from gpuyard.fabric.verify.switch_classes import (
    SwitchClass,
    SwitchClasses,
    equivalent_switches,
    split_failed_switches,
)
from gpuyard.fabric.verify.switch_graph import Bools, Floats, Ints, SwitchGraph

Failed = Literal["nothing", "link", "leaf", "spine", "core"]
Progress = Callable[[int, int], None]
BUDGET = 5e9  # edge visits; about twenty seconds on one core
LEAST_CASES = 64
NO_WIDTH = 1 << 30
DIGITS = 9  # round off the noise of summing many shares


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """The fabric in one failure state."""

    failed: Failed
    where: Annotated[str, Doc("the failed link or switch, which represents its class")]
    alike_count: Annotated[int, Doc("failures with the same effect")]
    lost_pairs_count: Annotated[int, Doc("ordered pairs of working leaves without a route")]
    lost_pair: Annotated[str, Doc("one of them")]
    least_width: Annotated[int, Doc("smallest ECMP width from any leaf to another")]
    hottest_ratio: Annotated[float, Doc("load over speed of the hottest link between switches")]
    hottest: str
    capacity_ratio: Annotated[
        float, Doc("share of full-rate uniform traffic that the switches carry, at most 1")
    ]


def ignore_progress(_done: int, _total: int) -> None:
    """Do nothing: the default progress callback."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The impact of every single failure, one per class of equivalent failures."""

    impacts: tuple[Impact, ...]
    left_out_count: Annotated[
        int, Doc("failures not computed, because the fabric has too little symmetry")
    ] = 0

    def worst(self, failed: Failed) -> Impact | None:
        kind = [impact for impact in self.impacts if impact.failed == failed]
        return min(
            kind, key=lambda impact: (-impact.lost_pairs_count, impact.capacity_ratio), default=None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailureCase:
    failed: Failed
    where: str
    alike_count: int
    state: FailureState
    classes: SwitchClasses


def healthy_impact(network: SwitchGraph) -> Impact:
    """Return the impact of no failure."""
    return impact(
        network,
        required_reachability(network),
        failed="nothing",
        where="",
        state=alive(network),
        classes=equivalent_switches(network),
    )


def failures(
    network: SwitchGraph, on_progress: Progress = ignore_progress, budget: float = BUDGET
) -> Failures:
    """Compute the impact of one failure per class; together they cover all links and switches."""
    cases = list(_cases(network))
    leaf_classes = sum(
        network.demand_bits_per_s[one.first] > 0
        for one in equivalent_switches(network).by_number().values()
    )
    visits = max(1, (leaf_classes + 2) * len(network.edge_node))
    limit = max(LEAST_CASES, int(budget / visits))
    impacts: list[Impact] = []
    groups = required_reachability(network)
    for number, case in enumerate(cases[:limit]):
        one = impact(
            network,
            groups,
            failed=case.failed,
            where=case.where,
            state=case.state,
            classes=case.classes,
        )
        impacts.append(replace(one, alike_count=case.alike_count))
        on_progress(number, min(limit, len(cases)))
    return Failures(
        impacts=tuple(impacts), left_out_count=sum(case.alike_count for case in cases[limit:])
    )


def _cases(network: SwitchGraph) -> Iterator[_FailureCase]:
    healthy, classes = alive(network), equivalent_switches(network)
    alike = representatives(network, classes)
    for node, count in alike.nodes.items():
        failed: Failed = {"leaf": "leaf", "spine": "spine"}.get(network.roles[node], "core")  # type: ignore[assignment]
        yield _FailureCase(
            failed=failed,
            where=network.names[node],
            alike_count=count,
            state=healthy.without(node=node),
            classes=split_failed_switches(classes, node),
        )
    for link, count in alike.links.items():
        a, b = network.ends[link].tolist()
        yield _FailureCase(
            failed="link",
            where=str(network.links[link]),
            alike_count=count,
            state=healthy.without(link=link),
            classes=split_failed_switches(classes, a, b),
        )


def impact(
    network: SwitchGraph,
    groups: Ints,
    *,
    failed: Failed,
    where: str,
    state: FailureState,
    classes: SwitchClasses,
) -> Impact:
    """Compute the impact of a failure state; switches it touches must be separate classes."""
    # Traffic to the representative of each class of leaves is routed once and scaled to the class;
    # loads are summed on one edge per class of edges.
    demand: Floats = np.where(state.nodes, network.demand_bits_per_s, 0.0)
    by_number = classes.by_number()
    sample = _sample(network, state, classes, by_number)
    totals = np.zeros(len(sample.edges))
    lost, pair, width = 0, "", NO_WIDTH
    for number, one in by_number.items():
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
    ratios = totals / network.speeds_bits_per_s[network.edge_link[sample.edges]]
    worst = int(np.argmax(ratios)) if len(ratios) else -1
    ratio = float(ratios[worst]) if len(ratios) else 0.0
    hottest = ""
    if ratio > 0:
        hottest = f"{network.names[sample.near[worst]]} to {network.names[sample.far[worst]]}"
    return Impact(
        failed=failed,
        where=where,
        alike_count=1,
        lost_pairs_count=lost,
        lost_pair=pair,
        least_width=0 if width == NO_WIDTH else width,
        hottest_ratio=round(ratio, DIGITS),
        hottest=hottest,
        capacity_ratio=round(min(1.0, 1.0 / ratio), DIGITS) if ratio > 0 else 1.0,
    )


def _sent(demand: Floats, groups: Ints, destination: int) -> Floats:
    same = groups == groups[destination]
    rest = np.maximum(float(demand[same].sum()) - demand, 1.0)
    sent: Floats = np.where(same, demand * demand[destination] / rest, 0.0)
    sent[destination] = 0.0
    return sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class _Sample:
    """One edge per class of edges, between the second members of two classes of switches.

    Swapping any destination with the first member of its class leaves such an edge in place, so the
    edge carries the same load for either destination. The exception is a destination that is the
    edge's own far end: then the load is that of the edge to the first member, `twin`.
    """

    edges: Ints
    near: Ints
    far: Ints
    near_class: Ints
    far_class: Ints
    twin: Ints

    def load_of(self, loads_bits_per_s: Floats, number: int, size: int) -> Floats:
        """Return the load of traffic to all members of a class, given that to its first member."""
        others = size - (self.near_class == number) - (self.far_class == number)
        load: Floats = others * loads_bits_per_s[self.edges]
        ends = self.far_class == number
        load[ends] += loads_bits_per_s[self.twin[ends]]
        return load


def _sample(
    network: SwitchGraph,
    state: FailureState,
    classes: SwitchClasses,
    by_number: dict[int, SwitchClass],
) -> _Sample:
    second = np.zeros(network.size, np.bool_)
    second[[one.second for one in by_number.values()]] = True
    near = np.repeat(np.arange(network.size), np.diff(network.starts))
    works = state.links[network.edge_link] & state.nodes[near] & state.nodes[network.edge_node]
    edges = np.flatnonzero(works & second[near] & second[network.edge_node])
    far = network.edge_node[edges]
    first = np.array([by_number[int(number)].first for number in classes.of[far]], np.int64)
    twin = edges.copy()
    for place in np.flatnonzero(first != far):
        twin[place] = _edge(
            network, works, int(near[edges[place]]), int(first[place]), int(edges[place])
        )
    return _Sample(
        edges=edges,
        near=near[edges],
        far=far,
        near_class=classes.of[near[edges]],
        far_class=classes.of[far],
        twin=twin,
    )


def _edge(network: SwitchGraph, works: Bools, near: int, far: int, like: int) -> int:
    # A working edge from one switch to another, with the speed of edge `like`.
    speed = network.speeds_bits_per_s[network.edge_link[like]]
    start, end = int(network.starts[near]), int(network.starts[near + 1])
    # The edges of a node are sorted by far end.
    edge = start + int(np.searchsorted(network.edge_node[start:end], far))
    while not works[edge] or network.speeds_bits_per_s[network.edge_link[edge]] != speed:
        edge += 1
    assert network.edge_node[edge] == far, "equivalent switches have the same links"
    return edge


def required_reachability(network: SwitchGraph) -> Ints:
    """Return a group number per switch; leaves of one group must reach each other.

    A group is a plane with spines. Without spines every leaf is its own group, because rails meet
    inside the servers. If the topology names no planes, a connected component is a plane, and a
    leaf without uplinks belongs to the first.
    """
    group = np.arange(network.size)
    above = [node for node in range(network.size) if network.tiers[node] > 1]
    if not above:
        return group
    if any(plane >= 0 for plane in network.planes):
        planes = {network.planes[node] for node in above}
        for node, plane in enumerate(network.planes):
            group[node] = network.size + plane if plane in planes else node
        return group
    for a, b in network.ends.tolist():
        low, high = sorted((_root(group, a), _root(group, b)))
        group[high] = low
    roots = np.array([_root(group, node) for node in range(network.size)])
    with_spines = set(roots[above].tolist())
    alone = [node for node in range(network.size) if roots[node] not in with_spines]
    roots[alone] = roots[above[0]]
    return roots


def _root(group: Ints, node: int) -> int:
    while group[node] != node:
        group[node] = group[group[node]]
        node = int(group[node])
    return node
