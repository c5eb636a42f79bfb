from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.topology.nodes import SWITCH_ROLES, Node
from gpuyard.topology.paths import (
    Path,
    PathPolicy,
    components,
    hop_count,
    is_connected,
    is_up_down,
    next_links,
    path_count,
    reach,
    shortest_paths,
)
from gpuyard.topology.topology import Topology
from gpuyard.topology.wiring import Wiring

from .shapes import chain, link, rail_fabric, three_tier, topologies, two_planes

policies = st.sampled_from(PathPolicy)


def every_simple_path(
    wiring: Wiring, source: str, destination: str, policy: PathPolicy
) -> list[Path]:
    """All paths that the policy allows, by trying every way: slow, and written without the search under test."""
    paths_so_far: list[Path] = []

    def walk(path: Path) -> None:
        here = path.nodes[-1]
        if here == destination:
            paths_so_far.append(path)
            return
        if policy is PathPolicy.ANY and len(path.nodes) > 1 and wiring.node(here).role == "server":
            return
        for one in wiring.links_of(here):
            there = one.far_from(here).node
            longer = (*path.nodes, there)
            if there not in path.nodes and (policy is PathPolicy.ANY or is_up_down(wiring, longer)):
                walk(Path(nodes=longer, links=(*path.links, one)))

    walk(Path(nodes=(source,), links=()))
    shortest = min((len(path.links) for path in paths_so_far), default=0)
    return [path for path in paths_so_far if len(path.links) == shortest]


small = topologies(max_nodes=6, ports=3, letters=False).filter(lambda topology: topology.nodes)


@given(small, policies)
def test_shortest_paths_match_brute_force(topology: Topology, policy: PathPolicy) -> None:
    wiring = Wiring.of(topology)
    for source, destination in itertools.product(wiring.names, repeat=2):
        oracle = every_simple_path(wiring, source, destination, policy)
        paths = shortest_paths(wiring, source, destination, policy)
        assert len(paths.listed) == len(set(paths.listed)) == paths.count
        assert set(paths.listed) == set(oracle)
        assert paths.hops == (len(oracle[0].links) if oracle else None)
        assert set(next_links(wiring, source, destination, policy)) == {
            path.links[0] for path in oracle if path.links
        }


@given(small, policies)
def test_reach_agrees_with_pairwise_searches(topology: Topology, policy: PathPolicy) -> None:
    wiring = Wiring.of(topology)
    for source in wiring.names:
        reached = reach(wiring, source, policy)
        assert reached.hops.keys() == reached.path_counts.keys()
        for destination in wiring.names:
            assert reached.hops.get(destination) == hop_count(wiring, source, destination, policy)
            assert reached.path_counts.get(destination, 0) == path_count(
                wiring, source, destination, policy
            )


@given(topologies(letters=False), policies)
def test_hops_and_path_counts_are_symmetric(topology: Topology, policy: PathPolicy) -> None:
    wiring = Wiring.of(topology)
    reached = {name: reach(wiring, name, policy) for name in wiring.names}
    for one, other in itertools.combinations(wiring.names, 2):
        assert reached[one].hops.get(other) == reached[other].hops.get(one)
        assert reached[one].path_counts.get(other) == reached[other].path_counts.get(one)


@given(topologies(letters=False))
def test_triangle_inequality_holds_over_switches(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    hops = {name: reach(wiring, name).hops for name in wiring.names}
    for via in (name for name in wiring.names if wiring.node(name).role != "server"):
        for source, first in hops[via].items():
            for destination, second in hops[via].items():
                assert hops[source][destination] <= first + second


@given(topologies(letters=False), policies, st.data())
def test_removing_a_link_never_shortens_a_path(
    topology: Topology, policy: PathPolicy, data: st.DataObject
) -> None:
    wiring = Wiring.of(topology)
    if not topology.links:
        return
    cut = data.draw(st.sampled_from(topology.links))
    fewer = wiring.without(links=[cut])
    for source in wiring.names:
        before, after = reach(wiring, source, policy), reach(fewer, source, policy)
        assert after.hops.keys() <= before.hops.keys()
        for destination, hops in after.hops.items():
            assert hops >= before.hops[destination]
            if hops == before.hops[destination]:
                assert after.path_counts[destination] <= before.path_counts[destination]


@given(topologies(letters=False))
def test_up_down_paths_are_never_shorter_than_any_path(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    for source in wiring.names:
        strict, free = reach(wiring, source, PathPolicy.UP_DOWN), reach(wiring, source)
        assert all(free.hops[name] <= hops for name, hops in strict.hops.items())


@pytest.mark.parametrize("policy", PathPolicy)
@pytest.mark.parametrize("parallel", [1, 3])
def test_path_counts_in_a_rail_fabric(policy: PathPolicy, parallel: int) -> None:
    rails, spines = 4, 2
    wiring = Wiring.of(
        rail_fabric(stripes=2, servers=2, rails=rails, spines=spines, parallel=parallel)
    )
    reached = reach(wiring, "server0.0", policy)
    assert (reached.hops["server0.1"], reached.path_counts["server0.1"]) == (2, rails)
    assert (reached.hops["server1.1"], reached.path_counts["server1.1"]) == (
        4,
        rails * spines * parallel**2 * rails,
    )
    leaf = reach(wiring, "leaf0.0", policy)
    assert (leaf.hops["leaf0.1"], leaf.path_counts["leaf0.1"]) == (2, spines * parallel**2)
    assert (leaf.hops["leaf1.3"], leaf.path_counts["leaf1.3"]) == (2, spines * parallel**2)
    group = next_links(wiring, "leaf0.0", "leaf1.3", policy)
    assert group == wiring.uplinks("leaf0.0")
    assert len(group) == spines * parallel


def test_path_counts_in_three_tiers() -> None:
    wiring = Wiring.of(three_tier(pods=2, leaves=2, spines=3, cores=5))
    reached = reach(wiring, "server0.0", PathPolicy.UP_DOWN)
    assert (reached.hops["server0.1"], reached.path_counts["server0.1"]) == (4, 3)
    assert (reached.hops["server1.1"], reached.path_counts["server1.1"]) == (6, 3 * 5 * 3)


def test_servers_do_not_forward() -> None:
    wiring = Wiring.of(rail_fabric(stripes=1, spines=0))
    assert wiring.neighbours("server0.0") == ("leaf0.0", "leaf0.1", "leaf0.2", "leaf0.3")
    for policy in PathPolicy:
        assert hop_count(wiring, "leaf0.0", "leaf0.1", policy) is None
        assert hop_count(wiring, "server0.0", "server0.1", policy) == 2


def bounce() -> Wiring:
    """Leaves 0 and 1 have no spine in common; leaf 2 has both spines."""
    fabric = rail_fabric(stripes=1, servers=1, rails=3, spines=2)
    wiring = Wiring.of(fabric)
    lost = (*wiring.links_between("leaf0.0", "spine1"), *wiring.links_between("leaf0.1", "spine0"))
    return wiring.without(links=lost)


def test_bounce_is_allowed_by_any_but_not_by_up_down() -> None:
    wiring = bounce()
    paths = shortest_paths(wiring, "leaf0.0", "leaf0.1")
    assert [path.nodes for path in paths.listed] == [
        ("leaf0.0", "spine0", "leaf0.2", "spine1", "leaf0.1")
    ]
    assert not is_up_down(wiring, paths.listed[0].nodes)
    up_down = shortest_paths(wiring, "leaf0.0", "leaf0.1", PathPolicy.UP_DOWN)
    assert (up_down.hops, up_down.count, up_down.listed) == (None, 0, ())
    assert next_links(wiring, "leaf0.0", "leaf0.1", PathPolicy.UP_DOWN) == ()


def test_up_down_allows_one_level_hop_at_the_top() -> None:
    nodes = (*(Node(name=name, role="leaf") for name in "abc"), Node(name="s", role="server"))
    wiring = Wiring.of(
        Topology(nodes=nodes, links=(link("a 1", "b 1"), link("b 2", "c 1"), link("s 1", "a 2")))
    )
    assert hop_count(wiring, "s", "b", PathPolicy.UP_DOWN) == 2
    assert hop_count(wiring, "s", "c", PathPolicy.UP_DOWN) is None
    assert hop_count(wiring, "s", "c") == 3
    assert is_up_down(wiring, ["s", "a", "b"])
    assert not is_up_down(wiring, ["s", "a", "b", "c"])


def test_limit_bounds_the_list_but_not_the_count() -> None:
    wiring = Wiring.of(rail_fabric(rails=8, spines=8, parallel=4))
    paths = shortest_paths(wiring, "server0.0", "server1.0", limit=10)
    assert paths.count == 8 * 8 * 16 * 8
    assert len(paths.listed) == 10
    assert paths.listed == shortest_paths(wiring, "server0.0", "server1.0", limit=50).listed[:10]
    assert list(paths.listed) == sorted(paths.listed, key=lambda path: path.nodes)


def test_path_to_itself_has_no_hops() -> None:
    wiring = Wiring.of(rail_fabric())
    paths = shortest_paths(wiring, "leaf0.0", "leaf0.0")
    assert (paths.hops, paths.count, paths.listed) == (0, 1, (Path(nodes=("leaf0.0",), links=()),))
    assert next_links(wiring, "leaf0.0", "leaf0.0") == ()


def test_long_path_is_listed() -> None:
    wiring = Wiring.of(chain(3000))
    paths = shortest_paths(wiring, "n00000", "n02999")
    assert (paths.hops, paths.count) == (2999, 1)
    assert paths.listed[0].nodes == wiring.names


def test_components_are_sorted_by_size() -> None:
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
def test_components_partition_the_nodes_and_cut_no_link(topology: Topology) -> None:
    wiring = Wiring.of(topology)
    groups = components(wiring)
    label = {name: name for name in wiring.names}
    for one in topology.links * len(topology.nodes):
        label[one.a.node] = label[one.b.node] = min(label[one.a.node], label[one.b.node])
    assert len(groups) == len(set(label.values()))
    assert sorted(name for group in groups for name in group) == list(wiring.names)
    home = {name: index for index, group in enumerate(groups) for name in group}
    assert all(home[one.a.node] == home[one.b.node] for one in topology.links)
    switches = Wiring.of(topology).without(
        nodes=[node.name for node in topology.nodes if node.role == "server"]
    )
    for group in components(wiring, SWITCH_ROLES):
        assert reach(switches, group[0]).hops.keys() == set(group)


def test_unknown_node_raises_input_error() -> None:
    wiring = Wiring.of(rail_fabric())
    with pytest.raises(InputError, match='no node named "leaf7"'):
        reach(wiring, "leaf7")
    with pytest.raises(InputError, match='no node named "leaf7"'):
        hop_count(wiring, "leaf0.0", "leaf7")
