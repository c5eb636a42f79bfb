"""The packet engine from checks to results."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, check_faults
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet.build_state import PS_PER_S, build, grow_pool
from gpuyard.simulate.packet.calendar import schedule
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.network_events import Control, Storm, deadlock, plan_control
from gpuyard.simulate.packet.packet_loop import DONE, FULL, INTERRUPTED, run
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.simulate.packet.state import NEVER, NONE, PacketState, flows, host_lags
from gpuyard.simulate.progress import OnProgress, ignore_progress
from gpuyard.simulate.result import FlowOutcome
from gpuyard.simulate.routes import host_ports, routes_of
from gpuyard.simulate.traffic import FlowSet, striped
from gpuyard.units import bytes_from_bits

EVENTS_PER_CALL = 20_000_000  # between two reports of progress, about a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals of a run."""

    event_count: int
    sent_count: int  # data packets put on the wire by hosts, with those sent again
    received_count: int  # by their host, with duplicates and out-of-order packets
    dropped_count: int
    dropped_answer_count: int
    duplicate_count: int
    late_count: int  # out of order
    marked_count: int
    cnp_count: int
    pause_count: int
    go_back_count: int
    timeout_count: int
    failed_flow_count: int  # given up after too many timeouts
    in_flight_count: int  # data packets in queues and on links at the end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PacketResult:
    """Result of a packet simulation."""

    outcome: FlowOutcome
    link_pause_s: npt.NDArray[np.float64]  # how long the sender of every link was paused
    link_pause_count: npt.NDArray[np.int64]
    link_queue_peak_bytes: npt.NDArray[np.int64]
    link_held_peak_bytes: npt.NDArray[np.int64]  # most that came over it and waited in the switch
    node_peak_bytes: npt.NDArray[np.int64]  # most that was in the buffer of every switch
    counters: Counters
    storms: tuple[Storm, ...]  # reported by the watchdog
    deadlock: tuple[int, ...]  # links that wait for each other in a cycle at the end

    def __repr__(self) -> str:
        return f"<PacketResult {self.outcome!r}, {self.counters!r}>"


def simulate_packets(
    network: Network,
    traffic: FlowSet,
    settings: PacketSettings | None = None,
    faults: tuple[Fault, ...] = (),
    on_progress: OnProgress = ignore_progress,
) -> PacketResult:
    """Simulate every packet of the traffic; deterministic."""
    settings = settings or PacketSettings()
    settings.check()
    traffic.check(network.host_count)
    check_faults(network, faults)
    routes = routes_of(network, up_down=settings.up_down)
    rerouted = any(isinstance(fault, LinkDown | NodeDown) for fault in faults)
    stripes = striped(traffic, host_ports(routes))
    state = build(network, routes, stripes, settings, rerouted=rerouted)
    control = plan_control(network, settings, faults)
    state = _until_done(state, control, settings, on_progress)
    return _gathered(state, network, traffic, control)


def _until_done(
    state: PacketState, control: Control, settings: PacketSettings, on_progress: OnProgress
) -> PacketState:
    """Run the engine, stopping for every action and watchdog poll."""
    end = NEVER if settings.end_s is None else round(settings.end_s * PS_PER_S)
    poll = NEVER if settings.watchdog is None else round(settings.watchdog.poll_s * PS_PER_S)
    ahead = control.actions
    look, place = poll, 0
    while place < len(ahead) and ahead[place][0] == 0:
        state = ahead[place][2](state)
        place += 1
    _begin(state.head, len(state.flows))
    while True:
        action = ahead[place][0] if place < len(ahead) else NEVER
        until = min(end, action, look)
        state, done = _run_until(state, until, on_progress)
        if done or until in (end, NEVER):
            return state
        state.head["now"] = until
        if until == action:
            state = ahead[place][2](state)
            place += 1
        else:
            assert settings.watchdog is not None
            before = len(control.storms), len(control.calm_since)
            control.watch(settings.watchdog, state)
            look += poll
            still = (
                not state.head["near_count"][0]
                and not state.head["far_count"][0]
                and action == NEVER
            )
            if (
                still
                and (len(control.storms), len(control.calm_since)) == before
                and not _may_storm(state)
            ):
                return state


def _may_storm(state: PacketState) -> bool:
    """Whether a port is paused with packets queued, so that the watchdog may act."""
    rows = state.ports
    return bool(
        np.any(
            rows["paused"]
            & (rows["head"] != NONE)
            & (rows["from_host"] == 0)
            & (rows["dropping"] == 0)
        )
    )


def _run_until(state: PacketState, until: int, on_progress: OnProgress) -> tuple[PacketState, bool]:
    """Run the kernel, with more rows when it needs them; True if every flow is done."""
    flows = len(state.flows)
    while (code := run(state.head, until, EVENTS_PER_CALL)) in (FULL, INTERRUPTED):
        if code == FULL:
            state = grow_pool(state)
        else:
            on_progress(flows - int(state.head["unfinished"][0]), flows)
    return state, code == DONE


@jit
def _begin(head: npt.NDArray[np.void], flow_count: int) -> None:
    """Schedule the start of every flow without dependencies."""
    s: Row = head[0]
    for number in range(flow_count):
        flow = flows(s, number)
        if flow.waits == 0:
            schedule(s, s.link_count + number, flow.start + host_lags(s, flow.source).value)


def _gathered(
    state: PacketState, network: Network, traffic: FlowSet, control: Control
) -> PacketResult:
    head, rows, flow_rows = state.head[0], state.ports, state.flows
    finish_s, began_s = (
        np.where(flow_rows[name] < 0, math.nan, flow_rows[name] / PS_PER_S)
        for name in ("finish", "began")
    )
    shape = (traffic.flow_count, -1)  # the stripes of each flow
    outcome = FlowOutcome(
        began_s=np.fmin.reduce(began_s.reshape(shape), axis=1),
        finish_s=finish_s.reshape(shape).max(axis=1),
        size_bytes=traffic.size_bytes,
        link_bytes=rows["sent"].astype(np.float64),
        link_rate_bytes_per_s=network.rate_bits_per_s * bytes_from_bits(1.0),
    )
    open_pause = np.where(rows["paused"] == 1, int(head["now"]) - rows["paused_since"], 0)
    return PacketResult(
        outcome=outcome,
        link_pause_s=(rows["paused_ps"] + open_pause) / PS_PER_S,
        link_pause_count=rows["pauses"].astype(np.int64),
        link_queue_peak_bytes=rows["peak"].astype(np.int64),
        link_held_peak_bytes=rows["ingress_peak"].astype(np.int64),
        node_peak_bytes=state.nodes["peak"].copy(),
        counters=_counters(state),
        storms=tuple(control.storms),
        deadlock=deadlock(state) if outcome.unfinished_count else (),
    )


def _counters(state: PacketState) -> Counters:
    head = state.head[0]
    sent, received, dropped = int(head["sent"]), int(head["received"]), int(head["dropped"])
    return Counters(
        event_count=int(head["event_count"]),
        sent_count=sent,
        received_count=received,
        dropped_count=dropped,
        dropped_answer_count=int(head["dropped_control"]),
        duplicate_count=int(head["duplicates"]),
        late_count=int(state.flows["late"].sum()),
        marked_count=int(head["marked"]),
        cnp_count=int(head["cnps"]),
        pause_count=int(head["pauses"]),
        go_back_count=int(head["nacks"]),
        timeout_count=int(head["timeouts"]),
        failed_flow_count=int(np.count_nonzero(state.flows["done"] == 2)),
        in_flight_count=sent - received - dropped,
    )
