"""The event loop: flows start, are sent and are received; rates are renewed when flows under way make them change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.simulate.flow.fill import water_fill
from gpuyard.simulate.flow.problem import Problem, heirs_of

__all__ = ["State", "advance", "started"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.int8]

WAITING, TIMED, ACTIVE, SENT, DONE = 0, 1, 2, 3, 4
SAME = 1e-12  # events this close, as a share of the time, are one
SLACK = 1e-9  # rates this close, as a share, may have been held back by the same link


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class State:
    """How far each flow is; the arrays are written by `advance`."""

    phase: Bytes
    waits: Ints  # flows that it still waits for
    remaining_bytes: Floats
    due_s: Floats  # when it starts (timed) or is received (sent)
    begin_s: Floats
    sent_s: Floats
    received_s: Floats
    fills: Ints  # one number: how often rates were renewed


def started(problem: Problem) -> State:
    """All flows before the first moment."""
    flows = problem.flow_count
    waits = np.diff(problem.after_index).astype(np.int64)
    never = np.full(flows, np.inf)
    return State(
        phase=np.where(waits == 0, TIMED, WAITING).astype(np.int8),
        waits=waits,
        remaining_bytes=problem.size_bytes.astype(np.float64).copy(),
        due_s=np.where(waits == 0, problem.start_s, np.inf),
        begin_s=never.copy(),
        sent_s=never.copy(),
        received_s=never.copy(),
        fills=np.zeros(1, dtype=np.int64),
    )


def advance(problem: Problem, state: State, now_s: float, until_s: float, quantum_ratio: float) -> float:
    """Runs to `until_s` or until nothing moves any more; gives the time of the last event."""
    index, heirs = heirs_of(problem.after_index, problem.after)
    return _loop(
        now_s, until_s, max(quantum_ratio, SAME), problem.entry_index, problem.entry_link, problem.entry_weight,
        problem.capacity_bytes_per_s, problem.start_s, problem.latency_s, index, heirs, state.phase, state.waits,
        state.remaining_bytes, state.due_s, state.begin_s, state.sent_s, state.received_s, state.fills,
    )  # fmt: skip


@compiled
def _loop(
    now_s: float, until_s: float, quantum_ratio: float, entry_index: Ints, entry_link: Ints, entry_weight: Floats,
    capacity: Floats, start_s: Floats, latency_s: Floats, heir_index: Ints, heirs: Ints, phase: Bytes, waits: Ints,
    remaining: Floats, due_s: Floats, begin_s: Floats, sent_s: Floats, received_s: Floats, fills: Ints,
) -> float:  # fmt: skip
    """Two heaps: of flows that start or are received, and of flows that will be sent if rates stay as they are."""
    flows = len(phase)
    heap, ends = np.empty(flows + 1, dtype=np.int64), np.empty(flows + 1, dtype=np.int64)
    active, place, part = np.empty(flows, np.int64), np.empty(flows, np.int64), np.empty(flows, np.int64)
    rates, known_s, used, scratch = _fresh(flows, len(capacity), now_s)
    full, held = np.zeros(flows, dtype=np.int64), np.zeros(len(capacity), dtype=np.int64)
    size, under_way, ending, changed, floor, filled_s, window_s, limit_s = 0, 0, 0, True, 0.0, now_s, 0.0, -1.0
    for flow in range(flows):
        if phase[flow] == TIMED or phase[flow] == SENT:
            size = _push(heap, size, due_s, flow)
        elif phase[flow] == ACTIVE:
            under_way = _join(flow, active, place, under_way)
    while True:
        if changed:
            count = _faster(active, under_way, rates, floor, part)
            _renew(
                part, count, rates, remaining, now_s, known_s, sent_s, full, held, entry_index, entry_link,
                entry_weight, capacity, used, scratch,
            )  # fmt: skip
            fills[0] += 1
            window_s, filled_s, limit_s = 2.0 * (now_s - filled_s), now_s, -1.0
        if limit_s < np.inf and (not ending or sent_s[ends[0]] * (1.0 + quantum_ratio) >= limit_s):
            ending, limit_s = _heaped(active, under_way, sent_s, window_s, quantum_ratio, ends)
            window_s = 2.0 * window_s + SAME * now_s
        first_s, timed_s = sent_s[ends[0]] if ending else np.inf, due_s[heap[0]] if size else np.inf
        next_s = min(first_s, timed_s)
        if next_s > until_s or next_s == np.inf:
            _send(active, under_way, rates, remaining, until_s, known_s)
            return until_s if until_s < np.inf else now_s
        horizon_s = next_s * (1.0 + quantum_ratio) if first_s <= timed_s * (1.0 + SAME) else -1.0
        before, now_s, floor = under_way, next_s, np.inf
        while ending and sent_s[ends[0]] <= horizon_s:
            flow, ending = _pop(ends, ending, sent_s)
            under_way, floor = _leave(flow, active, place, under_way), min(floor, rates[flow])
            phase[flow], remaining[flow], due_s[flow] = SENT, 0.0, sent_s[flow] + latency_s[flow]
            size = _push(heap, size, due_s, flow)
        changed = _frees(active, under_way, before, full, held, rates, entry_index, entry_link, entry_weight, used)
        while size and due_s[heap[0]] <= now_s * (1.0 + SAME):
            flow, size = _pop(heap, size, due_s)
            if phase[flow] == TIMED:
                phase[flow], begin_s[flow], rates[flow], changed, floor = ACTIVE, due_s[flow], 0.0, True, 0.0
                known_s[flow], under_way = now_s, _join(flow, active, place, under_way)
            else:
                phase[flow], received_s[flow] = DONE, due_s[flow]
                size = _release(flow, heir_index, heirs, waits, phase, start_s, due_s, heap, size)


@compiled
def _fresh(flows: int, links: int, now_s: float) -> tuple[Floats, Floats, Floats, Ints]:
    """No rate known yet: rates, since when each is known, what they use of the links, and room to count in."""
    return np.zeros(flows), np.full(flows, now_s), np.zeros(links), np.zeros(links, dtype=np.int64)


@compiled
def _faster(active: Ints, count: int, rates: Floats, floor: float, part: Ints) -> int:
    """The flows whose rates may change when others of at least that rate left: those as fast; gives their number.

    The links of a flow that left were not full while all rates rose to its own, so what is slower stays as it is.
    """
    found = 0
    for a in range(count):
        if rates[active[a]] >= floor * (1.0 - SLACK):
            part[found] = active[a]
            found += 1
    return found


@compiled
def _renew(
    part: Ints, count: int, rates: Floats, remaining: Floats, now_s: float, known_s: Floats, sent_s: Floats, full: Ints,
    held: Ints, entry_index: Ints, entry_link: Ints, entry_weight: Floats, capacity: Floats, used: Floats,
    scratch: Ints,
) -> None:  # fmt: skip
    """New rates for some flows beside the others, which keep theirs; says when they will be sent at them."""
    for a in range(count):
        flow = part[a]
        remaining[flow] -= rates[flow] * (now_s - known_s[flow])
        known_s[flow] = now_s
        if rates[flow] > 0.0:
            held[full[flow]] -= 1
            _use(flow, -rates[flow], entry_index, entry_link, entry_weight, used)
    spare = np.empty(len(capacity))
    for link in range(len(capacity)):
        spare[link] = capacity[link] - used[link]
    water_fill(part, count, entry_index, entry_link, entry_weight, spare, rates, full, scratch)
    for a in range(count):
        flow = part[a]
        sent_s[flow] = np.inf
        if rates[flow] > 0.0:
            held[full[flow]] += 1
            sent_s[flow] = now_s + max(remaining[flow], 0.0) / rates[flow]
            _use(flow, rates[flow], entry_index, entry_link, entry_weight, used)


@compiled
def _use(flow: int, rate: float, entry_index: Ints, entry_link: Ints, entry_weight: Floats, used: Floats) -> None:
    """Adds a flow's rate to what is used of its links."""
    for e in range(entry_index[flow], entry_index[flow + 1]):
        used[entry_link[e]] += rate * entry_weight[e]


@compiled
def _join(flow: int, active: Ints, place: Ints, count: int) -> int:
    """Adds a flow to those under way; gives their new number."""
    active[count], place[flow] = flow, count
    return count + 1


@compiled
def _leave(flow: int, active: Ints, place: Ints, count: int) -> int:
    """Takes a flow out of those under way and puts it behind them; gives their new number."""
    last = active[count - 1]
    active[place[flow]], place[last] = last, place[flow]
    active[count - 1] = flow
    return count - 1


@compiled
def _heaped(
    active: Ints, count: int, sent_s: Floats, window_s: float, quantum_ratio: float, ends: Ints
) -> tuple[int, float]:
    """The flows that will be sent first, as a heap: those up to a while after the first; gives its size and that time.

    Rates change before most of the others are sent, so only these are put in order.
    """
    first_s, size = np.inf, 0
    for a in range(count):
        first_s = min(first_s, sent_s[active[a]])
    limit_s = (first_s + window_s) * (1.0 + quantum_ratio) * (1.0 + SAME)
    for a in range(count):
        if sent_s[active[a]] <= limit_s and sent_s[active[a]] < np.inf:
            size = _push(ends, size, sent_s, active[a])
    return size, limit_s


@compiled
def _frees(
    active: Ints, kept: int, before: int, full: Ints, held: Ints, rates: Floats, entry_index: Ints, entry_link: Ints,
    entry_weight: Floats, used: Floats,
) -> bool:  # fmt: skip
    """Whether flows that left free a link that holds others back; if none does, all rates stay max-min fair."""
    for a in range(kept, before):
        flow = active[a]
        held[full[flow]] -= 1
        _use(flow, -rates[flow], entry_index, entry_link, entry_weight, used)
    for a in range(kept, before):
        for e in range(entry_index[active[a]], entry_index[active[a] + 1]):
            if held[entry_link[e]] > 0:
                return True
    return False


@compiled
def _release(
    flow: int, heir_index: Ints, heirs: Ints, waits: Ints, phase: Bytes, start_s: Floats, due_s: Floats, heap: Ints,
    size: int,
) -> int:  # fmt: skip
    """Lets the flows go that waited for this one last; gives the new size of the heap."""
    for place in range(heir_index[flow], heir_index[flow + 1]):
        heir = heirs[place]
        waits[heir] -= 1
        if waits[heir] == 0:
            phase[heir], due_s[heir] = TIMED, due_s[flow] + start_s[heir]
            size = _push(heap, size, due_s, heir)
    return size


@compiled
def _send(active: Ints, count: int, rates: Floats, remaining: Floats, until_s: float, known_s: Floats) -> None:
    """Lets the flows under way send until then, if that ever comes."""
    if until_s < np.inf:
        for a in range(count):
            remaining[active[a]] -= rates[active[a]] * (until_s - known_s[active[a]])


@compiled
def _push(heap: Ints, size: int, key: Floats, item: int) -> int:
    """Adds an item to a heap; gives the new size. Ties are in order of number, so that runs are equal."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        other = heap[above]
        if key[other] < key[item] or (key[other] == key[item] and other < item):
            break
        heap[at] = other
        at = above
    heap[at] = item
    return size + 1


@compiled
def _pop(heap: Ints, size: int, key: Floats) -> tuple[int, int]:
    """Takes the first item out of a heap; gives it and the new size."""
    first = heap[0]
    size -= 1
    item = heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        one = heap[child]
        if child + 1 < size:
            two = heap[child + 1]
            if key[two] < key[one] or (key[two] == key[one] and two < one):
                child, one = child + 1, two
        if key[item] < key[one] or (key[item] == key[one] and item < one):
            break
        heap[at] = one
        at = child
    if size > 0:
        heap[at] = item
    return first, size
