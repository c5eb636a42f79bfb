from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.topology import (
    SWITCH_ROLES,
    Node,
    Path,
    Rule,
    Topology,
    Wiring,
    components,
    hop_count,
    is_connected,
    is_up_down,
    next_links,
    path_count,
    reach,
    shortest_paths,
)

from .shapes import chain, link, rail_fabric, three_tier, topologies, two_planes

rules = st.sampled_from(Rule)


def every_simple_path(wiring: Wiring, source: str, destination: str, rule: Rule) -> list[Path]:
    """All paths that the rule allows, by trying every way: slow, and written without the search under test."""
    found: list[Path] = []

    def walk(path: Path) -> None:
        here = path.nodes[-1]
        if here == destination:
            found.append(path)
            return
        if rule is Rule.ANY and len(path.nodes) > 1 and wiring.node(here).role == "server":
            return
        for one in wiring.links_of(here):
            there = one.far_from(here).node
            longer = (*path.nodes, there)
            if there not in path.nodes and (rule is Rule.ANY or is_up_down(wiring, longer)):
                walk(Path(nodes=longer, links=(*path.links, one)))

    walk(Path(nodes=(source,), links=()))
    shortest = min((len(path.links) for path in found), default=0)
    return [path for path in found if len(path.links) == shortest]


small = topologies(max_nodes=6, ports=3, letters=False).filter(lambda topology: topology.nodes)


@given(small, rules)
def test_paths_are_those_found_by_trying_every_way(topology: Topology, rule: Rule) -> None:
    wiring = Wiring.of(topology)
    for source, destination in itertools.product(wiring.names, repeat=2):
        oracle = every_simple_path(wiring, source, destination, rule)
        paths = shortest_paths(wiring, source, destination, rule)
        assert len(paths.listed) == len(set(paths.listed)) == paths.count
        assert set(paths.listed) == set(oracle)
        assert paths.hops == (len(oracle[0].links) if oracle else None)
        assert set(next_links(wiring, source, destination, rule)) == {path.links[0] for path in oracle if path.links}


@given(small, rules)
def test_one_search_agrees_with_searches_for_each_pair(topology: Topology, rule: Rule) -> None:
    wiring = Wiring.of(topology)
    for source in wiring.names:
        told = reach(wiring, source, rule)
        assert told.hops.keys() == told.path_counts.keys()
        for destination in wiring.names:
            assert told.hops.get(destination) == hop_count(wiring, source, destination, rule)
            assert told.path_counts.get(destination, 0) == path_count(wiring, source, destination, rule)


@given(topologies(letters=False), rules)
def test_hops_and_path_counts_are_the_same_both_ways(topology: Topology, rule: Rule) -> None:
    wiring = Wiring.of(topology)
    told = {name: reach(wiring, name, rule) for name in wiring.names}
    for one, other in itertools.combinations(wiring.names, 2):
        assert told[one].hops.get(other) == told[other].hops.get(one)
        assert told[one].path_counts.get(other) == told[other].path_counts.get(one)


@given(topologies(letters=False))
def test_the_way_over_a_switch_is_never_shorter(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    hops = {name: reach(wiring, name).hops for name in wiring.names}
    for via in (name for name in wiring.names if wiring.node(name).role != "server"):
        for source, first in hops[via].items():
            for destination, second in hops[via].items():
                assert hops[source][destination] <= first + second


@given(topologies(letters=False), rules, st.data())
def test_taking_a_link_away_never_shortens_a_path(topology: Topology, rule: Rule, data: st.DataObject) -> None:
    wiring = Wiring.of(topology)
    if not topology.links:
        return
    cut = data.draw(st.sampled_from(topology.links))
    fewer = wiring.without(links=[cut])
    for source in wiring.names:
        before, after = reach(wiring, source, rule), reach(fewer, source, rule)
        assert after.hops.keys() <= before.hops.keys()
        for destination, hops in after.hops.items():
            assert hops >= before.hops[destination]
            if hops == before.hops[destination]:
                assert after.path_counts[destination] <= before.path_counts[destination]


@given(topologies(letters=False))
def test_up_down_is_never_shorter_than_any(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    for source in wiring.names:
        strict, free = reach(wiring, source, Rule.UP_DOWN), reach(wiring, source)
        assert all(free.hops[name] <= hops for name, hops in strict.hops.items())


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("parallel", [1, 3])
def test_path_counts_of_a_rail_fabric(rule: Rule, parallel: int) -> None:
    rails, spines = 4, 2
    wiring = Wiring.of(rail_fabric(stripes=2, servers=2, rails=rails, spines=spines, parallel=parallel))
    told = reach(wiring, "server0.0", rule)
    assert (told.hops["server0.1"], told.path_counts["server0.1"]) == (2, rails)
    assert (told.hops["server1.1"], told.path_counts["server1.1"]) == (4, rails * spines * parallel**2 * rails)
    leaf = reach(wiring, "leaf0.0", rule)
    assert (leaf.hops["leaf0.1"], leaf.path_counts["leaf0.1"]) == (2, spines * parallel**2)
    assert (leaf.hops["leaf1.3"], leaf.path_counts["leaf1.3"]) == (2, spines * parallel**2)
    group = next_links(wiring, "leaf0.0", "leaf1.3", rule)
    assert group == wiring.uplinks("leaf0.0")
    assert len(group) == spines * parallel


def test_path_counts_of_three_tiers() -> None:
    wiring = Wiring.of(three_tier(pods=2, leaves=2, spines=3, cores=5))
    told = reach(wiring, "server0.0", Rule.UP_DOWN)
    assert (told.hops["server0.1"], told.path_counts["server0.1"]) == (4, 3)
    assert (told.hops["server1.1"], told.path_counts["server1.1"]) == (6, 3 * 5 * 3)


def test_servers_do_not_forward() -> None:
    wiring = Wiring.of(rail_fabric(stripes=1, spines=0))
    assert wiring.neighbours("server0.0") == ("leaf0.0", "leaf0.1", "leaf0.2", "leaf0.3")
    for rule in Rule:
        assert hop_count(wiring, "leaf0.0", "leaf0.1", rule) is None
        assert hop_count(wiring, "server0.0", "server0.1", rule) == 2


def bounce() -> Wiring:
    """Leaves 0 and 1 have no spine in common; leaf 2 has both spines."""
    fabric = rail_fabric(stripes=1, servers=1, rails=3, spines=2)
    wiring = Wiring.of(fabric)
    lost = (*wiring.links_between("leaf0.0", "spine1"), *wiring.links_between("leaf0.1", "spine0"))
    return wiring.without(links=lost)


def test_a_bounce_is_a_path_but_not_an_up_down_one() -> None:
    wiring = bounce()
    paths = shortest_paths(wiring, "leaf0.0", "leaf0.1")
    assert [path.nodes for path in paths.listed] == [("leaf0.0", "spine0", "leaf0.2", "spine1", "leaf0.1")]
    assert not is_up_down(wiring, paths.listed[0].nodes)
    up_down = shortest_paths(wiring, "leaf0.0", "leaf0.1", Rule.UP_DOWN)
    assert (up_down.hops, up_down.count, up_down.listed) == (None, 0, ())
    assert next_links(wiring, "leaf0.0", "leaf0.1", Rule.UP_DOWN) == ()


def test_one_hop_between_equals_is_allowed_at_the_top() -> None:
    nodes = (*(Node(name=name, role="leaf") for name in "abc"), Node(name="s", role="server"))
    wiring = Wiring.of(Topology(nodes=nodes, links=(link("a 1", "b 1"), link("b 2", "c 1"), link("s 1", "a 2"))))
    assert hop_count(wiring, "s", "b", Rule.UP_DOWN) == 2
    assert hop_count(wiring, "s", "c", Rule.UP_DOWN) is None
    assert hop_count(wiring, "s", "c") == 3
    assert is_up_down(wiring, ["s", "a", "b"])
    assert not is_up_down(wiring, ["s", "a", "b", "c"])


def test_the_limit_bounds_the_list_and_not_the_count() -> None:
    wiring = Wiring.of(rail_fabric(rails=8, spines=8, parallel=4))
    paths = shortest_paths(wiring, "server0.0", "server1.0", limit=10)
    assert paths.count == 8 * 8 * 16 * 8
    assert len(paths.listed) == 10
    assert paths.listed == shortest_paths(wiring, "server0.0", "server1.0", limit=50).listed[:10]
    assert list(paths.listed) == sorted(paths.listed, key=lambda path: path.nodes)


def test_a_path_to_itself_has_no_hops() -> None:
    wiring = Wiring.of(rail_fabric())
    paths = shortest_paths(wiring, "leaf0.0", "leaf0.0")
    assert (paths.hops, paths.count, paths.listed) == (0, 1, (Path(nodes=("leaf0.0",), links=()),))
    assert next_links(wiring, "leaf0.0", "leaf0.0") == ()


def test_a_long_path_is_listed() -> None:
    wiring = Wiring.of(chain(3000))
    paths = shortest_paths(wiring, "n00000", "n02999")
    assert (paths.hops, paths.count) == (2999, 1)
    assert paths.listed[0].nodes == wiring.names


def test_components() -> None:
    wiring = Wiring.of(two_planes())
    assert is_connected(wiring)
    assert components(wiring, SWITCH_ROLES) == (
        ("leaf0-p0", "leaf1-p0", "spine-p0"),
        ("leaf0-p1", "leaf1-p1", "spine-p1"),
    )
    assert not is_connected(wiring, SWITCH_ROLES)
    cut = wiring.without(nodes=["leaf0-p0", "leaf0-p1"])
    assert components(cut)[-1] == ("server0",)
    assert is_connected(Wiring.of(Topology(nodes=(), links=())))


@given(topologies(letters=False))
def test_components_part_the_nodes_and_cut_no_link(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    groups = components(wiring)
    label = {name: name for name in wiring.names}
    for one in topology.links * len(topology.nodes):
        label[one.a.node] = label[one.b.node] = min(label[one.a.node], label[one.b.node])
    assert len(groups) == len(set(label.values()))
    assert sorted(name for group in groups for name in group) == list(wiring.names)
    home = {name: index for index, group in enumerate(groups) for name in group}
    assert all(home[one.a.node] == home[one.b.node] for one in topology.links)
    switches = Wiring.of(topology).without(nodes=[node.name for node in topology.nodes if node.role == "server"])
    for group in components(wiring, SWITCH_ROLES):
        assert reach(switches, group[0]).hops.keys() == set(group)


def test_a_name_that_is_not_there() -> None:
    wiring = Wiring.of(rail_fabric())
    with pytest.raises(InputError, match='no node named "leaf7"'):
        reach(wiring, "leaf7")
    with pytest.raises(InputError, match='no node named "leaf7"'):
        hop_count(wiring, "leaf0.0", "leaf7")
