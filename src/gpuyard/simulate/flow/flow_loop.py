"""Event loop of the flow engine: starts, completions, rate updates.

Idea. Between two events rates are constant, so the next event is the earliest of: a flow starts, a
flow is sent (its last byte leaves), a flow is received. Two heaps give it: `timed` holds starts and
receptions, whose times are known, `completions` holds active flows by the time at which they are
sent if rates stay as they are.

Rates change only where they must:
- a flow that was sent releases rate only to flows limited by one of its links. If no other flow
  has its bottleneck there, all rates are still max-min fair (`_releases_bottleneck`).
- in progressive filling, links of a flow of rate r are not saturated before all rates reach r. So
  when flows of rate r or more leave, slower flows keep their rates (`_flows_as_fast_as`); when a
  flow starts, all rates are computed again.

Lazy window. Most completion times change before they are reached, so `completions` holds only the
flows that are sent within a window after the first one. The window adapts: twice the time between
the last two rate updates, doubled whenever the heap runs out.

Invariant. At the top of the loop, every active flow that is sent before `limit_s` is in
`completions`, and `used_bytes_per_s` and `bottleneck_count` agree with the rates of active flows.

Source: fluid-flow simulation as in H. Casanova et al., "Versatile, Scalable, and Accurate
Simulation of Distributed Applications and Platforms" (SimGrid), JPDC 74(10), 2014; partial
updates and the lazy window are ours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate import heap
from gpuyard.simulate.flow.max_min import water_fill
from gpuyard.simulate.flow.problem import Dependents, FlowProblem, LinkShares, dependents_of
from gpuyard.simulate.progress import OnProgress, ignore_progress

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WAITING, TIMED, ACTIVE, SENT, DONE = 0, 1, 2, 3, 4
SAME_RATIO = 1e-12  # events this close, relative to the time, are simultaneous
UPDATES_WORK = 2e8  # shares of flows that rate updates visit between two reports of progress
SLACK_RATIO = 1e-9  # rates this close, relatively, may have the same bottleneck


class FlowState(NamedTuple):
    """Progress of each flow; `advance` writes the arrays."""

    phase: npt.NDArray[np.int8]
    waits: Ints  # flows that it still waits for
    remaining_bytes: Floats
    due_s: Floats  # when it starts (TIMED) or is received (SENT)
    begin_s: Floats
    sent_s: Floats
    received_s: Floats


class Allocation(NamedTuple):
    """Rates of the active flows and what they use of the links."""

    rate_bytes_per_s: Floats
    since_s: Floats  # of each flow: the time up to which `remaining_bytes` is known
    bottleneck_link: Ints  # of each flow: the link that limits it
    used_bytes_per_s: Floats  # of each link
    bottleneck_count: Ints  # of each link: flows that it limits
    member_count: Ints  # scratch of `water_fill`


class FlowLoop(NamedTuple):
    """Everything the event loop reads and writes, except the scalars, which are in a `CLOCK`."""

    problem: FlowProblem
    dependents: Dependents
    state: FlowState
    allocation: Allocation
    timed: Ints  # heap by `due_s`
    completions: Ints  # heap by `sent_s`
    active: Ints  # the active flows, then those that left at this event
    position: Ints  # of each active flow in `active`
    selected: Ints  # scratch: flows whose rates are computed again


CLOCK = np.dtype(
    [
        ("now_s", "f8"),
        ("timed_count", "i8"),
        ("completion_count", "i8"),
        ("active_count", "i8"),
        ("lowest_rate", "f8"),  # flows as fast as this need new rates; infinite if none does
        ("fill_count", "i8"),  # rate updates
        ("filled_s", "f8"),  # time of the last one
        ("window_s", "f8"),
        ("limit_s", "f8"),  # `completions` is complete up to here
    ]
)
Clock = Any  # a row of CLOCK


def initial_state(problem: FlowProblem) -> FlowState:
    """Return the state of all flows before the first event."""
    waits = np.diff(problem.after_index).astype(np.int64)
    never = np.full(problem.flow_count, np.inf)
    return FlowState(
        phase=np.where(waits == 0, TIMED, WAITING).astype(np.int8),
        waits=waits,
        remaining_bytes=problem.size_bytes.astype(np.float64).copy(),
        due_s=np.where(waits == 0, problem.start_s, np.inf),
        begin_s=never.copy(),
        sent_s=never.copy(),
        received_s=never.copy(),
    )


def advance(
    problem: FlowProblem,
    state: FlowState,
    now_s: float,
    until_s: float,
    quantum_ratio: float,
    on_progress: OnProgress = ignore_progress,
) -> int:
    """Simulate until `until_s` or until nothing more happens.

    Args:
        problem: what the flows share from now on; it may differ from that of the last call.
        state: progress of the flows, updated in place.
        now_s: start of the interval.
        until_s: end of the interval, or infinity.
        quantum_ratio: completions this close, relative to the time, are simultaneous.
        on_progress: called with the flows received and all flows, about once per second.

    Returns:
        The number of rate updates.
    """
    flows, links = problem.flow_count, len(problem.capacity_bytes_per_s)
    loop = FlowLoop(
        problem=problem,
        dependents=dependents_of(problem),
        state=state,
        allocation=Allocation(
            rate_bytes_per_s=np.zeros(flows),
            since_s=np.full(flows, now_s),
            bottleneck_link=np.zeros(flows, dtype=np.int64),
            used_bytes_per_s=np.zeros(links),
            bottleneck_count=np.zeros(links, dtype=np.int64),
            member_count=np.zeros(links, dtype=np.int64),
        ),
        timed=np.empty(flows, dtype=np.int64),
        completions=np.empty(flows, dtype=np.int64),
        active=np.empty(flows, dtype=np.int64),
        position=np.empty(flows, dtype=np.int64),
        selected=np.empty(flows, dtype=np.int64),
    )
    clock = np.zeros(1, dtype=CLOCK)[0]
    clock["now_s"] = clock["filled_s"] = now_s
    _begin(loop, clock)
    updates_per_call = max(1, int(UPDATES_WORK / (len(problem.shares.link) + 1)))
    while not _run(loop, clock, until_s, max(quantum_ratio, SAME_RATIO), updates_per_call):
        on_progress(int(np.count_nonzero(state.phase == DONE)), flows)
    return int(clock["fill_count"])


@jit(allocates=False)
def _begin(loop: FlowLoop, clock: Clock) -> None:
    state = loop.state
    for flow in range(len(state.phase)):
        if state.phase[flow] == TIMED or state.phase[flow] == SENT:
            clock.timed_count = heap.push(loop.timed, clock.timed_count, state.due_s, flow)
        elif state.phase[flow] == ACTIVE:
            _activate(loop, clock, flow)


@jit
def _run(
    loop: FlowLoop, clock: Clock, until_s: float, quantum_ratio: float, max_updates: int
) -> bool:
    """Handle events up to `until_s`; return early with False after this many rate updates."""
    state, last_fill = loop.state, clock.fill_count + max_updates
    while True:
        if clock.lowest_rate < np.inf:
            if clock.fill_count == last_fill:
                return False
            _update_rates(loop, clock)
        _extend_completions(loop, clock, quantum_ratio)
        sent_s = state.sent_s[loop.completions[0]] if clock.completion_count else np.inf
        timed_s = state.due_s[loop.timed[0]] if clock.timed_count else np.inf
        next_s = min(sent_s, timed_s)
        if next_s > until_s or next_s == np.inf:
            break
        clock.now_s, clock.lowest_rate = next_s, np.inf
        if sent_s <= timed_s * (1.0 + SAME_RATIO):
            _complete(loop, clock, next_s * (1.0 + quantum_ratio))
        _start_and_receive(loop, clock)
    if until_s < np.inf:
        rate, since_s = loop.allocation.rate_bytes_per_s, loop.allocation.since_s
        for flow in loop.active[: clock.active_count]:
            state.remaining_bytes[flow] -= rate[flow] * (until_s - since_s[flow])
    return True


@jit
def _update_rates(loop: FlowLoop, clock: Clock) -> None:
    """Compute the rates of some flows again, next to the others, and their completion times."""
    state, allocation, shares = loop.state, loop.allocation, loop.problem.shares
    rate, bottleneck = allocation.rate_bytes_per_s, allocation.bottleneck_link
    now_s, count = clock.now_s, _flows_as_fast_as(loop, clock, clock.lowest_rate)
    selected = loop.selected[:count]
    for flow in selected:
        state.remaining_bytes[flow] -= rate[flow] * (now_s - allocation.since_s[flow])
        allocation.since_s[flow] = now_s
        if rate[flow] > 0.0:
            allocation.bottleneck_count[bottleneck[flow]] -= 1
            _add_use(allocation.used_bytes_per_s, shares, flow, -rate[flow])
    spare = loop.problem.capacity_bytes_per_s - allocation.used_bytes_per_s
    water_fill(selected, shares, spare, rate, bottleneck, allocation.member_count)
    for flow in selected:
        state.sent_s[flow] = np.inf
        if rate[flow] > 0.0:
            allocation.bottleneck_count[bottleneck[flow]] += 1
            state.sent_s[flow] = now_s + max(state.remaining_bytes[flow], 0.0) / rate[flow]
            _add_use(allocation.used_bytes_per_s, shares, flow, rate[flow])
    clock.fill_count += 1
    clock.window_s = 2.0 * (now_s - clock.filled_s)
    clock.filled_s = now_s
    clock.limit_s = -1.0


@jit(allocates=False)
def _flows_as_fast_as(loop: FlowLoop, clock: Clock, lowest_rate: float) -> int:
    """Select the active flows of at least this rate; return their number."""
    count = 0
    for flow in loop.active[: clock.active_count]:
        if loop.allocation.rate_bytes_per_s[flow] >= lowest_rate * (1.0 - SLACK_RATIO):
            loop.selected[count] = flow
            count += 1
    return count


@jit(allocates=False)
def _add_use(used: Floats, shares: LinkShares, flow: int, rate: float) -> None:
    for e in range(shares.offset[flow], shares.offset[flow + 1]):
        used[shares.link[e]] += rate * shares.share[e]


@jit(forceinline=True, allocates=False)
def _extend_completions(loop: FlowLoop, clock: Clock, quantum_ratio: float) -> None:
    """Build the completion heap again if the next completion may not be in it."""
    if clock.limit_s == np.inf:
        return
    if clock.completion_count:
        first_s = loop.state.sent_s[loop.completions[0]]
        if first_s * (1.0 + quantum_ratio) < clock.limit_s:
            return
    _build_completion_heap(loop, clock, quantum_ratio)
    clock.window_s = 2.0 * clock.window_s + SAME_RATIO * clock.now_s


@jit(allocates=False)
def _build_completion_heap(loop: FlowLoop, clock: Clock, quantum_ratio: float) -> None:
    """Put the flows into the heap that are sent within the window after the first one."""
    sent_s, active = loop.state.sent_s, loop.active[: clock.active_count]
    first_s, count = np.inf, 0
    for flow in active:
        first_s = min(first_s, sent_s[flow])
    limit_s = (first_s + clock.window_s) * (1.0 + quantum_ratio) * (1.0 + SAME_RATIO)
    for flow in active:
        if sent_s[flow] <= limit_s and sent_s[flow] < np.inf:
            loop.completions[count] = flow
            count += 1
    heap.build(loop.completions, count, sent_s)
    clock.completion_count, clock.limit_s = count, limit_s


@jit(allocates=False)
def _complete(loop: FlowLoop, clock: Clock, horizon_s: float) -> None:
    """Complete the flows that are sent up to a time, and find out which rates that changes."""
    state, completions = loop.state, loop.completions
    active_before, lowest_rate = clock.active_count, np.inf
    while clock.completion_count and state.sent_s[completions[0]] <= horizon_s:
        flow = completions[0]
        clock.completion_count = heap.pop(completions, clock.completion_count, state.sent_s)
        _deactivate(loop, clock, flow)
        lowest_rate = min(lowest_rate, loop.allocation.rate_bytes_per_s[flow])
        state.phase[flow] = SENT
        state.remaining_bytes[flow] = 0.0
        state.due_s[flow] = state.sent_s[flow] + loop.problem.latency_s[flow]
        clock.timed_count = heap.push(loop.timed, clock.timed_count, state.due_s, flow)
    sent = loop.active[clock.active_count : active_before]
    if _releases_bottleneck(loop.allocation, loop.problem.shares, sent):
        clock.lowest_rate = lowest_rate


@jit(allocates=False)
def _releases_bottleneck(allocation: Allocation, shares: LinkShares, sent: Ints) -> bool:
    """Release the rates of sent flows; return whether another flow has its bottleneck there."""
    for flow in sent:
        allocation.bottleneck_count[allocation.bottleneck_link[flow]] -= 1
        _add_use(allocation.used_bytes_per_s, shares, flow, -allocation.rate_bytes_per_s[flow])
    for flow in sent:
        for e in range(shares.offset[flow], shares.offset[flow + 1]):
            if allocation.bottleneck_count[shares.link[e]] > 0:
                return True
    return False


@jit(allocates=False)
def _start_and_receive(loop: FlowLoop, clock: Clock) -> None:
    """Start flows and receive flows whose time has come; release the dependents of the latter."""
    state, due_s = loop.state, loop.state.due_s
    while clock.timed_count and due_s[loop.timed[0]] <= clock.now_s * (1.0 + SAME_RATIO):
        flow = loop.timed[0]
        clock.timed_count = heap.pop(loop.timed, clock.timed_count, due_s)
        if state.phase[flow] == TIMED:
            state.phase[flow], state.begin_s[flow] = ACTIVE, due_s[flow]
            loop.allocation.rate_bytes_per_s[flow] = 0.0
            loop.allocation.since_s[flow] = clock.now_s
            _activate(loop, clock, flow)
            clock.lowest_rate = 0.0
        else:
            state.phase[flow], state.received_s[flow] = DONE, due_s[flow]
            _release_dependents(loop, clock, flow)


@jit(allocates=False)
def _release_dependents(loop: FlowLoop, clock: Clock, flow: int) -> None:
    state, dependents = loop.state, loop.dependents
    for dependent in dependents.flow[dependents.offset[flow] : dependents.offset[flow + 1]]:
        state.waits[dependent] -= 1
        if state.waits[dependent] == 0:
            state.phase[dependent] = TIMED
            state.due_s[dependent] = state.due_s[flow] + loop.problem.start_s[dependent]
            clock.timed_count = heap.push(loop.timed, clock.timed_count, state.due_s, dependent)


@jit(forceinline=True, allocates=False)
def _activate(loop: FlowLoop, clock: Clock, flow: int) -> None:
    loop.active[clock.active_count] = flow
    loop.position[flow] = clock.active_count
    clock.active_count += 1


@jit(forceinline=True, allocates=False)
def _deactivate(loop: FlowLoop, clock: Clock, flow: int) -> None:
    """Swap a flow with the last active one, so that it comes right after the active ones."""
    clock.active_count -= 1
    last, place = loop.active[clock.active_count], loop.position[flow]
    loop.active[place], loop.position[last] = last, place
    loop.active[clock.active_count] = flow
