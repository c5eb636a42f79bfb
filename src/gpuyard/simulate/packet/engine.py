"""The packet engine from end to end: checks, builds, runs between the actions of the network, and gathers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.simulate.faults import Fault, LinkDown, NodeDown, check_faults
from gpuyard.simulate.network import Network
from gpuyard.simulate.packet.build import PS_PER_S, build, grown
from gpuyard.simulate.packet.calendar import schedule
from gpuyard.simulate.packet.control import Control, Storm, deadlock, plan_control
from gpuyard.simulate.packet.kernel import DONE, FULL, run
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.settings import PacketSettings
from gpuyard.simulate.packet.state import NEVER, NONE, State, flows, lags
from gpuyard.simulate.result import Outcome
from gpuyard.simulate.routes import routes_of
from gpuyard.simulate.traffic import Traffic
from gpuyard.units import bytes_from_bits

__all__ = ["Counters", "PacketResult", "simulate_packets"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What was counted over the whole run."""

    event_count: int
    sent_count: int  # data packets put on the wire by hosts, with those sent again
    received_count: int  # data packets that reached their host, with duplicates and those out of order
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
    """What a packet simulation gives."""

    outcome: Outcome
    link_pause_s: npt.NDArray[np.float64]  # how long the sender of every link was paused
    link_pause_count: npt.NDArray[np.int64]
    link_queue_peak_bytes: npt.NDArray[np.int64]
    link_held_peak_bytes: npt.NDArray[np.int64]  # most that came over it and waited in the switch
    link_mark_count: npt.NDArray[np.int64]
    link_drop_count: npt.NDArray[np.int64]
    node_peak_bytes: npt.NDArray[np.int64]  # most that was in the buffer of every switch
    counters: Counters
    storms: tuple[Storm, ...]  # what the watchdog found
    deadlock: tuple[int, ...]  # links that wait for each other in a circle at the end

    def __repr__(self) -> str:
        return f"<PacketResult {self.outcome!r}, {self.counters!r}>"


def simulate_packets(
    network: Network,
    traffic: Traffic,
    settings: PacketSettings | None = None,
    faults: tuple[Fault, ...] = (),
) -> PacketResult:
    """What happens to every packet of the traffic on the network; the same input gives the same result."""
    settings = settings or PacketSettings()
    settings.check()
    traffic.check(network.host_count)
    check_faults(network, faults)
    routes = routes_of(network, up_down=settings.up_down)
    rerouted = any(isinstance(fault, LinkDown | NodeDown) for fault in faults)
    state = build(network, routes, traffic, settings, rerouted=rerouted)
    control = plan_control(network, settings, faults)
    state = _until_done(state, control, settings)
    return _gathered(state, network, traffic, control)


def _until_done(state: State, control: Control, settings: PacketSettings) -> State:
    """Runs the engine, stopping for every action and every look of the watchdog."""
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
        state, done = _run_until(state, until)
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
            still = not state.head["waiting"][0] and not state.head["far_count"][0] and action == NEVER
            if still and (len(control.storms), len(control.calm_since)) == before and not _may_storm(state):
                return state


def _may_storm(state: State) -> bool:
    """True if a port is paused with something to send, so that the watchdog will act."""
    rows = state.lines
    return bool(np.any(rows["paused"] & (rows["head"] != NONE) & (rows["from_host"] == 0) & (rows["dropping"] == 0)))


def _run_until(state: State, until: int) -> tuple[State, bool]:
    """Runs the kernel, giving it more rows as it asks; True if every flow is done."""
    code = run(state.head, until)
    while code == FULL:
        state = grown(state)
        code = run(state.head, until)
    return state, code == DONE


@compiled
def _begin(head: npt.NDArray[np.void], flow_count: int) -> None:
    """Plans the start of every flow that waits for none."""
    s: Row = head[0]
    for number in range(flow_count):
        flow = flows(s, number)
        if flow.waits == 0:
            schedule(s, s.line_count + number, flow.start + lags(s, flow.source).value)


def _gathered(state: State, network: Network, traffic: Traffic, control: Control) -> PacketResult:
    """The result."""
    head, rows, flow_rows = state.head[0], state.lines, state.flows
    finish = flow_rows["finish"].astype(np.float64)
    finish[flow_rows["finish"] < 0] = math.nan
    began = flow_rows["began"].astype(np.float64)
    began[flow_rows["began"] < 0] = math.nan
    outcome = Outcome(
        began_s=began / PS_PER_S,
        finish_s=finish / PS_PER_S,
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
        link_held_peak_bytes=rows["held_peak"].astype(np.int64),
        link_mark_count=rows["marks"].astype(np.int64),
        link_drop_count=rows["drops"].astype(np.int64),
        node_peak_bytes=state.nodes["peak"].copy(),
        counters=_counters(state),
        storms=tuple(control.storms),
        deadlock=deadlock(state) if outcome.unfinished_count else (),
    )


def _counters(state: State) -> Counters:
    """The tallies of the head."""
    head = state.head[0]
    sent, received, dropped = int(head["sent"]), int(head["received"]), int(head["dropped"])
    return Counters(
        event_count=int(head["event_count"]),
        sent_count=sent,
        received_count=received,
        dropped_count=dropped,
        dropped_answer_count=int(head["dropped_quick"]),
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
