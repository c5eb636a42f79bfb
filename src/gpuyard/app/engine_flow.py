"""Simulations by the flow engine: flows at max-min fair rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuyard.app.shapes import Site
from gpuyard.app.simulate import Play
from gpuyard.errors import InputError
from gpuyard.simulate.flow import Balance, FlowSettings, simulate_flows
from gpuyard.simulate.summary import Simulation, between_servers, summary_of
from gpuyard.simulate.traffic import Traffic

__all__ = ["flow_settings", "run"]

MOST_EXACT = 50_000  # flows whose ends are simulated one by one
QUANTUM_RATIO = 0.01


def run(site: Site, traffic: Traffic, play: Play, words: str, notes: Sequence[str] = ()) -> Simulation:
    """Traffic, flow by flow."""
    settings, more = flow_settings(site, play)
    if traffic.flow_count > MOST_EXACT and not len(traffic.after):  # along chains the haste would add up
        settings = replace(settings, quantum_ratio=QUANTUM_RATIO)
        more = (*more, f"{traffic.flow_count:,} flows: those that end within 1 % of the elapsed time end together")
    found = simulate_flows(site.network, traffic, settings, play.faults)
    summary = summary_of(
        site.network, found.outcome, None, words=(site.label, words), balancing=settings.balance,
        congestion_control="none", seed=play.seed, events=found.fill_count, notes=(*site.notes, *notes, *more),
        far=between_servers(site.network, traffic),
    )  # fmt: skip
    return Simulation(
        summary=summary, network=site.network, topology=site.topology, traffic=traffic, outcome=found.outcome
    )


def flow_settings(site: Site, play: Play) -> tuple[FlowSettings, tuple[str, ...]]:
    """Settings of the flow engine, and what it leaves out."""
    if play.congestion_control != "none" and play.engine == "flow":
        raise InputError.one("--cc", "flows know no congestion control", "use --engine packet, or --cc none")
    asked = play.balancing or (site.packets.balance if site.packets else "ecmp")
    if asked == "flowlet" and play.balancing is not None and play.engine == "flow":
        raise InputError.one("--balancing", "flows know no flowlets", "use --engine packet, or adaptive")
    balance: Balance = "adaptive" if asked == "flowlet" else asked  # type: ignore[assignment]
    told = ("flowlets are taken as adaptive balancing, an upper bound",) if asked == "flowlet" else ()
    return FlowSettings(balance=balance, seed=play.seed, mtu_bytes=play.mtu_bytes), told
