"""Failures: what breaks costs what it should, routes recover, storms and deadlocks are found."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from gpuyard.errors import InputError
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, PfcStorm, SlowLink, Straggler
from gpuyard.simulate.network import Network, leaf_spine, network_of
from gpuyard.simulate.packet.packet_engine import PacketResult, simulate_packets
from gpuyard.simulate.packet.settings import PacketSettings, WatchdogSettings
from gpuyard.simulate.traffic import permutation, traffic_of

RATE = 400e9
NETWORK = leaf_spine(16, hosts_per_leaf=4, spines=2, rate_bits_per_s=RATE, delay_s=1e-6)
TRAFFIC = permutation(16, 1 << 21, seed=2)
WATCHDOG = WatchdogSettings(detect_s=30e-6, restore_s=30e-6, poll_s=10e-6)


@functools.cache
def whole() -> PacketResult:
    """The traffic without a fault."""
    return simulate_packets(NETWORK, TRAFFIC)


def _with(*faults: Fault, settings: PacketSettings | None = None) -> PacketResult:
    return simulate_packets(NETWORK, TRAFFIC, settings, faults)


def test_per_hop_routes_match_precomputed_routes() -> None:
    # A failure that comes after the end changes nothing but the way in which routes are looked up.
    late = _with(LinkDown(one="leaf0", other="spine0", at_s=1.0))
    assert np.array_equal(late.outcome.finish_s, whole().outcome.finish_s)
    assert np.array_equal(late.outcome.link_bytes, whole().outcome.link_bytes)


@pytest.mark.parametrize(
    "fault",
    [
        LinkDown(one="leaf0", other="spine0", at_s=20e-6, reconverge_s=30e-6),
        LinkDown(one="leaf0", other="spine0", at_s=20e-6, until_s=60e-6, reconverge_s=10e-6),
        NodeDown(node="spine1", at_s=20e-6, reconverge_s=30e-6),
    ],
)
def test_flows_go_round_a_dead_link_or_spine(fault: Fault) -> None:
    result = _with(fault, settings=PacketSettings(retransmit_timeout_s=1e-4))
    assert result.counters.dropped_count > 0
    assert result.outcome.unfinished_count == 0
    assert result.outcome.duration_s > whole().outcome.duration_s


def test_failed_link_carries_nothing_after_reconvergence() -> None:
    down = NETWORK.links_between(NETWORK.node("leaf0"), NETWORK.node("spine0"))
    result = _with(LinkDown(one="leaf0", other="spine0", at_s=0.0))
    assert result.outcome.link_bytes[down] == 0
    assert result.outcome.link_bytes[down ^ 1] == 0
    assert result.counters.dropped_count == 0
    assert result.outcome.unfinished_count == 0


def test_slower_reconvergence_loses_more() -> None:
    lost = [
        _with(
            LinkDown(one="leaf0", other="spine0", at_s=20e-6, reconverge_s=delay_s)
        ).counters.dropped_count
        for delay_s in (1e-6, 20e-6, 60e-6)
    ]
    assert lost == sorted(lost)
    assert lost[0] < lost[-1]


def test_failed_leaf_disconnects_only_its_hosts() -> None:
    result = _with(NodeDown(node="leaf1", at_s=5e-6))
    concerned = np.isin(TRAFFIC.source // 4, [1]) | np.isin(TRAFFIC.target // 4, [1])
    assert np.array_equal(np.isnan(result.outcome.finish_s), concerned)
    assert result.counters.failed_flow_count > 0  # given up after their retries


def test_recovered_nic_finishes_late() -> None:
    flow = int(np.flatnonzero(TRAFFIC.source == 3)[0])
    result = _with(NodeDown(node="host3", at_s=10e-6, until_s=300e-6, reconverge_s=1e-6))
    assert result.outcome.unfinished_count == 0
    assert result.outcome.finish_s[flow] > 300e-6


def test_slow_nic_limits_its_flow() -> None:
    flow = int(np.flatnonzero(TRAFFIC.source == 3)[0])
    result = _with(SlowLink(one="host3", other="leaf0", rate_ratio=0.1))
    assert result.outcome.finish_s[flow] >= (1 << 21) * 8 / (0.1 * RATE)
    brief = _with(SlowLink(one="host3", other="leaf0", rate_ratio=0.1, at_s=0.0, until_s=50e-6))
    assert (
        whole().outcome.finish_s[flow]
        < brief.outcome.finish_s[flow]
        < result.outcome.finish_s[flow]
    )


def test_straggler_is_late_by_its_lag() -> None:
    flow = int(np.flatnonzero(TRAFFIC.source == 3)[0])
    assert _with(Straggler(host="host3", lag_s=1e-3)).outcome.began_s[flow] == pytest.approx(1e-3)
    chain = traffic_of([3, 0], [0, 3], 4096, after=((), (0,)))
    result = simulate_packets(
        NETWORK, chain, faults=(Straggler(host="host0", lag_s=2e-4, at_s=1e-9),)
    )
    assert result.outcome.began_s[1] == pytest.approx(result.outcome.finish_s[0] + 2e-4)


def test_watchdog_releases_ports_stopped_by_pfc_storm() -> None:
    storm = PfcStorm(host="host3", at_s=5e-6)
    stuck = _with(storm)
    freed = _with(storm, settings=PacketSettings(watchdog=WATCHDOG, retransmit_timeout_s=1e-4))
    victim = int(np.flatnonzero(TRAFFIC.target == 3)[0])
    assert np.isnan(stuck.outcome.finish_s[victim])
    assert stuck.outcome.unfinished_count > 1  # it spreads
    assert stuck.counters.dropped_count == 0
    assert freed.outcome.unfinished_count == 1  # only what was for the broken NIC
    assert freed.counters.dropped_count > 0
    assert [NETWORK.link_name(storm.link) for storm in freed.storms] == ["leaf0 → host3"]
    assert freed.storms[0].at_s == pytest.approx(40e-6, abs=WATCHDOG.poll_s)


def test_watchdog_restores_port_after_storm() -> None:
    storm = PfcStorm(host="host3", at_s=5e-6, until_s=200e-6)
    result = _with(storm, settings=PacketSettings(watchdog=WATCHDOG, retransmit_timeout_s=1e-4))
    assert len(result.storms) == 1
    assert result.outcome.unfinished_count == 0


def _ring(count: int) -> Network:
    ends = [(i, count + i) for i in range(count)] + [
        (count + i, count + (i + 1) % count) for i in range(count)
    ]
    return network_of(
        tier=np.array([0] * count + [1] * count, dtype=np.int8),
        ends=np.array(ends, dtype=np.int32),
        rate_bits_per_s=np.full(2 * count, RATE),
        delay_s=np.full(2 * count, 1e-6),
        names=tuple(f"{kind}{i}" for kind in ("host", "switch") for i in range(count)),
    )


def test_switch_ring_without_up_down_routes_deadlocks() -> None:
    ring = _ring(5)
    hosts = list(range(5))
    traffic = traffic_of(hosts * 2, [(host + 2) % 5 for host in hosts] * 2, 1 << 23)
    result = simulate_packets(ring, traffic, PacketSettings(up_down=False))
    assert result.outcome.unfinished_count == 10
    assert {ring.link_name(link) for link in result.deadlock} == {
        f"switch{i} → switch{(i + 1) % 5}" for i in range(5)
    }
    assert result.counters.in_flight_count > 0


def test_watchdog_breaks_deadlock() -> None:
    hosts = list(range(5))
    traffic = traffic_of(hosts * 2, [(host + 2) % 5 for host in hosts] * 2, 1 << 21)
    settings = PacketSettings(
        up_down=False, watchdog=WATCHDOG, retransmit_timeout_s=1e-4, retry_count=1000
    )
    result = simulate_packets(_ring(5), traffic, settings)
    assert result.outcome.unfinished_count == 0
    assert result.storms
    assert result.deadlock == ()


def test_without_a_failure_there_is_neither_storm_nor_deadlock() -> None:
    result = _with(settings=PacketSettings(watchdog=WATCHDOG))
    assert result.deadlock == result.storms == ()
    assert np.array_equal(result.outcome.finish_s, whole().outcome.finish_s)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (LinkDown(one="leaf0", other="leaf1", at_s=0.0), "0 cables between"),
        (LinkDown(one="leaf0", other="spine0", at_s=0.0, cable=1), "1 cables between"),
        (NodeDown(node="leaf9", at_s=0.0), 'no node named "leaf9"'),
        (Straggler(host="leaf0", lag_s=1.0), "no host"),
        (PfcStorm(host="host0", at_s=2.0, until_s=1.0), "ends before"),
        (SlowLink(one="host0", other="leaf0", rate_ratio=0.0), "rate_ratio"),
        (Straggler(host="host0", lag_s=-1.0), "negative lag"),
    ],
)
def test_impossible_failure_raises_input_error(fault: Fault, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _with(fault)
