"""Routes against an independent search, failures of classes against every failure, and waits in a circle."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.fabric.verify.deadlock import deadlock, valley
from gpuyard.fabric.verify.failures import Impact, failures, impact, intact, mutual
from gpuyard.fabric.verify.network import Network, Policy, Speaker, network_of, speakers_of
from gpuyard.fabric.verify.orbits import exchanges
from gpuyard.fabric.verify.rib import alive, rib_to
from gpuyard.fabric.verify.symmetry import Classes, alone, twins
from gpuyard.topology import Link, Node, Rule, Topology, Wiring, hop_count, next_links

from .shapes import cable, clos

NO_FILTER = Policy(refuses_up=False)


def network(topology: Topology, policy: Policy = Policy()) -> Network:  # noqa: B008
    """The network of a topology under a policy."""
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
                cable(f"spine-{pod}.{spine}", f"u{core}", f"core-{spine * share + core}", f"{pod}.{spine}")
                for core in range(share)
            ]
        for leaf in range(leaves):
            name = f"leaf-{pod}.{leaf}"
            nodes += [Node(name=name, role="leaf"), Node(name=f"server-{pod}.{leaf}", role="server")]
            links += [cable(f"server-{pod}.{leaf}", f"n{nic}", name, f"d{nic}") for nic in range(spines)]
            links += [cable(name, f"u{spine}", f"spine-{pod}.{spine}", f"l{leaf}") for spine in range(spines)]
    return Topology(nodes=tuple(nodes), links=tuple(links))


@st.composite
def damaged(draw: st.DrawFn) -> Topology:
    """A two- or three-tier fabric with some links gone and some slower."""
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
def test_routes_are_the_shortest_ways_up_and_down(topology: Topology) -> None:
    net, wiring = network(topology), Wiring.of(topology)
    silence = np.zeros(net.size)
    for place, name in enumerate(net.names):
        rib = rib_to(net, place, alive(net), silence)
        for other, source in enumerate(net.names):
            hops = hop_count(wiring, source, name, Rule.UP_DOWN)
            assert rib.hops[other] == (-1 if hops is None else hops)
            if other != place:
                assert rib.widths[other] == len(next_links(wiring, source, name, Rule.UP_DOWN))


@given(damaged())
@settings(max_examples=25)
def test_failures_that_stand_for_others_stand_for_all(topology: Topology) -> None:
    net = network(topology)
    each, groups = Classes(of=np.arange(net.size)), mutual(net)
    whole = alive(net)
    states = [("link", whole.without(link=link)) for link in range(len(net.links))]
    states += [(net.roles[node], whole.without(node=node)) for node in range(net.size)]
    one_by_one = Counter(
        _effect(impact(net, groups, failed=failed, where="", state=state, classes=each))  # type: ignore[arg-type]
        for failed, state in states
    )
    by_class: Counter[tuple[str, float, int, int]] = Counter()
    for found in failures(net).impacts:
        by_class[_effect(found)] += found.alike_count
    assert by_class == one_by_one


def _effect(found: Impact) -> tuple[str, float, int, int]:
    """What a failure leaves."""
    return found.failed, round(found.fullest_ratio, 6), found.lost_pairs_count, found.least_width


def test_pods_change_places_as_a_whole() -> None:
    net = network(pods(count=4, leaves=3, spines=2, cores=4))
    told = {found.failed: found.alike_count for found in failures(net).impacts if found.failed != "link"}
    assert told == {"leaf": 12, "spine": 8, "core": 4}
    assert sorted(found.alike_count for found in failures(net).impacts if found.failed == "link") == [16, 24]
    assert len(list(exchanges(net))) == 3 + 1
    cut = pods(count=4, leaves=3, spines=2, cores=4)
    cut = cut.without(links=[next(link for link in cut.links if link.a.node == "core-0")])
    assert len(list(exchanges(network(cut)))) == 2  # one pod differs, and so do the spines of its number


def test_twins_are_told_apart_by_what_differs() -> None:
    whole = clos()
    assert len(twins(network(whole)).kin()) == 2
    less = whole.without(links=[next(link for link in whole.links if link.b.node == "spine-1")])
    assert len(twins(network(less)).kin()) == 4
    assert len(alone(twins(network(whole)), 0).kin()) == 3


def test_bandwidth_left_after_failures() -> None:
    left = {found.failed: found.capacity_ratio for found in failures(network(clos(spines=4))).impacts}
    assert left == {"leaf": 1.0, "spine": 0.75, "link": 0.75}
    # Two parallel links: one gone, and the spine is still sent a full share for the leaf.
    left = {found.failed: found.capacity_ratio for found in failures(network(clos(spines=2, parallel=2))).impacts}
    assert left == {"leaf": 1.0, "spine": 0.5, "link": 0.5}


def test_a_leaf_on_one_spine_is_cut_off_by_it() -> None:
    whole = clos(stripes=1, rails=2, spines=2)
    single = whole.without(
        links=[link for link in whole.links if link.a.node == "leaf-s1-r1" and link.b.node == "spine-2"]
    )
    worst = failures(network(single)).worst("spine")
    assert worst is not None
    assert (worst.where, worst.lost_pairs_count) == ("spine-1", 2)


def test_multipath_that_is_limited_leaves_links_empty() -> None:
    limited = network(clos(), Policy(multipath_count=2))
    assert intact(limited).least_width == 2
    assert intact(limited).fullest_ratio == 2.0


def test_work_beyond_the_budget_is_counted() -> None:
    net = network(clos(rails=8), Policy(multipath_count=2))  # no two switches are alike
    told = failures(net, budget=0.0)
    assert len(told.impacts) < len(net.links) + net.size
    assert sum(found.alike_count for found in told.impacts) + told.left_out_count == len(net.links) + net.size
    assert failures(network(clos())).left_out_count == 0


def test_filter_proves_that_nothing_waits_in_a_circle() -> None:
    for whole in (clos(), clos(spines=2), pods()):
        told = deadlock(network(whole))
        assert (told.valley, told.circle, told.tried_count) == (None, None, 0)


def test_circle_without_the_filter_after_two_failures() -> None:
    told = deadlock(network(clos(stripes=1, spines=2), NO_FILTER))
    assert told.valley is not None
    assert told.circle is not None
    assert len(told.circle.failed) == 2
    names = told.circle.switches
    assert {name.split("-")[0] for name in names[::2]} | {name.split("-")[0] for name in names[1::2]} == {
        "leaf",
        "spine",
    }
    assert len(set(names)) == len(names) == 4
    assert str(told.circle) == " → ".join((*names, names[0]))


def test_four_spines_survive_two_failures_even_without_the_filter() -> None:
    told = deadlock(network(clos(spines=4), NO_FILTER))
    assert told.valley is not None
    assert told.circle is None
    assert told.tried_count > 3


def test_one_switch_without_the_filter_is_enough_for_a_valley() -> None:
    whole = clos()
    speakers = speakers_of(whole)
    speakers["leaf-s1-r2"] = Speaker(asn=speakers["leaf-s1-r2"].asn, policy=NO_FILTER)
    way = valley(network_of(whole, speakers))
    assert way is not None
    assert way.switches[-2] == "leaf-s1-r2"


def test_spines_that_share_an_as_number_need_no_filter() -> None:
    whole = clos()
    speakers = {
        name: Speaker(asn=1 if name.startswith("spine") else speaker.asn, policy=NO_FILTER)
        for name, speaker in speakers_of(whole).items()
    }
    assert valley(network_of(whole, speakers)) is None


def test_links_between_leaves_are_a_valley() -> None:
    whole = clos()
    level = cable("leaf-s1-r1", "x", "leaf-s1-r2", "x")
    assert valley(network(Topology(nodes=whole.nodes, links=(*whole.links, level)))) is not None
