"""Run a simulation with the flow engine and summarise it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.errors import InputError
from gpuyard.simulate.flow.flow_engine import simulate_flows
from gpuyard.simulate.flow.settings import Balance, FlowSettings
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.run_traffic import SimulationOptions
from gpuyard.simulate.sites.named_topologies import NetworkSetup
from gpuyard.simulate.summary import RunInfo, SimulationResult, between_servers, summary_of
from gpuyard.simulate.traffic import FlowSet

MOST_EXACT = 50_000  # flows whose ends are simulated one by one
QUANTUM_RATIO = 0.01


def run(
    site: NetworkSetup,
    traffic: FlowSet,
    options: SimulationOptions,
    words: str,
    notes: Sequence[str] = (),
    on_progress: OnProgress = ignore_progress,
) -> SimulationResult:
    """Simulate traffic flow by flow."""
    settings, more = flow_settings(site, options)
    if traffic.flow_count > MOST_EXACT and not len(
        traffic.after
    ):  # along chains the haste would add up
        settings = replace(settings, quantum_ratio=QUANTUM_RATIO)
        more = (
            *more,
            (
                f"{traffic.flow_count:,} flows: those that end within 1 % of the elapsed time end"
                " together"
            ),
        )
    result = simulate_flows(site.network, traffic, settings, options.faults, on_progress)
    summary = summary_of(
        site.network,
        result.outcome,
        None,
        RunInfo(
            network=site.label,
            traffic=words,
            balancing=settings.balance,
            congestion_control="none",
            seed=options.seed,
            notes=(*site.notes, *notes, *more),
        ),
        events=result.fill_count,
        far=between_servers(site.network, traffic),
    )
    return SimulationResult(
        summary=summary,
        network=site.network,
        topology=site.topology,
        traffic=traffic,
        outcome=result.outcome,
    )


def flow_settings(
    site: NetworkSetup, options: SimulationOptions
) -> tuple[FlowSettings, tuple[str, ...]]:
    """Return the settings of the flow engine, and a note on what it leaves out."""
    if options.congestion_control != "none" and options.engine == "flow":
        raise InputError.one(
            "--cc", "flows know no congestion control", "use --engine packet, or --cc none"
        )
    mode = options.balancing or (site.packets.balance if site.packets else "ecmp")
    if mode == "flowlet" and options.balancing is not None and options.engine == "flow":
        raise InputError.one(
            "--balancing", "flows know no flowlets", "use --engine packet, or adaptive"
        )
    balance: Balance = "adaptive" if mode == "flowlet" else mode  # type: ignore[assignment]
    notes = (
        ("flowlets are taken as adaptive balancing, an upper bound",) if mode == "flowlet" else ()
    )
    return FlowSettings(balance=balance, seed=options.seed, mtu_bytes=options.mtu_bytes), notes
