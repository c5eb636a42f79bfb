"""Networks: csg-htsim's numbering, both ways of every cable, hosts from the ports of servers."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.simulate.network import (
    FIBRE_S_PER_M,
    fat_tree,
    from_topology,
    leaf_spine,
    network_of,
    single_switch,
)
from gpuyard.topology.links import End, Link
from gpuyard.topology.nodes import Node, Port
from gpuyard.topology.topology import Topology

GIGABIT = 1e9


def test_fat_tree_matches_csg_htsim() -> None:
    network = fat_tree(16, rate_bits_per_s=400e9, delay_s=1e-6)
    assert np.bincount(network.tier).tolist() == [16, 8, 8, 4]
    assert network.link_count == 2 * 3 * 16
    leaf_of_host_5, spine_of_pod_1 = network.node("leaf2"), network.node("spine2")
    assert len(network.links_between(5, leaf_of_host_5)) == 1  # HOST_POD_SWITCH: host / (k / 2)
    assert len(network.links_between(leaf_of_host_5, spine_of_pod_1)) == 1
    # core = position in pod + spines per pod × uplink: spine2 is the first of its pod, spine3 the second
    assert len(network.links_between(network.node("spine2"), network.node("core0"))) == 1
    assert len(network.links_between(network.node("spine2"), network.node("core2"))) == 1
    assert len(network.links_between(network.node("spine3"), network.node("core1"))) == 1
    assert len(network.links_between(network.node("spine3"), network.node("core2"))) == 0


@pytest.mark.parametrize(
    "network",
    [
        fat_tree(54, rate_bits_per_s=1e9, delay_s=0.0),
        leaf_spine(10, hosts_per_leaf=4, spines=3, rate_bits_per_s=1e9, delay_s=1e-6, cables=2),
        single_switch(5, rate_bits_per_s=1e9, delay_s=1e-6),
    ],
)
def test_link_i_and_its_reverse_are_neighbours(network) -> None:  # type: ignore[no-untyped-def]
    links = np.arange(network.link_count)
    assert np.array_equal(network.link_from[links ^ 1], network.link_to)
    assert np.array_equal(network.rate_bits_per_s[links ^ 1], network.rate_bits_per_s)


@pytest.mark.parametrize("hosts", [0, 1, 17, 100, 129])
def test_fat_tree_of_other_size_names_nearest_sizes(hosts: int) -> None:
    with pytest.raises(InputError, match="k³/4"):
        fat_tree(hosts, rate_bits_per_s=1e9, delay_s=0.0)


def test_network_without_rates_or_with_switches_first_is_refused() -> None:
    ends, names = np.array([[0, 1]], dtype=np.int32), ("a", "b")
    with pytest.raises(InputError, match="rate"):
        network_of(
            tier=np.array([0, 1], dtype=np.int8),
            ends=ends,
            rate_bits_per_s=np.zeros(1),
            delay_s=np.zeros(1),
            names=names,
        )
    with pytest.raises(InputError, match="before a host"):
        network_of(
            tier=np.array([1, 0], dtype=np.int8),
            ends=ends,
            rate_bits_per_s=np.ones(1),
            delay_s=np.zeros(1),
            names=names,
        )


def _two_servers() -> Topology:
    ports = tuple(Port(name=f"gpu{rail}", rail=rail) for rail in (0, 1, 2, 10))
    nodes = [Node(name=f"server-{number}", role="server", ports=ports) for number in range(2)]
    nodes += [Node(name=f"leaf-{rail:02}", role="leaf", rail=rail) for rail in (0, 1, 2, 10)]
    links = [
        Link(
            a=End(node=f"server-{number}", port=f"gpu{rail}"),
            b=End(node=f"leaf-{rail:02}", port=f"p{number}"),
            speed_bits_per_s=400 * GIGABIT,
            cable_m=3.0 if number == 0 else None,
        )
        for number in range(2)
        for rail in (0, 1, 2, 10)
    ]
    return Topology(nodes=tuple(nodes), links=tuple(links))


def test_every_wired_server_port_is_a_host_in_order_of_server_and_rail() -> None:
    network = from_topology(_two_servers(), port_delay_s=5e-7, unknown_cable_m=10.0)
    assert network.names[:8] == (
        "server-0 gpu0",
        "server-0 gpu1",
        "server-0 gpu2",
        "server-0 gpu10",
        "server-1 gpu0",
        "server-1 gpu1",
        "server-1 gpu2",
        "server-1 gpu10",
    )
    assert network.server.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    near = network.links_between(0, network.node("leaf-00"))
    far = network.links_between(4, network.node("leaf-00"))
    assert network.delay_s[near] == pytest.approx(5e-7 + 3 * FIBRE_S_PER_M)
    assert network.delay_s[far] == pytest.approx(5e-7 + 10 * FIBRE_S_PER_M)


def test_scale_up_rate_adds_switch_to_every_server() -> None:
    network = from_topology(
        _two_servers(), port_delay_s=0.0, unknown_cable_m=1.0, scale_up_bits_per_s=3600 * GIGABIT
    )
    inside = network.node("server-1 scale-up")
    assert network.tier[inside] == 1
    assert np.array_equal(np.sort(network.link_from[network.link_to == inside]), [4, 5, 6, 7])


def test_unknown_cable_length_is_not_guessed() -> None:
    with pytest.raises(InputError, match="no cable length"):
        from_topology(_two_servers(), port_delay_s=0.0)


def test_unknown_node_is_named() -> None:
    with pytest.raises(InputError, match="leaf99"):
        single_switch(2, rate_bits_per_s=1e9, delay_s=0.0).node("leaf99")
