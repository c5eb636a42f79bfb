"""Routes: every pair is joined, paths climb and descend, hashes spread, failures are avoided."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.network import (
    Network,
    fat_tree,
    from_topology,
    leaf_spine,
    network_of,
    single_switch,
)
from gpuyard.simulate.route_tables import LAST, NONE
from gpuyard.simulate.routes import (
    Nodes,
    Routes,
    flow_hash,
    flow_paths,
    routes_of,
    switch_salts,
)
from gpuyard.simulate.traffic import FlowSet, all_to_all, traffic_of
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology

FAT = fat_tree(16, rate_bits_per_s=400e9, delay_s=1e-6)
SPINES = leaf_spine(12, hosts_per_leaf=4, spines=3, rate_bits_per_s=400e9, delay_s=1e-6)


def next_links(routes: Routes, node: int, target: int) -> Nodes:
    """Return the equal-cost links from a switch to a host."""
    group = int(routes.group[target])
    chosen = NONE if group < 0 else routes.table[node - routes.host_count, group]
    if chosen == LAST:
        links = routes.host_links[routes.host_index[target] : routes.host_index[target + 1]]
        back: Nodes = links[routes.link_to[links] == node] ^ np.int32(1)
        return back
    if chosen == NONE:
        return np.empty(0, dtype=np.int32)
    return routes.set_links[routes.set_index[chosen] : routes.set_index[chosen + 1]]


def _paths(
    network: Network, routes: Routes, traffic: FlowSet, seed: int = 1
) -> npt.NDArray[np.int32]:
    port = np.zeros(traffic.flow_count, dtype=np.int32)
    return flow_paths(
        routes,
        traffic.source,
        traffic.target,
        flow_hash(traffic),
        switch_salts(network, seed),
        port,
    )


def _check(network: Network, traffic: FlowSet, paths: npt.NDArray[np.int32]) -> None:
    for flow, path in enumerate(paths):
        links = path[path >= 0]
        assert network.link_from[links[0]] == traffic.source[flow]
        assert network.link_to[links[-1]] == traffic.target[flow]
        assert np.array_equal(network.link_to[links[:-1]], network.link_from[links[1:]])
        climb = np.diff(network.tier[[*network.link_from[links], traffic.target[flow]]].astype(int))
        assert np.all(np.diff(np.sign(climb)) <= 0), "up, then down"


@pytest.mark.parametrize(
    "network", [FAT, SPINES, single_switch(4, rate_bits_per_s=1e9, delay_s=0.0)]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_every_pair_has_a_path_that_climbs_and_descends(network: Network, seed: int) -> None:
    traffic = all_to_all(network.host_count, 1)
    _check(network, traffic, _paths(network, routes_of(network), traffic, seed))


def test_paths_of_a_fat_tree_have_two_four_or_six_links() -> None:
    traffic = traffic_of([0, 0, 0], [1, 2, 15], 1)
    paths = _paths(FAT, routes_of(FAT), traffic)
    assert np.count_nonzero(paths >= 0, axis=1).tolist() == [2, 4, 6]


def test_equal_cost_links_are_all_uplinks_and_then_the_one_way_down() -> None:
    routes = routes_of(FAT)
    up = next_links(routes, FAT.node("leaf0"), 15)
    assert sorted(FAT.names[node] for node in FAT.link_to[up]) == ["spine0", "spine1"]
    down = next_links(routes, FAT.node("core0"), 15)
    assert [FAT.names[node] for node in FAT.link_to[down]] == ["spine6"]
    last = next_links(routes, FAT.node("leaf7"), 15)
    assert FAT.link_to[last].tolist() == [15]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_hashes_use_all_spines_about_equally(seed: int) -> None:
    traffic = traffic_of([0] * 3000, [11] * 3000, 1)
    paths = _paths(SPINES, routes_of(SPINES), traffic, seed)
    used = np.unique(paths[:, 1], return_counts=True)[1]
    assert len(used) == 3
    assert np.all(abs(used - 1000) < 5 * np.sqrt(1000))


def test_switches_that_hash_alike_use_less_of_the_network() -> None:
    network = fat_tree(128, rate_bits_per_s=400e9, delay_s=1e-6)
    routes, traffic = routes_of(network), traffic_of([0] * 400, [127] * 400, 1)
    used = [
        len(
            np.unique(
                flow_paths(
                    routes,
                    traffic.source,
                    traffic.target,
                    flow_hash(traffic),
                    switch_salts(network, 1, polarised=alike),
                    np.zeros(400, dtype=np.int32),
                )
            )
        )
        for alike in (False, True)
    ]
    assert used[1] < used[0]


def test_channel_changes_path_and_same_tuple_does_not() -> None:
    traffic = traffic_of([0] * 64, [11] * 64, 1, channel=[7] * 64)
    assert len(np.unique(_paths(SPINES, routes_of(SPINES), traffic)[:, 1])) == 1


def test_routes_avoid_what_is_down() -> None:
    alive = np.ones(SPINES.link_count, dtype=np.bool_)
    cut = SPINES.links_between(SPINES.node("leaf0"), SPINES.node("spine1"))
    alive[cut] = False
    routes = routes_of(SPINES, alive=alive)
    assert len(next_links(routes, SPINES.node("leaf0"), 11)) == 2
    assert len(next_links(routes, SPINES.node("leaf1"), 0)) == 2  # its reverse is down as well
    traffic = all_to_all(12, 1)
    paths = _paths(SPINES, routes, traffic)
    _check(SPINES, traffic, paths)
    assert not np.isin(paths, [*cut, *(cut ^ 1)]).any()


def test_missing_route_raises_input_error() -> None:
    alive = np.ones(SPINES.link_count, dtype=np.bool_)
    alive[SPINES.link_from == 3] = False
    with pytest.raises(InputError, match="no route from host 0 to host 3"):
        _paths(SPINES, routes_of(SPINES, alive=alive), traffic_of([0], [3], 1))


def test_switch_ring_has_shortest_but_no_up_down_routes() -> None:
    count = 5
    ends = [(i, count + i) for i in range(count)] + [
        (count + i, count + (i + 1) % count) for i in range(count)
    ]
    ring = network_of(
        tier=np.array([0] * count + [1] * count, dtype=np.int8),
        ends=np.array(ends, dtype=np.int32),
        rate_bits_per_s=np.full(2 * count, 1e9),
        delay_s=np.zeros(2 * count),
        names=tuple(f"{kind}{i}" for kind in ("h", "s") for i in range(count)),
    )
    traffic = traffic_of([0, 0], [1, 2], 1)
    assert np.count_nonzero(
        _paths(ring, routes_of(ring, up_down=False), traffic) >= 0, axis=1
    ).tolist() == [3, 4]
    with pytest.raises(InputError, match="no route from host 0 to host 2"):
        _paths(ring, routes_of(ring), traffic)  # one hop between equals is allowed, two are not


def test_hosts_of_one_server_use_the_switch_inside() -> None:
    ports = tuple(Port(name=f"gpu{rail}", rail=rail) for rail in range(2))
    nodes = [Node(name=f"server-{i}", role="server", ports=ports) for i in range(2)] + [
        Node(name="leaf", role="leaf")
    ]
    links = [
        Link(
            a=End(node=f"server-{i}", port=f"gpu{rail}"),
            b=End(node="leaf", port=f"p{i}{rail}"),
            speed_bits_per_s=4e11,
            cable_m=1.0,
        )
        for i in range(2)
        for rail in range(2)
    ]
    network = from_topology(
        Topology(nodes=tuple(nodes), links=tuple(links)),
        port_delay_s=0.0,
        scale_up_bits_per_s=3.6e12,
    )
    paths = _paths(network, routes_of(network), traffic_of([0, 0], [1, 2], 1))
    assert network.names[network.link_to[paths[0, 0]]] == "server-0 scale-up"
    assert network.names[network.link_to[paths[1, 0]]] == "leaf"
