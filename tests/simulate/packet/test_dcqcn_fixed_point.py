"""DCQCN in its steady state, beside the fixed point of the fluid model of its authors.

Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 5.1: flows share the link
evenly, and marking is as likely as makes the cuts undo the rises. The equations know no hyper increase, so the packets
here have none beyond the additive one either. They take marks as spread evenly; the queue of packets swings around
its mean, so that it may be off by a third, and no more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpuyard.simulate.network import single_switch
from gpuyard.simulate.packet.build_state import build
from gpuyard.simulate.packet.packet_engine import _begin
from gpuyard.simulate.packet.packet_loop import run
from gpuyard.simulate.packet.settings import DcqcnSettings, EcnSettings, PacketSettings
from gpuyard.simulate.routes import routes_of
from gpuyard.simulate.traffic import incast

RATE_BITS_PER_S, PACKET_BYTES = 40e9, 1000  # the paper's
MARKS = EcnSettings(kmin_bytes=5_000, kmax_bytes=200_000, pmax_ratio=0.01)
PAPER = replace(DcqcnSettings(), hyper_bits_per_s=DcqcnSettings().additive_bits_per_s)
PS = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """What was seen after the start."""

    queue_bytes: float
    marked_ratio: float
    use_ratio: float
    shares: np.ndarray  # of the flows, over the mean


def fixed_point(flows: int, dcqcn: DcqcnSettings) -> float:
    """The marking probability at which neither the rate nor the target of a flow moves, by bisection."""
    rate = RATE_BITS_PER_S / 8 / PACKET_BYTES / flows  # packets/s
    step = dcqcn.additive_bits_per_s / 8 / PACKET_BYTES
    counter = (dcqcn.increase_bytes or 0) / PACKET_BYTES
    timer, notice, stages = (
        dcqcn.increase_timer_s * rate,
        dcqcn.cnp_interval_s,
        dcqcn.fast_recovery_count,
    )

    def cuts_over_rises(p: float) -> float:
        alpha = 1 - (1 - p) ** (dcqcn.alpha_timer_s * rate)
        cut = 1 - (1 - p) ** (notice * rate)
        by_bytes = p / np.expm1(-counter * np.log1p(-p))  # rises by the byte counter, a packet
        by_timer = p / np.expm1(-timer * np.log1p(-p))
        later = (1 - p) ** (stages * counter) * by_bytes + (1 - p) ** (
            stages * timer
        ) * by_timer  # the additive ones
        gap = notice * step * rate * later / cut  # target less rate
        return float(rate * alpha * cut / (2 * notice) - gap / 2 * rate * (by_bytes + by_timer))

    low, high = 1e-6, 0.05
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if cuts_over_rises(middle) > 0 else (middle, high)
    return (low * high) ** 0.5


def steady(flows: int, dcqcn: DcqcnSettings, until_s: float = 0.25, from_s: float = 0.1) -> Steady:
    """Greedy flows into one port, looked at every 20 µs."""
    network = single_switch(flows + 1, rate_bits_per_s=RATE_BITS_PER_S, delay_s=1e-6)
    settings = PacketSettings(
        payload_bytes=PACKET_BYTES, header_bytes=0, ecn=MARKS, dcqcn=dcqcn, burst_count=1
    )
    state = build(
        network, routes_of(network, up_down=True), incast(flows + 1, 2_000_000_000), settings
    )
    _begin(state.head, flows)
    port = int(np.flatnonzero(network.link_to == 0)[0])
    run(state.head, int(from_s * PS), 2**40)
    marks, received = int(state.ports["marks"][port]), state.flows["expected"].copy()
    queues = []
    for time in np.arange(from_s, until_s, 20e-6):
        run(state.head, int(time * PS), 2**40)
        queues.append(int(state.ports["queued"][port]))
    got = (state.flows["expected"] - received).astype(float)
    return Steady(
        queue_bytes=float(np.mean(queues)),
        marked_ratio=(int(state.ports["marks"][port]) - marks) / got.sum(),
        use_ratio=got.sum() * PACKET_BYTES * 8 / (until_s - from_s) / RATE_BITS_PER_S,
        shares=got / got.mean(),
    )


@pytest.mark.parametrize(
    ("flows", "additive_bits_per_s"), [(2, 40e6), (2, 160e6), (4, 40e6), (8, 40e6)]
)
def test_steady_state_matches_fluid_model(flows: int, additive_bits_per_s: float) -> None:
    dcqcn = replace(
        PAPER, additive_bits_per_s=additive_bits_per_s, hyper_bits_per_s=additive_bits_per_s
    )
    marked = fixed_point(flows, dcqcn)
    queue = MARKS.kmin_bytes + marked / MARKS.pmax_ratio * (MARKS.kmax_bytes - MARKS.kmin_bytes)
    found = steady(flows, dcqcn)
    assert np.all(np.abs(found.shares - 1) < 0.1)  # each its fair share
    assert found.use_ratio > 0.99
    assert MARKS.kmin_bytes < found.queue_bytes < MARKS.kmax_bytes
    assert found.queue_bytes == pytest.approx(queue, rel=0.35)
    if flows <= 4:  # beyond, the swings reach kmax, where every packet is marked
        assert found.marked_ratio == pytest.approx(marked, rel=0.45)


def test_queue_grows_with_flow_count() -> None:
    queues = [steady(flows, PAPER, until_s=0.15, from_s=0.05).queue_bytes for flows in (2, 4, 8)]
    assert queues == sorted(queues)
    assert queues[2] > 2 * queues[0]
