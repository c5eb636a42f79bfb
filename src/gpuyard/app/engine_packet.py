"""Simulations by the packet engine: every packet, with buffers, pauses and marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.app.shapes import Site
from gpuyard.app.simulate import Play
from gpuyard.simulate.faults import PfcStorm
from gpuyard.simulate.packet import Dcqcn, Ecn, PacketSettings, Watchdog, simulate_packets
from gpuyard.simulate.summary import Simulation, between_servers, summary_of
from gpuyard.simulate.traffic import Traffic
from gpuyard.units import bytes_from_bits

__all__ = ["packet_settings", "run"]

# ns-3's RoCE model (HPCC's configuration) marks at 400 Gb/s from 800 kB to 3200 kB, at most one packet in five; its
# thresholds grow with the rate.
KMIN_S, KMAX_S, PMAX_RATIO = 800e3 / 50e9, 3200e3 / 50e9, 0.2


def run(site: Site, traffic: Traffic, play: Play, words: str, notes: Sequence[str] = ()) -> Simulation:
    """Traffic, packet by packet."""
    settings = packet_settings(site, play)
    found = simulate_packets(site.network, traffic, settings, play.faults)
    summary = summary_of(
        site.network, found.outcome, found, words=(site.label, words), balancing=settings.balance,
        congestion_control=play.congestion_control, seed=play.seed, events=found.counters.event_count,
        notes=(*site.notes, *site.packet_notes, *notes),
        far=between_servers(site.network, traffic),
    )  # fmt: skip
    return Simulation(
        summary=summary, network=site.network, topology=site.topology, traffic=traffic, outcome=found.outcome,
        packets=found,
    )  # fmt: skip


def packet_settings(site: Site, play: Play) -> PacketSettings:
    """Settings of the packet engine: those of the design, with what was asked for over them."""
    base = site.packets or PacketSettings()
    rate = float(site.network.rate_bits_per_s[site.network.link_from < site.network.host_count].min())
    speed = bytes_from_bits(rate)
    ecn = base.ecn or Ecn(kmin_bytes=round(KMIN_S * speed), kmax_bytes=round(KMAX_S * speed), pmax_ratio=PMAX_RATIO)
    dcqcn = Dcqcn() if play.congestion_control == "dcqcn" else None
    watchdog = base.watchdog if any(isinstance(fault, PfcStorm) for fault in play.faults) else None
    if play.watchdog_s is not None:  # polled twice in that time, as switch OSs do
        watchdog = Watchdog(detect_s=play.watchdog_s, restore_s=play.watchdog_s, poll_s=play.watchdog_s / 2)
    return replace(
        base,
        payload_bytes=play.mtu_bytes,
        cell_count=play.cell_count,
        ecn=ecn if dcqcn else None,
        dcqcn=dcqcn,
        balance=play.balancing or base.balance,  # type: ignore[arg-type]
        acks=play.acks,
        done=play.done,
        watchdog=watchdog,
        seed=play.seed,
    )
