"""The flow engine: max-min fair flows on a network, with faults."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.faults import Fault
from gpuyard.simulate.flow.flow_links import (
    FlowLoads,
    FlowRoutes,
    build_problem,
    carried_bytes,
    flow_link_shares,
    live_routes,
    wire_bytes,
)
from gpuyard.simulate.flow.flow_loop import FlowState, advance, initial_state
from gpuyard.simulate.flow.problem import LinkShares
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.symmetry import dependency_order, symmetric_problem
from gpuyard.simulate.flow.timeline import stable_intervals
from gpuyard.simulate.network import Network
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.result import FlowOutcome
from gpuyard.simulate.traffic import FlowSet
from gpuyard.units import bytes_from_bits

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FlowResult:
    """Outcome of the flows, and how much work the simulation was."""

    outcome: FlowOutcome
    class_count: int  # flows that were simulated; every other flow is equal to one of them
    fill_count: int  # rate updates

    @property
    def time_s(self) -> float:
        """Time at which the last flow is received."""
        return self.outcome.duration_s


def simulate_flows(
    network: Network,
    traffic: FlowSet,
    settings: FlowSettings,
    faults: tuple[Fault, ...] = (),
    on_progress: OnProgress = ignore_progress,
) -> FlowResult:
    """Simulate when each flow begins and is received, and what each link carries.

    Times of flows that never end are NaN.
    """
    traffic.check(network.host_count)
    intervals = stable_intervals(network, faults)
    first = intervals[0]
    if len(intervals) == 1 and not first.lag_s.any():
        slowed = replace(network, rate_bits_per_s=first.rate_bits_per_s)
        flow_routes = live_routes(slowed, settings, first.routed)
        return _simulate_unchanging(slowed, flow_routes, traffic, settings, on_progress)
    link_bytes, fills = np.zeros(network.link_count), 0
    state: FlowState | None = None
    for interval in intervals:
        current = replace(network, rate_bits_per_s=interval.rate_bits_per_s)
        flow_routes = live_routes(current, settings, interval.routed)
        loads = _loads_where_connected(flow_routes, traffic)
        problem = build_problem(traffic, loads, settings)
        problem = problem._replace(start_s=problem.start_s + interval.lag_s[traffic.source])
        if state is None:
            dependency_order(problem)
            state = initial_state(problem)
        before = state.remaining_bytes.copy()
        fills += advance(
            problem,
            state,
            interval.begin_s,
            interval.end_s,
            settings.quantum_ratio,
            on_progress,
        )
        sent = np.maximum(before - state.remaining_bytes, 0.0)
        link_bytes += carried_bytes(loads, sent, network.link_count)
    assert state is not None, "there is at least one interval"
    return FlowResult(
        outcome=_outcome(network, traffic, state.begin_s, state.received_s, link_bytes),
        class_count=traffic.flow_count,
        fill_count=fills,
    )


def _simulate_unchanging(
    network: Network,
    flow_routes: FlowRoutes,
    traffic: FlowSet,
    settings: FlowSettings,
    on_progress: OnProgress,
) -> FlowResult:
    """Simulate on a network that never changes: symmetric flows are simulated once."""
    loads = _loads_where_connected(flow_routes, traffic)
    problem = build_problem(traffic, loads, settings)
    symmetric = symmetric_problem(problem) if settings.collapse else None
    if symmetric:
        solved = symmetric.problem
    else:
        dependency_order(problem)
        solved = problem
    state = initial_state(solved)
    fills = advance(solved, state, 0.0, np.inf, settings.quantum_ratio, on_progress)
    begin_s, received_s = state.begin_s, state.received_s
    if symmetric:
        begin_s, received_s = begin_s[symmetric.flow_class], received_s[symmetric.flow_class]
    sent = np.where(np.isfinite(received_s), wire_bytes(traffic.size_bytes, settings), 0.0)
    link_bytes = carried_bytes(loads, sent, network.link_count)
    return FlowResult(
        outcome=_outcome(network, traffic, begin_s, received_s, link_bytes),
        class_count=solved.flow_count,
        fill_count=fills,
    )


def _loads_where_connected(flow_routes: FlowRoutes, traffic: FlowSet) -> FlowLoads:
    """The links of flows; flows of a host without cables get an extra link of no capacity."""
    routes, source, target = flow_routes.routes, traffic.source, traffic.target
    wired = np.diff(routes.host_index) > 0
    inside = (routes.server[source] == routes.server[target]) & (
        (routes.scale_up[source] >= 0) & (routes.scale_up[target] >= 0)
    )
    connected = inside | (wired[source] & wired[target])
    if connected.all():
        return flow_link_shares(flow_routes, traffic)
    rows = np.flatnonzero(connected)
    part = replace(traffic, source=source[rows], target=target[rows], channel=traffic.channel[rows])
    loads = flow_link_shares(flow_routes, part)
    counts = np.ones(traffic.flow_count, dtype=np.int64)
    counts[rows] = np.diff(loads.shares.offset)
    index = np.zeros(traffic.flow_count + 1, dtype=np.int64)
    np.cumsum(counts, out=index[1:])
    dead_link = len(loads.capacity_bytes_per_s)
    link, share = np.full(index[-1], dead_link, dtype=np.int64), np.ones(index[-1])
    is_connected = np.repeat(connected, counts)
    link[is_connected], share[is_connected] = loads.shares.link, loads.shares.share
    return replace(
        loads,
        shares=LinkShares(index, link, share),
        capacity_bytes_per_s=np.append(loads.capacity_bytes_per_s, 0.0),
        member_bytes_per_s=np.append(loads.member_bytes_per_s, 1.0),
        delay_s=np.append(loads.delay_s, 0.0),
    )


def _outcome(
    network: Network, traffic: FlowSet, begin_s: Floats, received_s: Floats, link_bytes: Floats
) -> FlowOutcome:
    return FlowOutcome(
        began_s=np.where(np.isfinite(begin_s), begin_s, np.nan),
        finish_s=np.where(np.isfinite(received_s), received_s, np.nan),
        size_bytes=traffic.size_bytes,
        link_bytes=link_bytes,
        link_rate_bytes_per_s=bytes_from_bits(1.0) * network.rate_bits_per_s,
    )
