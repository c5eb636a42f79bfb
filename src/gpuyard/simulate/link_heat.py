"""Link load and timeline of a simulation, reduced for drawing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpuyard.document.field_types import Doc, FormerName
from gpuyard.simulate.drawing import device_names, topology_of
from gpuyard.simulate.summary import NetworkSummary, SimulationResult
from gpuyard.topology.topology import Topology

HOSTS_SHOWN, FLOWS_SHOWN = 16, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class CableLoad:
    """Utilisation of the links between two devices; of parallel ones, the highest."""

    lower: str
    upper: str
    up_ratio: float
    down_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """A bar of the timeline, on one of its rows."""

    row: str
    what: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A simulation as its numbers, the load of its cables and its timeline."""

    summary: NetworkSummary
    cables: Annotated[
        tuple[CableLoad, ...],
        FormerName("wires"),
        Doc("between devices of the drawing; none inside servers"),
    ]
    spans: Annotated[tuple[TimelineSpan, ...], FormerName("stretches")] = ()


def heat_of(done: SimulationResult) -> Heat:
    """What can be drawn of a simulation."""
    topology = done.topology or topology_of(done.network)
    return Heat(summary=done.summary, cables=cable_loads(done, topology), spans=_spans(done))


def cable_loads(done: SimulationResult, topology: Topology) -> tuple[CableLoad, ...]:
    """The load of every cable of the drawing; nothing where no load was counted."""
    utilisation = done.utilisation
    if utilisation is None:
        return ()
    names = device_names(done.network, topology)
    tiers = {node.name: node.tier for node in topology.nodes}
    up: dict[tuple[str, str], float] = defaultdict(float)
    down: dict[tuple[str, str], float] = defaultdict(float)
    ends = zip(
        done.network.link_from.tolist(),
        done.network.link_to.tolist(),
        utilisation.tolist(),
        strict=True,
    )
    for one, other, share in ends:
        a, b = names[one], names[other]
        if a and b and a != b:
            if tiers[a] <= tiers[b]:
                up[a, b] = max(up[a, b], share)
            else:
                down[b, a] = max(down[b, a], share)
    pairs = sorted({*up, *down})
    return tuple(
        CableLoad(lower=pair[0], upper=pair[1], up_ratio=up[pair], down_ratio=down[pair])
        for pair in pairs
    )


def _spans(done: SimulationResult) -> tuple[TimelineSpan, ...]:
    """The phases of a collective; without them, what some hosts send."""
    if done.phases:
        return tuple(
            TimelineSpan(
                row=phase.label, what=phase.label, begin_s=phase.begin_s, end_s=phase.end_s
            )
            for phase in done.phases
        )
    traffic, outcome = done.traffic, done.outcome
    if traffic is None or outcome is None:
        return ()
    hosts, spans = np.unique(traffic.source), list[TimelineSpan]()
    shown = (
        hosts
        if len(hosts) <= HOSTS_SHOWN
        else hosts[np.linspace(0, len(hosts) - 1, HOSTS_SHOWN).astype(int)]
    )
    for host in shown.tolist():
        own = np.flatnonzero((traffic.source == host) & ~np.isnan(outcome.finish_s))
        own = own[np.argsort(outcome.began_s[own], kind="stable")]
        chosen = (
            own
            if len(own) <= FLOWS_SHOWN
            else own[np.linspace(0, len(own) - 1, FLOWS_SHOWN).astype(int)]
        )
        name = done.network.names[host]
        spans += [
            TimelineSpan(
                row=name,
                what=f"{name} → {done.network.names[int(traffic.target[flow])]}",
                begin_s=float(outcome.began_s[flow]),
                end_s=float(outcome.finish_s[flow]),
            )
            for flow in chosen.tolist()
        ]
    return tuple(spans)
