"""Routes against an independent search, failure classes against every failure, PFC deadlock."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.fabric.verify.deadlock import deadlock, find_valley
from gpuyard.fabric.verify.failures import (
    Impact,
    failures,
    healthy_impact,
    impact,
    required_reachability,
)
from gpuyard.fabric.verify.pod_symmetry import symmetry_swaps
from gpuyard.fabric.verify.rib import alive, rib_to
from gpuyard.fabric.verify.switch_classes import (
    SwitchClasses,
    equivalent_switches,
    split_failed_switches,
)
from gpuyard.fabric.verify.switch_graph import Policy, Speaker, SwitchGraph, network_of, speakers_of
from gpuyard.topology.links import Link
from gpuyard.topology.nodes import Node
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

from .shapes import cable, clos

NO_FILTER = Policy(refuses_up=False)


def shortest_up_down(wiring: Wiring, source: str, destination: str) -> tuple[int, int]:
    """Hops of the shortest path that climbs, then descends (-1: none), and its first links.

    Breadth-first over (node, descending), backwards from the destination: an up-down path read
    backwards is one too, so a link taken last in the search is one taken first by a packet.
    """
    layer, seen, hops = {(destination, False)}, {(destination, False)}, 0
    last: dict[str, set[Link]] = {source: set()}
    while layer:
        if source in {name for name, _ in layer}:
            return hops, len(last[source])
        last, after = {}, set()
        for name, descending in layer:
            for link in wiring.links_of(name):
                far = link.far_from(name).node
                rises = wiring.node(far).tier > wiring.node(name).tier
                falls = wiring.node(far).tier < wiring.node(name).tier
                state = (far, descending or not rises)
                if (not descending or falls) and state not in seen:
                    after.add(state)
                    last.setdefault(far, set()).add(link)
        seen |= after
        layer, hops = after, hops + 1
    return -1, 0


def network(topology: Topology, policy: Policy = Policy()) -> SwitchGraph:
    """Return the switch graph of a topology under a policy."""
    return network_of(topology, speakers_of(topology, policy))


def pods(count: int = 3, leaves: int = 2, spines: int = 2, cores: int = 4) -> Topology:
    """Three tiers: spine k of every pod to the cores of group k."""
    nodes = [Node(name=f"core-{core}", role="core") for core in range(cores)]
    links: list[Link] = []
    share = cores // spines
    for pod in range(count):
        nodes += [Node(name=f"spine-{pod}.{spine}", role="spine") for spine in range(spines)]
        for spine in range(spines):
            links += [
                cable(
                    f"spine-{pod}.{spine}",
                    f"u{core}",
                    f"core-{spine * share + core}",
                    f"{pod}.{spine}",
                )
                for core in range(share)
            ]
        for leaf in range(leaves):
            name = f"leaf-{pod}.{leaf}"
            nodes += [
                Node(name=name, role="leaf"),
                Node(name=f"server-{pod}.{leaf}", role="server"),
            ]
            links += [
                cable(f"server-{pod}.{leaf}", f"n{nic}", name, f"d{nic}") for nic in range(spines)
            ]
            links += [
                cable(name, f"u{spine}", f"spine-{pod}.{spine}", f"l{leaf}")
                for spine in range(spines)
            ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


@st.composite
def damaged(draw: st.DrawFn) -> Topology:
    """Draw a two- or three-tier fabric with some links missing and some slower."""
    whole = draw(
        st.sampled_from(
            [
                clos(stripes=1, servers=2, rails=3, spines=3),
                clos(stripes=2, servers=2, rails=2, spines=2, parallel=2),
                pods(),
            ]
        )
    )
    between = [link for link in whole.links if "server" not in link.b.node]
    gone = draw(st.lists(st.sampled_from(between), unique=True, max_size=4))
    slow = draw(st.lists(st.sampled_from(between), unique=True, max_size=2))
    left = whole.without(links=gone)
    links = tuple(
        Link(a=link.a, b=link.b, speed_bits_per_s=100e9 if link in slow else link.speed_bits_per_s)
        for link in left.links
    )
    return Topology(nodes=left.nodes, links=links)


@given(damaged())
@settings(max_examples=30)
def test_routes_match_shortest_up_down_paths(topology: Topology) -> None:
    net, wiring = network(topology), Wiring.of(topology)
    no_traffic = np.zeros(net.size)
    for place, name in enumerate(net.names):
        rib = rib_to(net, place, alive(net), no_traffic)
        for other, source in enumerate(net.names):
            hops, width = shortest_up_down(wiring, source, name)
            assert rib.hops[other] == hops
            if other != place:
                assert rib.widths[other] == width


@given(damaged())
@settings(max_examples=25)
def test_failure_classes_match_every_single_failure(topology: Topology) -> None:
    net = network(topology)
    single, groups = SwitchClasses(of=np.arange(net.size)), required_reachability(net)
    whole = alive(net)
    states = [("link", whole.without(link=link)) for link in range(len(net.links))]
    states += [(net.roles[node], whole.without(node=node)) for node in range(net.size)]
    one_by_one = Counter(
        _effect(impact(net, groups, failed=failed, where="", state=state, classes=single))  # type: ignore[arg-type]
        for failed, state in states
    )
    by_class: Counter[tuple[str, float, int, int]] = Counter()
    for one in failures(net).impacts:
        by_class[_effect(one)] += one.alike_count
    assert by_class == one_by_one


def _effect(one: Impact) -> tuple[str, float, int, int]:
    return one.failed, round(one.hottest_ratio, 6), one.lost_pairs_count, one.least_width


def test_pod_symmetry_merges_equivalent_failures() -> None:
    net = network(pods(count=4, leaves=3, spines=2, cores=4))
    result = {one.failed: one.alike_count for one in failures(net).impacts if one.failed != "link"}
    assert result == {"leaf": 12, "spine": 8, "core": 4}
    assert sorted(one.alike_count for one in failures(net).impacts if one.failed == "link") == [
        16,
        24,
    ]
    assert len(list(symmetry_swaps(net))) == 3 + 1
    cut = pods(count=4, leaves=3, spines=2, cores=4)
    cut = cut.without(links=[next(link for link in cut.links if link.a.node == "core-0")])
    assert len(list(symmetry_swaps(network(cut)))) == 2  # one pod and its column of spines differ


def test_missing_or_failed_link_splits_switch_classes() -> None:
    whole = clos()
    assert len(equivalent_switches(network(whole)).by_number()) == 2
    less = whole.without(links=[next(link for link in whole.links if link.b.node == "spine-1")])
    assert len(equivalent_switches(network(less)).by_number()) == 4
    assert len(split_failed_switches(equivalent_switches(network(whole)), 0).by_number()) == 3


def test_capacity_left_after_failures() -> None:
    left = {one.failed: one.capacity_ratio for one in failures(network(clos(spines=4))).impacts}
    assert left == {"leaf": 1.0, "spine": 0.75, "link": 0.75}
    # With one of two parallel links gone, the spine still receives its full share for the leaf.
    left = {
        one.failed: one.capacity_ratio
        for one in failures(network(clos(spines=2, parallel=2))).impacts
    }
    assert left == {"leaf": 1.0, "spine": 0.5, "link": 0.5}


def test_leaf_on_one_spine_loses_routes_when_it_fails() -> None:
    whole = clos(stripes=1, rails=2, spines=2)
    single = whole.without(
        links=[
            link for link in whole.links if link.a.node == "leaf-s1-r1" and link.b.node == "spine-2"
        ]
    )
    worst = failures(network(single)).worst("spine")
    assert worst is not None
    assert (worst.where, worst.lost_pairs_count) == ("spine-1", 2)


def test_limited_multipath_overloads_the_used_links() -> None:
    limited = network(clos(), Policy(multipath_count=2))
    assert healthy_impact(limited).least_width == 2
    assert healthy_impact(limited).hottest_ratio == 2.0


def test_failures_beyond_the_budget_are_counted() -> None:
    net = network(clos(rails=8), Policy(multipath_count=2))  # no two switches are alike
    result = failures(net, budget=0.0)
    assert len(result.impacts) < len(net.links) + net.size
    assert (
        sum(one.alike_count for one in result.impacts) + result.left_out_count
        == len(net.links) + net.size
    )
    assert failures(network(clos())).left_out_count == 0


def test_valley_free_policy_proves_absence_of_deadlock() -> None:
    for whole in (clos(), clos(spines=2), pods()):
        result = deadlock(network(whole))
        assert (result.valley, result.cycle, result.tried_count) == (None, None, 0)


def test_buffer_cycle_is_detected_without_filter_after_two_failures() -> None:
    result = deadlock(network(clos(stripes=1, spines=2), NO_FILTER))
    assert result.valley is not None
    assert result.cycle is not None
    assert len(result.cycle.failed) == 2
    names = result.cycle.switches
    assert {name.split("-")[0] for name in names[::2]} | {
        name.split("-")[0] for name in names[1::2]
    } == {
        "leaf",
        "spine",
    }
    assert len(set(names)) == len(names) == 4
    assert str(result.cycle) == " → ".join((*names, names[0]))


def test_four_spines_have_no_buffer_cycle_after_two_failures() -> None:
    result = deadlock(network(clos(spines=4), NO_FILTER))
    assert result.valley is not None
    assert result.cycle is None
    assert result.tried_count > 3


def test_one_switch_without_the_filter_permits_a_valley() -> None:
    whole = clos()
    speakers = speakers_of(whole)
    speakers["leaf-s1-r2"] = Speaker(asn=speakers["leaf-s1-r2"].asn, policy=NO_FILTER)
    valley = find_valley(network_of(whole, speakers))
    assert valley is not None
    assert valley.switches[-2] == "leaf-s1-r2"


def test_spines_with_a_shared_as_number_are_valley_free() -> None:
    whole = clos()
    speakers = {
        name: Speaker(asn=1 if name.startswith("spine") else speaker.asn, policy=NO_FILTER)
        for name, speaker in speakers_of(whole).items()
    }
    assert find_valley(network_of(whole, speakers)) is None


def test_links_between_leaves_permit_a_valley() -> None:
    whole = clos()
    level = cable("leaf-s1-r1", "x", "leaf-s1-r2", "x")
    assert (
        find_valley(network(Topology(nodes=whole.nodes, links=(*whole.links, level)))) is not None
    )
