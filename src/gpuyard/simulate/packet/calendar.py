"""Event queue: a calendar queue for near events, a heap for far ones.

Idea. Time is cut into slots of a power of two; a slot is a list of its events. Inserting is O(1);
the events of a slot are sorted when its turn comes. Events beyond the last slot wait in a heap.

Invariant. Slots before `cursor` are empty, and no event in the heap is earlier than the current
slot when a batch is loaded.

Source: R. Brown, "Calendar Queues: A Fast O(1) Priority Queue Implementation", CACM 31(10), 1988.

A slot is a list; when its turn comes its events are put in order of time (equal times: as they were
put in). Almost all events lie one transmission and one cable ahead, so what is written moves
through memory as a front.
"""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import (
    ACK,
    DATA,
    NONE,
    TX,
    back_paths,
    batch,
    events,
    far,
    near_event,
    near_port,
    paths,
    slot_pairs,
    slots,
)

FAR_SIGHT, NEAR_SIGHT = 12, 5  # slots
MOVES = 16  # an event in a batch: beyond it, insertion is slower than merging


@jit(forceinline=True)
def take_row(s: Row) -> int:
    """Return a free event row: the one freed last, or the next unused one."""
    row: int = s.free
    if row == NONE:
        row = s.fresh
        s.fresh += 1
    else:
        s.free = events(s, row).next
    return row


@jit(forceinline=True)
def return_row(s: Row, row: int) -> None:
    """Free an event row."""
    events(s, row).next = s.free
    s.free = row


@jit(forceinline=True)
def schedule(s: Row, row: int, time: int) -> None:
    """Insert an event at its time."""
    event = events(s, row)
    event.time = time
    ahead = (time >> s.shift) - s.cursor
    if ahead <= 0:
        _into_batch(s, row, time)
    elif ahead <= s.mask:
        slot = (time >> s.shift) & s.mask
        event.next = slots(s, slot).row
        slots(s, slot).row = row
        s.near_count += 1
    else:
        _into_heap(s, row, time)


@jit
def _into_batch(s: Row, row: int, time: int) -> None:
    """Insert an event into the current slot."""
    if s.batch_end == s.batch_room:  # drop those that are done
        for place in range(s.batch_next, s.batch_end):
            batch(s, place - s.batch_next).row = batch(s, place).row
        s.batch_end -= s.batch_next
        s.batch_next = 0
    place = s.batch_end
    while place > s.batch_next and events(s, batch(s, place - 1).row).time > time:
        batch(s, place).row = batch(s, place - 1).row
        place -= 1
    batch(s, place).row = row
    s.batch_end += 1


@jit
def _into_heap(s: Row, row: int, time: int) -> None:
    place = s.far_count
    s.far_count += 1
    while place > 0:
        above = (place - 1) >> 1
        if events(s, far(s, above).row).time <= time:
            break
        far(s, place).row = far(s, above).row
        place = above
    far(s, place).row = row


@jit
def _from_heap(s: Row) -> int:
    first: int = far(s, 0).row
    s.far_count -= 1
    last = far(s, s.far_count).row
    time = events(s, last).time
    place, below = 0, 1
    while below < s.far_count:
        if (
            below + 1 < s.far_count
            and events(s, far(s, below + 1).row).time < events(s, far(s, below).row).time
        ):
            below += 1
        if events(s, far(s, below).row).time >= time:
            break
        far(s, place).row = far(s, below).row
        place, below = below, 2 * below + 1
    far(s, place).row = last
    return first


@jit(forceinline=True)
def next_batch(s: Row, until: int) -> bool:
    """Load the next slot with events that begins before `until`; False if there is none."""
    if s.near_count == 0 and s.far_count == 0:
        return False
    shift, mask = s.shift, s.mask
    end = until >> shift
    far_slot = events(s, far(s, 0).row).time >> shift if s.far_count else end
    slot = s.cursor + 1
    slot = max(slot, far_slot) if s.near_count == 0 else _next_filled(s, slot, min(far_slot, end))
    if slot >= end:
        return False
    s.cursor = slot
    _look_ahead(s, slot)
    count = 0
    row = slots(s, slot & mask).row
    while row != NONE:
        batch(s, count).row = row
        count += 1
        row = events(s, row).next
    slots(s, slot & mask).row = NONE
    s.near_count -= count
    for place in range(count >> 1):  # the list was last in, first out
        other = batch(s, place).row
        batch(s, place).row = batch(s, count - 1 - place).row
        batch(s, count - 1 - place).row = other
    while s.far_count and events(s, far(s, 0).row).time >> shift <= slot:
        batch(s, count).row = _from_heap(s)
        count += 1
    s.batch_next = 0
    s.batch_end = count
    _in_order(s, count)
    return True


@jit(forceinline=True)
def _next_filled(s: Row, slot: int, end: int) -> int:
    """The first slot with events from this one on, at most `end`."""
    mask = s.mask
    while slot < end and slots(s, slot & mask).row == NONE:
        slot += 1
        while slot & 7 == 0 and slot + 8 <= end and _eight_empty(s, slot & mask):
            slot += 8
    return slot


@jit(forceinline=True)
def _eight_empty(s: Row, slot: int) -> bool:
    """Whether this slot and the seven after it are empty: NONE has every bit set."""
    pair = slot >> 1
    first = slot_pairs(s, pair).value & slot_pairs(s, pair + 1).value
    return bool(first & slot_pairs(s, pair + 2).value & slot_pairs(s, pair + 3).value == -1)


@jit(forceinline=True)
def _look_ahead(s: Row, slot: int) -> None:
    """Prefetch the events of later slots and the ports that events of nearer slots need."""
    row = slots(s, (slot + FAR_SIGHT) & s.mask).row
    if row != NONE:
        near_event(s, row)
    row = slots(s, (slot + NEAR_SIGHT) & s.mask).row
    while row != NONE:
        event = events(s, row)
        if event.kind == TX:
            near_port(s, row)
        elif event.kind == DATA and s.balance == 0:
            near_port(s, paths(s, event.flow * s.path_width + event.hop + 1).row)
        elif event.kind == ACK and s.balance == 0:
            near_port(s, back_paths(s, event.flow * s.path_width + event.hop + 1).row)
        row = event.next


@jit(forceinline=True)
def _in_order(s: Row, count: int) -> None:
    """Sort the batch by time, stably; most batches are nearly sorted."""
    left = MOVES * (count + MOVES)
    for place in range(1, count):
        row = batch(s, place).row
        time = events(s, row).time
        hole = place
        while hole > 0 and events(s, batch(s, hole - 1).row).time > time:
            batch(s, hole).row = batch(s, hole - 1).row
            hole -= 1
        batch(s, hole).row = row
        left -= place - hole
        if left < 0:
            _merge(s, count)
            return


@jit
def _merge(s: Row, count: int) -> None:
    """Sorts a long batch that is far from in order: as a list, whose runs are merged two by two."""
    for place in range(count - 1):
        events(s, batch(s, place).row).next = batch(s, place + 1).row
    events(s, batch(s, count - 1).row).next = NONE
    first, width = batch(s, 0).row, 1
    while width < count:
        first = _merge_runs(s, first, width)
        width *= 2
    for place in range(count):
        batch(s, place).row = first
        first = events(s, first).next


@jit
def _merge_runs(s: Row, one: int, width: int) -> int:
    """Merges each two neighbouring runs of a list of events; gives the first event of the list."""
    first = last = NONE
    while one != NONE:
        other, ones, others = one, 0, width
        while ones < width and other != NONE:
            ones += 1
            other = events(s, other).next
        while ones > 0 or (others > 0 and other != NONE):
            from_one = (
                others == 0
                or other == NONE
                or (ones > 0 and events(s, one).time <= events(s, other).time)
            )
            row = one if from_one else other
            if from_one:
                one = events(s, row).next
                ones -= 1
            else:
                other = events(s, row).next
                others -= 1
            if last == NONE:
                first = row
            else:
                events(s, last).next = row
            last = row
        one = other
    events(s, last).next = NONE
    return first
