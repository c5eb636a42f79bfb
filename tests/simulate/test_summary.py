"""The numbers of a simulation, loads of rounds, and networks as drawings."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyard.simulate.collectives.compile import CollectiveCall, collective_traffic, grid_of
from gpuyard.simulate.collectives.rounds import rounds_of
from gpuyard.simulate.drawing import device_names, topology_of
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.loads import message_count, round_bytes
from gpuyard.simulate.network import Network, fat_tree, leaf_spine, single_switch
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.summary import RunInfo, fabric_links, hottest_links, summary_of
from gpuyard.simulate.traffic import incast, permutation, traffic_of

RATE, DELAY = 400e9, 1e-6
RUN = RunInfo(network="n", traffic="t", balancing="ecmp")


def rails() -> Network:
    return rail_network(
        4, 4, nic_bits_per_s=RATE, scale_up_bits_per_s=3.6e12, servers_per_leaf=2, spines=2
    )


def test_flows_know_no_packets() -> None:
    network = fat_tree(16, rate_bits_per_s=RATE, delay_s=DELAY)
    found = simulate_flows(network, permutation(16, 1 << 20, seed=1), FlowSettings())
    summary = summary_of(network, found.outcome, None, RUN, events=1)
    assert (summary.engine, summary.flows, summary.completed) == ("flow", 16, 16)
    assert summary.drops is summary.pauses is summary.marks is summary.buffer_peak_bytes is None
    assert summary.fct_p50_s is not None
    assert summary.fct_mean_s is not None
    assert summary.fct_max_s == pytest.approx(summary.completion_s)
    assert summary.fct_p50_s <= (summary.fct_p99_s or 0.0) <= summary.fct_max_s  # type: ignore[operator]


def test_packets_of_an_incast_pause_and_fill_the_last_link() -> None:
    network = single_switch(8, rate_bits_per_s=RATE, delay_s=DELAY)
    found = simulate_packets(network, incast(8, 1 << 20))
    summary = summary_of(network, found.outcome, found, RUN, events=1)
    assert summary.engine == "packet"
    assert summary.drops == 0
    assert summary.pauses
    assert summary.buffer_peak_bytes
    assert summary.hottest[0].link == "leaf0 → host0"
    assert summary.hottest[0].utilisation_ratio > 0.9


def test_unfinished_flow_is_counted() -> None:
    network = single_switch(4, rate_bits_per_s=RATE, delay_s=DELAY)
    found = simulate_flows(network, traffic_of([0, 1], [2, 3], 1 << 20), FlowSettings())
    finish = found.outcome.finish_s.copy()
    finish[1] = np.nan
    object.__setattr__(found.outcome, "finish_s", finish)
    summary = summary_of(network, found.outcome, None, RUN, events=1)
    assert (summary.flows, summary.completed) == (2, 1)


def test_balance_is_that_of_links_between_switches() -> None:
    network = leaf_spine(8, hosts_per_leaf=4, spines=2, rate_bits_per_s=RATE, delay_s=DELAY)
    between = fabric_links(network)
    assert between.sum() == 2 * 2 * 2
    alone = single_switch(4, rate_bits_per_s=RATE, delay_s=DELAY)
    assert fabric_links(alone).all()


def test_links_inside_servers_are_no_hot_links() -> None:
    network = rails()
    full = np.ones(network.link_count)
    names = {load.link for load in hottest_links(network, full, full, count=1000)}
    assert names
    assert not any("scale-up" in name for name in names)


@pytest.mark.parametrize("algorithm", ["ring", "rail-ring", "hierarchical"])
@pytest.mark.parametrize("balance", ["ecmp", "spray"])
def test_rounds_load_links_as_their_messages_do(algorithm: str, balance: str) -> None:
    network = rails()
    settings = FlowSettings(balance=balance, header_bytes=0)  # type: ignore[arg-type]
    call = CollectiveCall(collective="all-reduce", algorithm=algorithm, size_bytes=16e6)  # type: ignore[arg-type]
    carried = round_bytes(network, rounds_of(call, grid_of(network)), settings)
    flows = simulate_flows(network, collective_traffic(call, network), settings)
    assert carried is not None
    assert carried.sum() == pytest.approx(flows.outcome.link_bytes.sum(), rel=1e-3)
    if balance == "spray":  # hashing sees other channels
        assert carried == pytest.approx(flows.outcome.link_bytes, rel=1e-3, abs=100.0)


@pytest.mark.parametrize(
    "algorithm", ["ring", "rail-ring", "hierarchical", "tree", "halving", "nvls"]
)
def test_message_count_is_approximately_right(algorithm: str) -> None:
    network = rails()
    call = CollectiveCall(collective="all-reduce", algorithm=algorithm, size_bytes=16e6)  # type: ignore[arg-type]
    estimate = message_count(call, grid_of(network))
    real = collective_traffic(call, network).flow_count
    assert real / 3 <= estimate <= 3 * real


def test_fat_tree_is_drawn_in_pods() -> None:
    network = fat_tree(16, rate_bits_per_s=RATE, delay_s=DELAY)
    topology = topology_of(network)
    assert len(topology.links) == network.link_count // 2
    assert len({node.stripe for node in topology.nodes if node.role == "leaf"}) == 4
    assert set(device_names(network, topology)) == set(network.names)


def test_hosts_of_a_server_are_drawn_as_one() -> None:
    network = rails()
    topology = topology_of(network)
    assert sum(node.role == "server" for node in topology.nodes) == 4
    names = device_names(network, topology)
    assert names[:4] == ("server0",) * 4
    assert names[-1] == ""  # the switch inside the last server
