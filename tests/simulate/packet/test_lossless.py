"""PFC: nothing is lost where headroom is right, something is where it is not; queues never go wrong underway."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpuyard.simulate.network import Network, fat_tree, leaf_spine, single_switch
from gpuyard.simulate.packet.build_state import build, grow_pool
from gpuyard.simulate.packet.packet_engine import _begin, simulate_packets
from gpuyard.simulate.packet.packet_loop import DONE, FULL, run
from gpuyard.simulate.packet.settings import HTSIM_ROCE, EcnSettings, PacketSettings, PfcSettings
from gpuyard.simulate.packet.state import DATA, NONE, PacketState
from gpuyard.simulate.routes import routes_of
from gpuyard.simulate.traffic import FlowSet, all_to_all, incast, permutation

RATE, DELAY = 400e9, 1e-6
STAR = single_switch(17, rate_bits_per_s=RATE, delay_s=DELAY)
CROWD = incast(17, 1 << 20)
NEEDED_BYTES = (
    int(2 * DELAY * RATE / 8) + 2 * 4160
)  # the cable twice, the packet that crossed, the one being sent


@pytest.mark.parametrize(
    "pfc",
    [
        PfcSettings(),
        PfcSettings(xoff_bytes=20_000, xon_bytes=10_000),
        PfcSettings(headroom_bytes=NEEDED_BYTES),
        PfcSettings(frame_delay_s=2e-6),
        PfcSettings(alpha_ratio=0.03125),
    ],
)
def test_nothing_is_lost_with_headroom_for_the_round_trip(pfc: PfcSettings) -> None:
    buffer_bytes = None if pfc.alpha_ratio is None else 16_000_000
    result = simulate_packets(STAR, CROWD, PacketSettings(pfc=pfc, buffer_bytes=buffer_bytes))
    assert result.counters.pause_count > 0
    assert result.counters.dropped_count == 0
    assert result.outcome.duration_s == pytest.approx(
        (16 * 256 + 1) * 4160 * 8 / RATE + 2 * DELAY, rel=1e-6
    )


@pytest.mark.parametrize("headroom_bytes", [0, 4160, NEEDED_BYTES // 2])
def test_packets_are_lost_with_less_and_sent_again(headroom_bytes: int) -> None:
    settings = PacketSettings(
        pfc=PfcSettings(headroom_bytes=headroom_bytes), retransmit_timeout_s=1e-4
    )
    result = simulate_packets(STAR, CROWD, settings)
    assert result.counters.dropped_count > 0
    assert result.outcome.unfinished_count == 0


def test_headroom_is_used_up_to_what_was_worked_out_and_not_beyond() -> None:
    pfc = PfcSettings(xoff_bytes=200_000, xon_bytes=100_000)
    result = simulate_packets(STAR, CROWD, PacketSettings(pfc=pfc))
    held = result.link_held_peak_bytes.max()
    assert 200_000 + 0.8 * NEEDED_BYTES < held <= 200_000 + NEEDED_BYTES


def test_undersized_buffer_drops_packets_despite_headroom() -> None:
    result = simulate_packets(
        STAR, CROWD, PacketSettings(buffer_bytes=3_000_000, retransmit_timeout_s=1e-4)
    )
    assert result.counters.dropped_count > 0
    assert result.node_peak_bytes.max() <= 3_000_000


def test_longer_cables_need_more_headroom() -> None:
    long = single_switch(17, rate_bits_per_s=RATE, delay_s=10 * DELAY)
    settings = PacketSettings(
        pfc=PfcSettings(headroom_bytes=NEEDED_BYTES), retransmit_timeout_s=1e-3
    )
    assert simulate_packets(long, CROWD, settings).counters.dropped_count > 0
    assert simulate_packets(long, CROWD, PacketSettings()).counters.dropped_count == 0


def test_without_pfc_a_crowd_loses_packets() -> None:
    settings = PacketSettings(
        pfc=None, buffer_bytes=4_000_000, retransmit_timeout_s=1e-4, retry_count=1000
    )
    result = simulate_packets(STAR, CROWD, settings)
    assert result.counters.pause_count == 0
    assert result.counters.dropped_count > 0
    assert result.counters.timeout_count + result.counters.go_back_count > 0
    assert result.outcome.unfinished_count == 0


def test_pauses_are_counted_where_they_happen() -> None:
    result = simulate_packets(STAR, CROWD)
    hosts = STAR.link_from < 17
    assert np.all(result.link_pause_count[hosts & (STAR.link_from > 0)] > 0)
    assert np.all(result.link_pause_count[~hosts] == 0)
    assert np.all(result.link_pause_s <= result.outcome.duration_s)
    assert (
        result.link_pause_s.max() > 0.4 * result.outcome.duration_s
    )  # 106 of 256 packets wait for the 150 before


def test_marks_begin_with_the_queue() -> None:
    calm = PacketSettings(ecn=EcnSettings(kmin_bytes=10**8, kmax_bytes=2 * 10**8, pmax_ratio=1.0))
    keen = PacketSettings(ecn=EcnSettings(kmin_bytes=0, kmax_bytes=1, pmax_ratio=1.0))
    some = PacketSettings(ecn=EcnSettings(kmin_bytes=100_000, kmax_bytes=10**8, pmax_ratio=0.5))
    marks = [
        simulate_packets(STAR, CROWD, settings).counters.marked_count
        for settings in (calm, some, keen)
    ]
    assert marks[0] == 0 < marks[1] < marks[2]
    assert marks[2] > 0.95 * 16 * 256  # all but those that met an empty queue


def _checked(state: PacketState, network: Network) -> None:
    """No counter is negative, and all of them agree with what is in the queues."""
    rows = state.ports
    assert rows["queued"].min() >= 0
    assert rows["in_pool"].min() >= 0
    assert rows["in_headroom"].min() >= 0
    assert state.nodes["used"].min() >= 0
    held = np.zeros(network.link_count, dtype=np.int64)
    waiting = 0
    for link in range(network.link_count):
        queued, row = 0, int(rows["head"][link])
        while row != NONE:
            event = state.events[row]
            queued += int(event["bytes"])
            waiting += event["kind"] == DATA
            if event["link"] != NONE:
                held[event["link"]] += event["bytes"]
            row = int(event["next"])
        assert queued == rows["queued"][link]
    assert np.array_equal(held, rows["in_pool"] + rows["in_headroom"])
    total = np.bincount(network.link_to, held, network.node_count)
    assert np.array_equal(total.astype(np.int64), state.nodes["total"])
    flying = 0
    for row in state.slots[state.slots != NONE].tolist():
        while row != NONE:
            flying += state.events["kind"][row] == DATA
            row = int(state.events["next"][row])
    head = state.head[0]
    assert int(head["sent"] - head["received"] - head["dropped"]) == waiting + flying


@pytest.mark.parametrize(
    "settings",
    [
        PacketSettings(),
        HTSIM_ROCE,
        PacketSettings(balance="adaptive", pfc=PfcSettings(xoff_bytes=40_000, xon_bytes=20_000)),
        PacketSettings(
            pfc=PfcSettings(alpha_ratio=0.125, headroom_bytes=20_000), buffer_bytes=2_000_000
        ),
        PacketSettings(pfc=None, buffer_bytes=500_000, retransmit_timeout_s=5e-5, retry_count=1000),
    ],
)
@pytest.mark.parametrize(
    "traffic", [permutation(16, 1 << 20, seed=3), incast(16, 1 << 17), all_to_all(16, 1 << 15)]
)
def test_queues_and_counters_agree_at_every_moment(
    settings: PacketSettings, traffic: FlowSet
) -> None:
    network = fat_tree(16, rate_bits_per_s=RATE, delay_s=DELAY)
    state = build(network, routes_of(network), traffic, settings)
    _begin(state.head, len(state.flows))
    code, until = FULL, 0
    while code != DONE:
        until += 3_000_000
        code = run(state.head, until, 2**40)
        if code == FULL:
            state = grow_pool(state)
        _checked(state, network)


def test_rows_grow_when_they_run_out() -> None:
    network = leaf_spine(
        8, hosts_per_leaf=4, spines=2, rate_bits_per_s=RATE, delay_s=1e-3
    )  # 12,000 packets a cable
    traffic = permutation(8, 100_000_000, seed=1)
    settings = PacketSettings(pfc=replace(PfcSettings(), xoff_bytes=10**9))
    state = build(network, routes_of(network), traffic, settings)
    _begin(state.head, len(state.flows))
    before, code, grew = len(state.events), FULL, 0
    while code != DONE:
        code = run(state.head, 2**61, 2**40)
        if code == FULL:
            state, grew = grow_pool(state), grew + 1
    assert grew > 0
    assert len(state.events) == before * 2**grew
    result = simulate_packets(network, traffic, settings)
    assert result.outcome.finish_s == pytest.approx(state.flows["finish"] / 1e12)
