"""Run a simulation with the packet engine and summarise it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.simulate.faults import PfcStorm
from gpuyard.simulate.packet.packet_engine import simulate_packets
from gpuyard.simulate.packet.settings import (
    DcqcnSettings,
    EcnSettings,
    PacketSettings,
    WatchdogSettings,
)
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import RunInfo, SimulationResult, between_servers, summary_of
from gpuyard.simulate.traffic import FlowSet
from gpuyard.units import bytes_from_bits

# ns-3's RoCE model (HPCC's configuration) marks at 400 Gb/s from 800 kB to 3200 kB, at most one
# packet in five; its thresholds grow with the rate.
KMIN_S, KMAX_S, PMAX_RATIO = 800e3 / 50e9, 3200e3 / 50e9, 0.2


def run(
    site: NetworkSetup,
    traffic: FlowSet,
    options: SimulationOptions,
    words: str,
    notes: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> SimulationResult:
    """Simulate traffic packet by packet."""
    settings = packet_settings(site, options)
    result = simulate_packets(site.network, traffic, settings, options.faults, on_progress)
    summary = summary_of(
        site.network,
        result.outcome,
        result,
        RunInfo(
            network=site.label,
            traffic=words,
            balancing=settings.balance,
            congestion_control=options.congestion_control,
            seed=options.seed,
            notes=(*site.notes, *site.packet_notes, *notes),
        ),
        events=result.counters.event_count,
        far=between_servers(site.network, traffic),
    )
    return SimulationResult(
        summary=summary,
        network=site.network,
        topology=site.topology,
        traffic=traffic,
        outcome=result.outcome,
        packets=result,
    )


def packet_settings(site: NetworkSetup, options: SimulationOptions) -> PacketSettings:
    """Return the packet settings: those of the design, overridden by the options."""
    base = site.packets or PacketSettings()
    rate = float(
        site.network.rate_bits_per_s[site.network.link_from < site.network.host_count].min()
    )
    speed = bytes_from_bits(rate)
    ecn = base.ecn or EcnSettings(
        kmin_bytes=round(KMIN_S * speed), kmax_bytes=round(KMAX_S * speed), pmax_ratio=PMAX_RATIO
    )
    dcqcn = DcqcnSettings() if options.congestion_control == "dcqcn" else None
    watchdog = (
        base.watchdog if any(isinstance(fault, PfcStorm) for fault in options.faults) else None
    )
    if options.watchdog_s is not None:  # polled twice in that time, as switch OSs do
        watchdog = WatchdogSettings(
            detect_s=options.watchdog_s, restore_s=options.watchdog_s, poll_s=options.watchdog_s / 2
        )
    return replace(
        base,
        payload_bytes=options.mtu_bytes,
        cell_count=options.cell_count,
        ecn=ecn if dcqcn else None,
        dcqcn=dcqcn,
        balance=options.balancing or base.balance,  # type: ignore[arg-type]
        acks=options.acks,
        done=options.done,
        watchdog=watchdog,
        seed=options.seed,
    )
