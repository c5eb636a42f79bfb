"""The flow engine: max-min fairness, events, balances, faults, and equality of the collapsed and the whole problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.compile import CollectiveCall, collective_traffic, grid_of
from gpuyard.simulate.collectives.rounds import rounds_of
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, PfcStorm, SlowLink, Straggler
from gpuyard.simulate.flow import exchange
from gpuyard.simulate.flow.aggregate_switches import aggregate_switches
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.max_min import max_min_rates
from gpuyard.simulate.flow.problem import LinkShares
from gpuyard.simulate.flow.rails import rail_network
from gpuyard.simulate.flow.rounds import simulate_rounds
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.timeline import stable_intervals
from gpuyard.simulate.network import fat_tree, leaf_spine, single_switch
from gpuyard.simulate.traffic import all_to_all, incast, permutation, traffic_of

GBPS = 1e9
BARE = FlowSettings(header_bytes=0, store_and_forward=False)
BYTES_PER_S = 100e9 / 8


def star(hosts: int = 4):
    return single_switch(hosts, rate_bits_per_s=100e9, delay_s=1e-6)


def test_one_flow_takes_its_size_over_the_rate_and_the_way() -> None:
    done = simulate_flows(star(), traffic_of([0], [1], 1_000_000), BARE)
    assert done.time_s == pytest.approx(1_000_000 / BYTES_PER_S + 2e-6, rel=1e-12)
    wire = simulate_flows(star(), traffic_of([0], [1], 1_000_000), FlowSettings())
    packets = -(-1_000_000 // 4096)
    full = (1_000_000 + 64 * packets) / BYTES_PER_S + 2e-6 + 4160 / BYTES_PER_S
    assert wire.time_s == pytest.approx(full, rel=1e-12)


def test_rates_rise_when_a_flow_ends() -> None:
    # two into host 2: both at half rate until the short one ends
    done = simulate_flows(star(), traffic_of([0, 1], [2, 2], [1_000_000, 3_000_000]), BARE)
    np.testing.assert_allclose(
        done.outcome.finish_s, [2e6 / BYTES_PER_S + 2e-6, 4e6 / BYTES_PER_S + 2e-6]
    )


def test_textbook_max_min() -> None:
    # links 0 and 1 of capacity 1 and 2; flow 0 uses both, flow 1 link 0, flows 2 and 3 link 1 (Bertsekas & Gallager)
    shares = LinkShares(np.array([0, 2, 3, 4, 5]), np.array([0, 1, 0, 1, 1]), np.ones(5))
    rates = max_min_rates(shares, np.array([1.0, 2.0]))
    np.testing.assert_allclose(rates, [0.5, 0.5, 0.75, 0.75])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_rates_are_max_min_fair(data) -> None:
    links = data.draw(st.integers(1, 6))
    flows = data.draw(st.integers(1, 12))
    rows = [
        data.draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=links, unique=True))
        for _ in range(flows)
    ]
    capacity = np.array(
        data.draw(st.lists(st.sampled_from([1.0, 2.0, 3.5, 10.0]), min_size=links, max_size=links))
    )
    index = np.cumsum([0, *map(len, rows)])
    link = np.concatenate(rows).astype(np.int64)
    weight = np.array(
        data.draw(
            st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(link), max_size=len(link))
        )
    )
    rates = max_min_rates(LinkShares(index.astype(np.int64), link, weight), capacity)
    load = np.bincount(link, np.repeat(rates, np.diff(index)) * weight, minlength=links)
    assert (load <= capacity * (1 + 1e-9)).all()
    for flow, row in enumerate(rows):  # each flow has a full link on which nobody is faster
        held = [k for k in row if load[k] >= capacity[k] * (1 - 1e-9)]
        users = {k: [other for other, its in enumerate(rows) if k in its] for k in held}
        assert any(rates[flow] >= max(rates[users[k]]) * (1 - 1e-9) for k in held)


def test_waits_and_delays() -> None:
    traffic = traffic_of([0, 1], [1, 2], 1_000_000, start_s=[5e-6, 7e-6], after=((), (0,)))
    done = simulate_flows(star(), traffic, BARE).outcome
    each = 1_000_000 / BYTES_PER_S + 2e-6
    np.testing.assert_allclose(done.began_s, [5e-6, 5e-6 + each + 7e-6])
    np.testing.assert_allclose(done.finish_s, done.began_s + each)
    circle = traffic_of([0, 1], [1, 2], 10, after=((1,), (0,)))
    with pytest.raises(InputError, match="waits for a flow that waits for it"):
        simulate_flows(star(), circle, BARE)


def patterns():
    tree = fat_tree(16, rate_bits_per_s=400e9, delay_s=1e-6)
    yield tree, permutation(16, 1 << 20, seed=3)
    yield tree, incast(16, 1 << 18)
    yield tree, all_to_all(16, 1 << 14)
    for algorithm in ("ring", "tree", "halving"):
        call = CollectiveCall(
            collective="all-reduce", algorithm=algorithm, size_bytes=1 << 22, chunks=4
        )
        yield tree, collective_traffic(call, tree)
    rails = rail_network(
        6, 4, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=3, spines=2
    )
    for algorithm in ("hierarchical", "rail-ring", "nvls"):
        call = CollectiveCall(collective="all-reduce", algorithm=algorithm, size_bytes=1 << 22)
        yield rails, collective_traffic(call, rails)
    yield (
        rails,
        collective_traffic(
            CollectiveCall(collective="all-to-all", algorithm="pxn", size_bytes=1 << 20), rails
        ),
    )


@pytest.mark.parametrize("balance", ["ecmp", "spray", "adaptive"])
def test_collapsed_flows_end_when_they_would(balance) -> None:
    fewer = 0
    for network, traffic in patterns():
        whole = simulate_flows(network, traffic, FlowSettings(balance=balance, collapse=False))
        short = simulate_flows(network, traffic, FlowSettings(balance=balance))
        np.testing.assert_allclose(short.outcome.finish_s, whole.outcome.finish_s, rtol=1e-9)
        np.testing.assert_allclose(short.outcome.link_bytes, whole.outcome.link_bytes, rtol=1e-9)
        fewer += short.class_count < 0.5 * whole.class_count
    assert fewer >= (2 if balance == "ecmp" else 4)


def test_bytes_are_conserved_on_links() -> None:
    network = fat_tree(16, rate_bits_per_s=400e9, delay_s=1e-6)
    traffic = permutation(16, 1 << 20, seed=3)
    for balance in ("ecmp", "spray", "adaptive"):
        done = simulate_flows(
            network, traffic, FlowSettings(balance=balance, header_bytes=0)
        ).outcome
        out = np.bincount(network.link_from, done.link_bytes, minlength=network.node_count)
        into = np.bincount(network.link_to, done.link_bytes, minlength=network.node_count)
        np.testing.assert_allclose(out[network.host_count :], into[network.host_count :])
        np.testing.assert_allclose(out[: network.host_count], 1 << 20)


def test_spraying_a_permutation_is_uncongested_and_hashing_is_not() -> None:
    network = fat_tree(128, rate_bits_per_s=400e9, delay_s=1e-6)
    traffic = permutation(128, 16 << 20, seed=1)
    free = (16 << 20) * 4160 / 4096 / 50e9
    spray = simulate_flows(network, traffic, FlowSettings(balance="spray"))
    assert free < spray.time_s < free + 8e-6
    assert simulate_flows(network, traffic, FlowSettings()).time_s > 2 * free


def test_lumping_joins_equal_switches_only() -> None:
    network = fat_tree(128, rate_bits_per_s=400e9, delay_s=1e-6)
    lump = aggregate_switches(network)
    assert lump.network.switch_count == 32 + 8 + 1  # leaves, one spine a pod, one core
    np.testing.assert_allclose(
        np.bincount(lump.link, network.rate_bits_per_s), lump.network.rate_bits_per_s
    )
    slow = network.rate_bits_per_s.copy()
    core = network.node("core0")
    slow[network.link_to == core] = slow[network.link_from == core] = 100e9
    from dataclasses import replace

    assert (
        aggregate_switches(replace(network, rate_bits_per_s=slow)).network.switch_count
        > lump.network.switch_count
    )


def test_published_simulations_of_the_same_patterns() -> None:
    # csg-htsim and ns-3 on the same fabric: incast of 127 x 1 MiB ends at 2713.1 us, all-to-all of 64 KiB at 214.4 us
    network = fat_tree(128, rate_bits_per_s=400e9, delay_s=1e-6)
    assert simulate_flows(network, incast(128, 1 << 20), FlowSettings()).time_s == pytest.approx(
        2713.1e-6, rel=0.002
    )
    dense = simulate_flows(network, all_to_all(128, 64 << 10), FlowSettings())
    assert dense.time_s == pytest.approx(214.4e-6, rel=0.05)


def two_spines():
    return leaf_spine(4, hosts_per_leaf=2, spines=2, rate_bits_per_s=100e9, delay_s=1e-6)


def test_failed_link_stalls_its_flow_until_reconvergence() -> None:
    network = two_spines()
    traffic = traffic_of([0], [2], 10_000_000, channel=0)
    base = simulate_flows(network, traffic, BARE)
    used = int(
        np.flatnonzero(
            (base.outcome.link_bytes > 0) & (network.link_from == network.node("leaf0"))
        )[0]
    )
    spine = network.names[network.link_to[used]]
    cut = LinkDown(one="leaf0", other=spine, at_s=1e-4, reconverge_s=5e-4)
    late = simulate_flows(network, traffic, BARE, (cut,))
    assert late.time_s == pytest.approx(base.time_s + 5e-4, rel=1e-9)
    assert late.outcome.link_bytes[used] == pytest.approx(1e-4 * BYTES_PER_S)
    healed = LinkDown(one="leaf0", other=spine, at_s=1e-4, until_s=2e-4, reconverge_s=5e-4)
    assert simulate_flows(network, traffic, BARE, (healed,)).time_s == pytest.approx(
        base.time_s + 1e-4, rel=1e-9
    )


def test_slow_links_and_late_hosts() -> None:
    network = star()
    traffic = traffic_of([0, 0], [1, 1], 10_000_000, after=((), (0,)))
    base = simulate_flows(network, traffic, BARE).time_s
    slow = simulate_flows(
        network, traffic, BARE, (SlowLink(one="host0", other="leaf0", rate_ratio=0.5),)
    ).time_s
    assert slow == pytest.approx(2 * base - 4e-6, rel=1e-9)
    late = simulate_flows(network, traffic, BARE, (Straggler(host="host0", lag_s=1e-3),)).time_s
    assert late == pytest.approx(base + 2e-3, rel=1e-9)


def test_adaptive_routing_avoids_a_slow_link_that_spraying_suffers_from() -> None:
    network = leaf_spine(8, hosts_per_leaf=4, spines=4, rate_bits_per_s=100e9, delay_s=1e-6)
    traffic = traffic_of(np.arange(4), np.arange(4) + 4, 1_000_000)
    fault = (SlowLink(one="leaf0", other="spine0", rate_ratio=0.25),)
    even = simulate_flows(network, traffic, FlowSettings(balance="spray"), fault).time_s
    best = simulate_flows(network, traffic, FlowSettings(balance="adaptive"), fault).time_s
    free = simulate_flows(network, traffic, FlowSettings(balance="spray")).time_s
    assert even == pytest.approx(4 * free, rel=0.05)
    assert best == pytest.approx(free * 4 / 3.25, rel=0.05)


def test_failed_host_affects_only_its_own_flows() -> None:
    network = two_spines()
    traffic = traffic_of([0, 1], [2, 3], 10_000_000)
    done = simulate_flows(
        network, traffic, FlowSettings(balance="spray"), (NodeDown(node="host0", at_s=1e-4),)
    ).outcome
    assert done.unfinished_count == 1
    assert np.isnan(done.finish_s[0])
    assert np.isfinite(done.finish_s[1])
    with pytest.raises(InputError, match="packet engine"):
        simulate_flows(network, traffic, BARE, (PfcStorm(host="host0", at_s=0.0),))


@pytest.mark.parametrize("balance", ["ecmp", "spray", "adaptive"])
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [
        ("all-reduce", "ring"),
        ("all-reduce", "rail-ring"),
        ("all-reduce", "hierarchical"),
        ("all-gather", "hierarchical"),
        ("all-reduce", "nvls"),
        ("all-to-all", "direct"),
    ],
)
def test_rounds_take_as_long_as_their_flows(balance, collective, algorithm) -> None:
    network = rail_network(
        8, 4, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=4, spines=4
    )
    call = CollectiveCall(collective=collective, algorithm=algorithm, size_bytes=1 << 26)
    flows = simulate_flows(
        network, collective_traffic(call, network), FlowSettings(balance=balance)
    ).time_s
    rounds = simulate_rounds(
        network, rounds_of(call, grid_of(network)), FlowSettings(balance=balance)
    ).time_s
    assert rounds == pytest.approx(flows, rel=0.06)


SPINE_FAILS = NodeDown(node="spine0", at_s=3e-4)
SPINE_RETURNS = NodeDown(node="spine0", at_s=3e-4, until_s=6e-4)
SLOW_NIC = SlowLink(one="server0 gpu0", other="leaf0", rate_ratio=0.25, at_s=2e-4)


@pytest.mark.parametrize(
    ("collective", "algorithm", "fault"),
    [
        ("all-reduce", "ring", SPINE_FAILS),
        ("all-reduce", "ring", SPINE_RETURNS),
        ("all-reduce", "ring", SLOW_NIC),
        ("all-reduce", "hierarchical", SPINE_RETURNS),
        ("all-to-all", "direct", SPINE_FAILS),
        ("all-to-all", "direct", replace(SPINE_RETURNS, reconverge_s=1e-4)),
        ("all-to-all", "direct", replace(SLOW_NIC, until_s=5e-4)),
    ],
)
def test_rounds_interrupted_by_a_failure_take_as_long_as_their_flows(
    collective: str, algorithm: str, fault: Fault
) -> None:
    network = rail_network(
        8, 4, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=4, spines=4
    )
    call = CollectiveCall(collective=collective, algorithm=algorithm, size_bytes=1 << 26)  # type: ignore[arg-type]
    even = FlowSettings(balance="spray")
    flows = simulate_flows(network, collective_traffic(call, network), even, (fault,)).time_s
    plan = rounds_of(call, grid_of(network))
    rounds = simulate_rounds(network, plan, even, intervals=stable_intervals(network, (fault,)))
    assert rounds.time_s == pytest.approx(flows, rel=0.06)
    assert all(sum(item.interval_ratios) == pytest.approx(1.0) for item in rounds.rounds)


@given(st.floats(0.0, 2e-3), st.floats(1e-5, 2e-3), st.sampled_from(["ring", "hierarchical"]))
@settings(max_examples=20, deadline=None)
def test_a_failure_that_ends_costs_less_than_one_that_stays(
    at_s: float, length_s: float, algorithm: str
) -> None:
    network = rail_network(
        8, 2, nic_bits_per_s=400e9, scale_up_bits_per_s=3600e9, servers_per_leaf=4, spines=2
    )
    call = CollectiveCall(collective="all-reduce", algorithm=algorithm, size_bytes=1 << 26)  # type: ignore[arg-type]
    plan = rounds_of(call, grid_of(network))

    def took(*faults: Fault) -> float:
        intervals = stable_intervals(network, faults)
        even = FlowSettings(balance="spray")
        return simulate_rounds(network, plan, even, intervals=intervals).time_s

    stays = replace(SLOW_NIC, at_s=at_s)
    ends = replace(stays, until_s=at_s + length_s)
    assert took() * (1 - 1e-9) <= took(ends) <= took(stays) * (1 + 1e-9)


def test_exchange_classes_equal_the_listed_flows(monkeypatch) -> None:
    monkeypatch.setattr(exchange, "FEW_FLOWS", 0)
    network = rail_network(
        6,
        4,
        nic_bits_per_s=400e9,
        scale_up_bits_per_s=900e9,
        servers_per_leaf=3,
        spines=2,
        oversubscription_ratio=3.0,
    )
    for algorithm in ("direct", "pxn"):
        call = CollectiveCall(collective="all-to-all", algorithm=algorithm, size_bytes=1 << 24)
        flows = simulate_flows(
            network,
            collective_traffic(call, network),
            FlowSettings(balance="spray", collapse=False),
        )
        rounds = simulate_rounds(
            network, rounds_of(call, grid_of(network)), FlowSettings(balance="spray")
        )
        assert rounds.time_s == pytest.approx(flows.time_s, rel=1e-3)


@given(st.floats(1.0, 4.0), st.sampled_from(["ring", "hierarchical"]))
@settings(max_examples=15, deadline=None)
def test_more_bandwidth_is_never_slower(factor, algorithm) -> None:
    def took(rate):
        network = rail_network(
            4, 2, nic_bits_per_s=rate, scale_up_bits_per_s=3600e9, servers_per_leaf=2, spines=2
        )
        call = CollectiveCall(collective="all-reduce", algorithm=algorithm, size_bytes=1 << 24)
        return simulate_rounds(network, rounds_of(call, grid_of(network)), FlowSettings()).time_s

    assert took(100e9 * factor) <= took(100e9) * (1 + 1e-9)
