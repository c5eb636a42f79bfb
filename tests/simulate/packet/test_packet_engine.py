"""The packet engine end to end: exact times where they can be worked out, the same bytes twice, every mode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.errors import InputError
from gpuyard.simulate.network import fat_tree, leaf_spine, network_of, single_switch
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import (
    HTSIM_ROCE,
    DcqcnSettings,
    EcnSettings,
    PacketSettings,
    PfcSettings,
)
from gpuyard.simulate.traffic import all_to_all, incast, permutation, traffic_of

RATE, DELAY = 400e9, 1e-6
PACKET_S = 4160 * 8 / RATE
FAT = fat_tree(16, rate_bits_per_s=RATE, delay_s=DELAY)
CONTROLLED = PacketSettings(
    ecn=EcnSettings(kmin_bytes=50_000, kmax_bytes=200_000, pmax_ratio=0.2), dcqcn=DcqcnSettings()
)
MODES = {
    "plain": PacketSettings(),
    "htsim": HTSIM_ROCE,
    "final": PacketSettings(acks="final", done="acknowledged"),
    "quick": PacketSettings(acks="quick", done="acknowledged"),
    "window": PacketSettings(window_bytes=200_000),
    "dcqcn": CONTROLLED,
    "dcqcn in band": replace(CONTROLLED, acks="quick"),
    "spray": PacketSettings(balance="spray"),
    "adaptive": PacketSettings(balance="adaptive"),
    "flowlet": PacketSettings(balance="flowlet"),
    "cut-through": PacketSettings(forwarding="cut-through"),
    "dynamic": PacketSettings(pfc=PfcSettings(alpha_ratio=0.125), buffer_bytes=32_000_000),
    "lossy": PacketSettings(pfc=None, buffer_bytes=1_000_000, retransmit_timeout_s=1e-4, retry_count=1000),
    "lossy spray": PacketSettings(pfc=None, buffer_bytes=1_000_000, retransmit_timeout_s=1e-4, balance="spray"),
    "lossy in band": replace(
        HTSIM_ROCE, pfc=None, buffer_bytes=1_000_000, retransmit_timeout_s=1e-4, retry_count=1000
    ),
    "lossy final": PacketSettings(
        acks="final", done="acknowledged", pfc=None, buffer_bytes=1_000_000, retransmit_timeout_s=1e-4, retry_count=1000
    ),
    "cells": PacketSettings(cell_count=4),
}  # fmt: skip


def test_single_flow_takes_serialisation_plus_hop_delay() -> None:
    result = simulate_packets(FAT, traffic_of([0], [15], 100 * 4096))
    assert result.outcome.finish_s[0] == pytest.approx(
        100 * PACKET_S + 5 * PACKET_S + 6 * DELAY, abs=1e-11
    )


def test_cut_through_saves_all_but_the_header_of_every_switch() -> None:
    result = simulate_packets(
        FAT, traffic_of([0], [15], 100 * 4096), PacketSettings(forwarding="cut-through")
    )
    assert result.outcome.finish_s[0] == pytest.approx(
        100 * PACKET_S + 5 * 64 * 8 / RATE + 6 * DELAY, abs=1e-11
    )


def test_cut_through_does_not_run_ahead_of_a_slower_link() -> None:
    network = network_of(
        tier=np.array([0, 0, 1], dtype=np.int8),
        ends=np.array([[0, 2], [1, 2]], dtype=np.int32),
        rate_bits_per_s=np.array([100e9, 400e9]),
        delay_s=np.zeros(2),
        names=("a", "b", "leaf"),
    )
    traffic = traffic_of([0], [1], 50 * 4096)
    cut = simulate_packets(
        network, traffic, PacketSettings(forwarding="cut-through")
    ).outcome.duration_s
    assert cut >= 50 * 4160 * 8 / 100e9


def test_last_packet_carries_the_remainder() -> None:
    result = simulate_packets(
        single_switch(2, rate_bits_per_s=RATE, delay_s=0.0), traffic_of([0], [1], 4096 + 100)
    )
    assert result.outcome.link_bytes[0] == 4096 + 100 + 2 * 64
    assert result.outcome.finish_s[0] == pytest.approx((4160 + 4160 + 164) * 8 / RATE, abs=1e-11)


def test_acknowledged_flow_ends_one_return_path_later() -> None:
    received, acknowledged, in_band = (
        simulate_packets(FAT, traffic_of([0], [15], 10 * 4096), settings).outcome.finish_s[0]
        for settings in (PacketSettings(), PacketSettings(done="acknowledged"), HTSIM_ROCE)
    )
    assert acknowledged - received == pytest.approx(6 * (DELAY + 64 * 8 / RATE), abs=1e-11)
    assert in_band == pytest.approx(acknowledged, abs=1e-11)


def test_window_of_one_packet_waits_for_every_ack() -> None:
    result = simulate_packets(
        FAT, traffic_of([0], [1], 10 * 4096), PacketSettings(window_bytes=4096)
    )
    round_s = 2 * PACKET_S + 2 * DELAY + 2 * (64 * 8 / RATE + DELAY)
    assert result.outcome.finish_s[0] == pytest.approx(
        9 * round_s + 2 * (PACKET_S + DELAY), abs=1e-10
    )


def test_flows_wait_for_what_they_come_after_and_their_delay() -> None:
    traffic = traffic_of(
        [0, 1, 2], [1, 2, 3], 4096, start_s=[1e-6, 0.0, 5e-6], after=((), (0,), (0, 1))
    )
    outcome = simulate_packets(
        single_switch(4, rate_bits_per_s=RATE, delay_s=DELAY), traffic
    ).outcome
    assert outcome.began_s == pytest.approx(
        [1e-6, outcome.finish_s[0], outcome.finish_s[1] + 5e-6], abs=1e-11
    )


def test_flows_of_one_host_take_turns() -> None:
    traffic = traffic_of([0, 0], [1, 2], [100 * 4096, 100 * 4096])
    outcome = simulate_packets(
        single_switch(3, rate_bits_per_s=RATE, delay_s=DELAY), traffic
    ).outcome
    assert abs(outcome.finish_s[0] - outcome.finish_s[1]) <= PACKET_S * 1.01
    assert outcome.duration_s == pytest.approx(201 * PACKET_S + 2 * DELAY, abs=1e-11)


@pytest.mark.parametrize("mode", MODES)
def test_same_seed_gives_same_result_and_delivers_everything(mode: str) -> None:
    traffic = permutation(16, 60 * 4096, seed=4)
    one, other = (simulate_packets(FAT, traffic, MODES[mode]) for _ in range(2))
    assert one.outcome.unfinished_count == 0
    assert np.array_equal(one.outcome.finish_s, other.outcome.finish_s)
    assert np.array_equal(one.outcome.link_bytes, other.outcome.link_bytes)
    assert one.counters == other.counters
    assert one.counters.in_flight_count >= 0


def test_another_seed_gives_another_result() -> None:
    traffic = permutation(16, 60 * 4096, seed=4)
    finishes = {
        tuple(simulate_packets(FAT, traffic, PacketSettings(seed=seed)).outcome.finish_s)
        for seed in range(6)
    }
    assert len(finishes) > 1


def test_balancing_by_packet_beats_hashing_by_flow() -> None:
    traffic = permutation(16, 200 * 4096, seed=1)
    times = {
        mode: simulate_packets(FAT, traffic, MODES[mode]).outcome.duration_s
        for mode in ("plain", "spray", "adaptive")
    }
    assert times["adaptive"] <= times["spray"] <= times["plain"]
    assert times["adaptive"] < 1.2 * (205 * PACKET_S + 6 * DELAY)


@pytest.mark.parametrize("mode", ["plain", "htsim", "window", "dcqcn", "cut-through", "dynamic"])
def test_packets_on_one_path_stay_in_order(mode: str) -> None:
    counters = simulate_packets(FAT, all_to_all(16, 20 * 4096), MODES[mode]).counters
    assert counters.late_count == counters.duplicate_count == counters.go_back_count == 0


def test_sprayed_packets_come_out_of_order() -> None:
    assert simulate_packets(FAT, all_to_all(16, 20 * 4096), MODES["spray"]).counters.late_count > 0


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 300_000),
    mode=st.sampled_from(sorted(MODES)),
    pattern=st.sampled_from(["permutation", "incast", "all"]),
)
def test_every_byte_arrives_in_every_mode(seed: int, size: int, mode: str, pattern: str) -> None:
    network = leaf_spine(12, hosts_per_leaf=4, spines=2, rate_bits_per_s=RATE, delay_s=5e-7)
    traffic = {
        "permutation": permutation(12, size, seed=seed),
        "incast": incast(12, size),
        "all": all_to_all(12, size // 11 + 1),
    }[pattern]
    result = simulate_packets(network, traffic, replace(MODES[mode], seed=seed))
    counters = result.counters
    packets = int(np.ceil(traffic.size_bytes / (4096 * MODES[mode].cell_count)).sum())
    assert result.outcome.unfinished_count == 0
    assert (
        counters.sent_count
        == counters.received_count + counters.dropped_count + counters.in_flight_count
    )
    assert counters.received_count >= packets
    if counters.dropped_count == counters.dropped_answer_count == 0:
        assert counters.sent_count == packets
        assert counters.in_flight_count == 0


def test_coarser_cells_are_close() -> None:
    network = leaf_spine(16, hosts_per_leaf=8, spines=4, rate_bits_per_s=RATE, delay_s=DELAY)
    traffic = permutation(16, 1 << 20, seed=2)
    fine, coarse = (
        simulate_packets(network, traffic, PacketSettings(cell_count=cells)) for cells in (1, 4)
    )
    assert coarse.counters.event_count < 0.4 * fine.counters.event_count
    assert coarse.outcome.duration_s == pytest.approx(fine.outcome.duration_s, rel=0.05)


def test_time_limit_stops_unfinished_flows() -> None:
    result = simulate_packets(FAT, permutation(16, 1 << 22, seed=1), PacketSettings(end_s=20e-6))
    assert result.outcome.unfinished_count == 16
    assert result.counters.in_flight_count > 0
    assert result.deadlock == ()


def test_more_bandwidth_is_never_slower_for_a_lone_flow() -> None:
    times = [
        simulate_packets(
            fat_tree(16, rate_bits_per_s=rate, delay_s=DELAY), traffic_of([0], [9], 1 << 20)
        ).outcome.duration_s
        for rate in (100e9, 200e9, 400e9, 800e9)
    ]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (PacketSettings(pfc=PfcSettings(xoff_bytes=100, xon_bytes=100)), "XON is not below XOFF"),
        (PacketSettings(pfc=PfcSettings(alpha_ratio=1.0)), "give buffer_bytes"),
        (PacketSettings(pfc=None), "no PFC and no limit"),
        (PacketSettings(dcqcn=DcqcnSettings()), "nothing marks"),
        (
            PacketSettings(ecn=EcnSettings(kmin_bytes=5, kmax_bytes=5, pmax_ratio=2.0)),
            "pmax outside",
        ),
        (PacketSettings(cell_count=0), "no payload"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(wrong: PacketSettings, words: str) -> None:
    with pytest.raises(InputError, match=words):
        simulate_packets(FAT, permutation(16, 4096, seed=1), wrong)


def test_headroom_that_does_not_fit_the_buffer_is_refused_with_the_switch() -> None:
    with pytest.raises(InputError, match="leaf0: headroom of"):
        simulate_packets(FAT, permutation(16, 4096, seed=1), PacketSettings(buffer_bytes=300_000))


@pytest.mark.parametrize("burst_count", [1, 2, 8, 64])
def test_sending_several_packets_in_one_step_changes_little(burst_count: int) -> None:
    traffic = permutation(16, 200 * 4096, seed=1)
    one, many = (
        simulate_packets(FAT, traffic, PacketSettings(burst_count=burst))
        for burst in (1, burst_count)
    )
    assert many.counters.dropped_count == 0
    assert many.outcome.duration_s == pytest.approx(one.outcome.duration_s, rel=0.01)
    assert many.outcome.mean_completion_s == pytest.approx(one.outcome.mean_completion_s, rel=0.01)


def test_wide_calendar_slot_with_zero_delay_events_is_processed() -> None:
    network = single_switch(2, rate_bits_per_s=400e9, delay_s=0.0)
    traffic = traffic_of([0] * 40, [1] * 40, 100, start_s=np.arange(40) * 1e-9)
    result = simulate_packets(network, traffic, PacketSettings(acks="queued", done="acknowledged"))
    assert result.outcome.unfinished_count == 0
