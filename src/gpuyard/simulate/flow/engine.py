"""Flows over a network by max-min fair rates, with failures: the flow engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.faults import Fault
from gpuyard.simulate.flow.entries import Loads, Ways, loads_of, problem_of, ways_of, wire_bytes
from gpuyard.simulate.flow.problem import Problem
from gpuyard.simulate.flow.run import State, advance, started
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.symmetry import quotient, topological
from gpuyard.simulate.flow.timeline import stretches
from gpuyard.simulate.network import Network
from gpuyard.simulate.result import Outcome
from gpuyard.simulate.traffic import Traffic
from gpuyard.units import bytes_from_bits

__all__ = ["FlowResult", "simulate_flows"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowResult:
    """What came of the flows, and how much work it was."""

    outcome: Outcome
    class_count: int  # flows that were simulated; the others are equal to one of them
    fill_count: int  # times that rates were renewed

    @property
    def time_s(self) -> float:
        """When the last flow was received."""
        return self.outcome.duration_s


def simulate_flows(
    network: Network, traffic: Traffic, settings: FlowSettings, faults: tuple[Fault, ...] = ()
) -> FlowResult:
    """When each flow begins and is received, and what each link carries; flows that never end have NaN."""
    traffic.check(network.host_count)
    parts = stretches(network, faults)
    if len(parts) == 1 and parts[0].routed.all() and not parts[0].lag_s.any():
        return _undisturbed(replace(network, rate_bits_per_s=parts[0].rate_bits_per_s), traffic, settings)
    carried = np.zeros(network.link_count)
    state: State | None = None
    for part in parts:
        now = replace(network, rate_bits_per_s=part.rate_bits_per_s)
        ways = ways_of(now, settings, part.routed)
        loads = _loads_where_joined(ways, traffic)
        problem = problem_of(traffic, loads, settings)
        problem = replace(problem, start_s=problem.start_s + part.lag_s[traffic.source])
        if state is None:
            topological(problem)
            state = started(problem)
        before = state.remaining_bytes.copy()
        advance(problem, state, part.begin_s, part.end_s, settings.quantum_ratio)
        carried += _carried(loads, np.maximum(before - state.remaining_bytes, 0.0), network)
    assert state is not None, "there is always a stretch"
    return _result(network, traffic, state.begin_s, state.received_s, carried, len(state.phase), int(state.fills[0]))


def _undisturbed(network: Network, traffic: Traffic, settings: FlowSettings) -> FlowResult:
    """Nothing changes on the way, so equal flows can be taken together."""
    loads = loads_of(ways_of(network, settings), traffic)
    problem: Problem = problem_of(traffic, loads, settings)
    classes = quotient(problem) if settings.collapse else None
    solved = classes.problem if classes else problem
    if classes is None:
        topological(problem)
    state = started(solved)
    advance(solved, state, 0.0, np.inf, settings.quantum_ratio)
    begin_s, received_s = state.begin_s, state.received_s
    if classes:
        begin_s, received_s = begin_s[classes.flow_class], received_s[classes.flow_class]
    sent = np.where(np.isfinite(received_s), wire_bytes(traffic.size_bytes, settings), 0.0)
    carried = _carried(loads, sent, network)
    return _result(network, traffic, begin_s, received_s, carried, solved.flow_count, int(state.fills[0]))


def _loads_where_joined(ways: Ways, traffic: Traffic) -> Loads:
    """The links of flows; one whose host has lost its last cable gets a link of its own that carries nothing."""
    routes = ways.routes
    wired = np.diff(routes.host_index) > 0
    inside = (routes.server[traffic.source] == routes.server[traffic.target]) & (
        (routes.scale_up[traffic.source] >= 0) & (routes.scale_up[traffic.target] >= 0)
    )
    cut = ~inside & ~(wired[traffic.source] & wired[traffic.target])
    if not cut.any():
        return loads_of(ways, traffic)
    kept = np.flatnonzero(~cut)
    some = loads_of(
        ways, replace(traffic, source=traffic.source[kept], target=traffic.target[kept], channel=traffic.channel[kept])
    )
    counts = np.ones(traffic.flow_count, dtype=np.int64)
    counts[kept] = np.diff(some.index)
    index = np.zeros(traffic.flow_count + 1, dtype=np.int64)
    np.cumsum(counts, out=index[1:])
    dead = len(some.capacity_bytes_per_s)
    link, share = np.full(index[-1], dead, dtype=np.int64), np.ones(index[-1])
    mine = np.repeat(~cut, counts)
    link[mine], share[mine] = some.link, some.share
    return replace(
        some,
        index=index,
        link=link,
        share=share,
        capacity_bytes_per_s=np.append(some.capacity_bytes_per_s, 0.0),
        member_bytes_per_s=np.append(some.member_bytes_per_s, 1.0),
        delay_s=np.append(some.delay_s, 0.0),
    )


def _carried(loads: Loads, sent_bytes: Floats, network: Network) -> Floats:
    """What each link of the whole network carried."""
    links = len(loads.capacity_bytes_per_s)
    each = np.repeat(sent_bytes, np.diff(loads.index)) * loads.share
    carried: Floats = np.bincount(loads.link, each, minlength=links).astype(np.float64)
    if loads.lump is None:
        return carried[: network.link_count]
    member: Floats = carried[: len(loads.lump.members)] / loads.lump.members
    return member[loads.lump.link]


def _result(
    network: Network, traffic: Traffic, begin_s: Floats, received_s: Floats, carried: Floats, classes: int, fills: int
) -> FlowResult:
    """The values that all engines share."""
    known = np.isfinite(received_s)
    outcome = Outcome(
        began_s=np.where(np.isfinite(begin_s), begin_s, np.nan),
        finish_s=np.where(known, received_s, np.nan),
        size_bytes=traffic.size_bytes,
        link_bytes=carried,
        link_rate_bytes_per_s=bytes_from_bits(1.0) * network.rate_bits_per_s,
    )
    return FlowResult(outcome=outcome, class_count=classes, fill_count=fills)
