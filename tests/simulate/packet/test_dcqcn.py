"""DCQCN: the rates of timers evaluated when needed are those of timers that tick."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.jit import jit
from gpuyard.simulate.network import single_switch
from gpuyard.simulate.packet.build_state import build
from gpuyard.simulate.packet.dcqcn import cut_rate, rate_after
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import DcqcnSettings, EcnSettings, PacketSettings
from gpuyard.simulate.packet.state import ports
from gpuyard.simulate.routes import routes_of
from gpuyard.simulate.traffic import incast, traffic_of

LINE_RATE = 400e9
NETWORK = single_switch(9, rate_bits_per_s=LINE_RATE, delay_s=1e-6)
MARKS = EcnSettings(kmin_bytes=50_000, kmax_bytes=200_000, pmax_ratio=0.2)
FAST = DcqcnSettings(
    additive_bits_per_s=2e9, hyper_bits_per_s=10e9, increase_timer_s=20e-6, alpha_timer_s=30e-6
)


@jit
def notify(head: npt.NDArray[np.void], now: int) -> None:
    """Tells flow 0 of a mark."""
    s: Row = head[0]
    s.now = now
    cut_rate(s, 0)


@jit
def send(head: npt.NDArray[np.void], now: int, size: int) -> float:
    """Flow 0 sends, and has this rate after it."""
    s: Row = head[0]
    s.now = now
    return rate_after(s, 0, size, ports(s, 0).ps_per_byte)


class Ticking:
    """The equations of the paper, with a timer that fires at every period."""

    def __init__(self, dcqcn: DcqcnSettings) -> None:
        self.dcqcn, self.rate, self.target, self.alpha = (
            dcqcn,
            LINE_RATE,
            LINE_RATE,
            dcqcn.initial_alpha_ratio,
        )
        self.alpha_at = self.increase_at = 0.0
        self.bytes, self.timer_stage, self.byte_stage, self.cut = 0, 0, 0, False

    def tick(self, now: float) -> None:
        while (
            self.cut
            and now
            >= min(
                self.alpha_at + self.dcqcn.alpha_timer_s,
                self.increase_at + self.dcqcn.increase_timer_s,
            )
            - 1e-13
        ):
            if (
                self.alpha_at + self.dcqcn.alpha_timer_s
                <= self.increase_at + self.dcqcn.increase_timer_s
            ):
                self.alpha_at += self.dcqcn.alpha_timer_s
                self.alpha *= 1 - self.dcqcn.g_ratio
            else:
                self.increase_at += self.dcqcn.increase_timer_s
                self.timer_stage += 1
                self.rise()

    def rise(self) -> None:
        if max(self.timer_stage, self.byte_stage) > self.dcqcn.fast_recovery_count:
            both = min(self.timer_stage, self.byte_stage) > self.dcqcn.fast_recovery_count
            self.target += self.dcqcn.hyper_bits_per_s if both else self.dcqcn.additive_bits_per_s
        self.target = min(self.target, LINE_RATE)
        self.rate = (self.rate + self.target) / 2

    def notify(self, now: float) -> None:
        self.tick(now)
        self.alpha = (1 - self.dcqcn.g_ratio) * self.alpha + self.dcqcn.g_ratio
        self.target = self.rate
        self.rate = max(self.dcqcn.minimum_bits_per_s, self.rate * (1 - self.alpha / 2))
        self.alpha_at = self.increase_at = now
        self.bytes = self.timer_stage = self.byte_stage = 0
        self.cut = True

    def send(self, now: float, size: int) -> float:
        self.tick(now)
        self.bytes += size
        if self.cut and self.dcqcn.increase_bytes and self.bytes >= self.dcqcn.increase_bytes:
            self.bytes -= self.dcqcn.increase_bytes
            self.byte_stage += 1
            self.rise()
        return self.rate


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.booleans(), st.integers(1, 120)), min_size=1, max_size=60),
    increase_bytes=st.sampled_from([None, 100_000]),
    g_ratio=st.sampled_from([1 / 256, 1 / 16]),
)
def test_rates_are_those_of_ticking_timers(
    steps: list[tuple[bool, int]], increase_bytes: int | None, g_ratio: float
) -> None:
    dcqcn = replace(FAST, increase_bytes=increase_bytes, g_ratio=g_ratio)
    settings_ = PacketSettings(ecn=MARKS, dcqcn=dcqcn)
    state = build(NETWORK, routes_of(NETWORK), traffic_of([0], [1], 10**9), settings_)
    told, now = Ticking(dcqcn), 0
    for is_mark, pause in steps:
        now += pause * 997_001  # about a microsecond, never on a tick
        if is_mark:
            notify(state.head, now)
            told.notify(now / 1e12)
        else:
            rate = send(state.head, now, 40_960) * 8e12
            assert rate == pytest.approx(
                told.send(now / 1e12, 40_960), rel=2e-3
            )  # near the top it snaps to the port


def test_congestion_control_reduces_pauses_and_queues() -> None:
    traffic = incast(9, 1 << 22)
    often = replace(FAST, cnp_interval_s=4e-6)
    free, held = (
        simulate_packets(NETWORK, traffic, PacketSettings(ecn=MARKS, dcqcn=dcqcn))
        for dcqcn in (None, often)
    )
    assert held.counters.cnp_count > 0
    assert held.link_pause_s.sum() < 0.5 * free.link_pause_s.sum()
    assert held.outcome.unfinished_count == 0


@pytest.mark.parametrize(
    ("change", "slower"),
    [
        ({"cnp_interval_s": 4e-6}, True),
        ({"additive_bits_per_s": 20e9, "hyper_bits_per_s": 50e9}, False),
        ({"increase_timer_s": 500e-6, "increase_bytes": None}, True),
        ({"decrease_interval_s": 1e-3}, False),
        ({"minimum_bits_per_s": 45e9}, False),
    ],
)
def test_every_timer_acts(change: dict[str, float], slower: bool) -> None:
    traffic = incast(9, 1 << 21)
    base, other = (
        simulate_packets(
            NETWORK, traffic, PacketSettings(ecn=MARKS, dcqcn=dcqcn)
        ).outcome.mean_completion_s
        for dcqcn in (FAST, replace(FAST, **change))  # type: ignore[arg-type]
    )
    assert (other > base) == slower
