"""The flow engine beside the packet engine: exact where nothing collides, near it where flows share links."""

from __future__ import annotations

import pytest

from gpuyard.simulate.collectives.compile import CollectiveCall, collective_traffic
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import fat_tree
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.simulate.traffic import all_to_all, incast, permutation, traffic_of

TREE = fat_tree(16, rate_bits_per_s=400e9, delay_s=1e-6)
RAILS = rail_network(
    4, 4, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=2, spines=2
)


def collective(network, name, algorithm, **more):
    return collective_traffic(
        CollectiveCall(collective=name, algorithm=algorithm, size_bytes=1 << 24, **more), network
    )


UNCONGESTED = {
    "across the tree": (TREE, traffic_of([0], [15], 1 << 20)),
    "on one leaf": (TREE, traffic_of([0], [1], 1_000_003)),
    "ring": (TREE, collective(TREE, "all-reduce", "ring")),
    "hierarchical": (RAILS, collective(RAILS, "all-reduce", "hierarchical")),
    "pxn": (RAILS, collective(RAILS, "all-to-all", "pxn")),
}
CONGESTED = {
    "incast": (TREE, incast(16, 1 << 20, senders=8)),
    "permutation": (TREE, permutation(16, 1 << 22, seed=3)),
    "all-to-all": (TREE, all_to_all(16, 1 << 16)),
    "halving": (TREE, collective(TREE, "all-reduce", "halving")),
    "tree": (TREE, collective(TREE, "all-reduce", "tree", chunks=8)),
    "rail ring": (RAILS, collective(RAILS, "all-reduce", "rail-ring")),
}


@pytest.mark.parametrize("balance", ["ecmp", "spray"])
@pytest.mark.parametrize("name", UNCONGESTED)
def test_alone_they_agree_exactly(name, balance) -> None:
    network, traffic = UNCONGESTED[name]
    flow = simulate_flows(network, traffic, FlowSettings(balance=balance)).time_s
    packet = simulate_packets(network, traffic, PacketSettings(balance=balance)).outcome.duration_s
    assert flow == pytest.approx(packet, rel=1e-3)


@pytest.mark.parametrize("balance", ["ecmp", "spray"])
@pytest.mark.parametrize("name", CONGESTED)
def test_in_company_they_stay_near(name, balance) -> None:
    network, traffic = CONGESTED[name]
    flow = simulate_flows(network, traffic, FlowSettings(balance=balance)).time_s
    packet = simulate_packets(network, traffic, PacketSettings(balance=balance)).outcome.duration_s
    assert flow == pytest.approx(packet, rel=0.15)
