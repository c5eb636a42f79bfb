"""What a switch does with a packet: admits it to the shared buffer, pauses its sender, queues, marks and sends it.

Admission and PFC are those of ns-3's SwitchMmu: bytes are counted against the link they came over; up to the
threshold (static, or alpha × what is free) they are in the shared pool, beyond it in that link's headroom, and what
finds no headroom is dropped. A packet that finds its way out idle is never counted, since it does not stay.
"""

from __future__ import annotations

import numpy as np

from gpuyard.compiled import compiled, compiled_within
from gpuyard.simulate.packet.balance import FIXED, draw, onward_link
from gpuyard.simulate.packet.calendar import schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.receivers import deliver, lose
from gpuyard.simulate.packet.state import DATA, NONE, PAUSE, RESUME, back_paths, events, lines, nodes, paths

__all__ = ["drop", "enqueue", "forward", "mark", "release", "tell_sender", "transmit"]


@compiled_within
def forward(s: Row, row: int) -> None:
    """A packet has come over a link to a switch."""
    event = events(s, row)
    link = event.link
    event.hop += 1
    if s.balance == FIXED:  # nothing fails
        out = _next_of_path(s, event.flow, event.hop, event.kind)
    else:
        out = NONE if lines(s, link).down else onward_link(s, row, lines(s, link).to)
        if out == NONE:
            drop(s, row, link)
            return
    line = lines(s, out)
    idle = line.free_at <= s.now and line.head == NONE and line.quick_head == NONE
    if idle and not (line.paused or line.down or line.dropping):
        transmit(s, row, out)
    else:
        enqueue(s, row, link, out)


@compiled_within
def _next_of_path(s: Row, number: int, hop: int, kind: int) -> int:
    """The link that comes so many links into a flow's path, there or back."""
    place = number * s.path_width + hop
    link: int = paths(s, place).row if kind == DATA else back_paths(s, place).row
    return link


@compiled_within
def transmit(s: Row, row: int, out: int) -> None:
    """Puts a packet on a link, now or when what was put on it before is through."""
    event, line = events(s, row), lines(s, out)
    start = max(s.now, line.free_at)
    taken = np.int64(event.bytes * line.ps_per_byte + 0.5)
    wait = taken
    if s.cut_through:
        if event.link != NONE:  # a faster link may not run ahead of a slower one
            lag = np.int64(event.bytes * (lines(s, event.link).ps_per_byte - line.ps_per_byte))
            taken += max(np.int64(0), lag)
        wait = taken if line.to_host else np.int64(s.header * line.ps_per_byte)
    line.free_at = start + taken
    line.sent += event.bytes
    event.link = out
    if line.to_host:
        deliver(s, row, start + taken + line.delay)
    else:
        schedule(s, row, start + wait + line.delay)


@compiled_within
def enqueue(s: Row, row: int, link: int, out: int) -> None:
    """A packet finds its way out busy."""
    event, line = events(s, row), lines(s, out)
    counted = link != NONE and not event.quick
    if line.dropping or line.down or (counted and not _admit(s, event.bytes, link, out)):
        drop(s, row, out)
        return
    event.next = NONE
    if event.quick:
        if line.quick_head == NONE:
            line.quick_head = row
        else:
            events(s, line.quick_tail).next = row
        line.quick_tail = row
    else:
        if line.head == NONE:
            line.head = row
        else:
            events(s, line.tail).next = row
        line.tail = row
        line.queued += event.bytes
        line.peak = max(line.peak, line.queued)
    if not line.pending and (event.quick or not line.paused):
        line.pending = 1
        schedule(s, out, max(line.free_at, s.now))


@compiled_within
def _admit(s: Row, count: int, link: int, out: int) -> bool:
    """Takes bytes into the shared buffer, and pauses their sender if that is due; False if they must be dropped."""
    line = lines(s, link)
    node = nodes(s, line.to)
    if node.total + count > node.limit:
        return False
    limit = s.xoff
    if s.dynamic:
        limit = np.int64(s.alpha * (s.pool - node.used))
    if not s.lossless:
        if lines(s, out).queued + count > limit:
            return False
        line.held += count
        node.used += count
    elif line.held + count > limit:
        fits = line.over + count <= line.room
        if not line.xoff and (fits or line.held > 0):
            tell_sender(s, link, PAUSE)
        if not fits:
            return False
        line.over += count
    else:
        line.held += count
        node.used += count
    node.total += count
    node.peak = max(node.peak, node.total)
    line.held_peak = max(line.held_peak, line.held + line.over)
    return True


@compiled_within
def release(s: Row, count: int, link: int) -> None:
    """Bytes leave the shared buffer; their sender may go on if that is due."""
    line = lines(s, link)
    node = nodes(s, line.to)
    extra = min(line.over, count)
    line.over -= extra
    line.held -= count - extra
    node.used -= count - extra
    node.total -= count
    if line.xoff and line.over == 0:
        limit = s.xoff
        if s.dynamic:
            limit = np.int64(s.alpha * (s.pool - node.used))
        if line.held + s.gap < limit or line.held == 0:
            tell_sender(s, link, RESUME)


@compiled
def tell_sender(s: Row, link: int, kind: int) -> None:
    """Sends a PFC frame against a link; it takes the cable's delay."""
    line = lines(s, link)
    line.xoff = kind == PAUSE
    line.pauses_due += kind == PAUSE
    row = take_row(s)
    event = events(s, row)
    event.kind = kind
    event.link = link
    schedule(s, row, s.now + line.delay + s.pause_delay)


@compiled
def mark(s: Row, row: int, out: int) -> None:
    """Marks a packet that leaves a queue, the more likely the longer the queue that it leaves behind."""
    event, line = events(s, row), lines(s, out)
    if line.queued <= s.kmin or event.kind != DATA:
        return
    chance = 1.0
    if line.queued < s.kmax:
        chance = s.pmax * (line.queued - s.kmin) / (s.kmax - s.kmin)
    if draw(s, event.flow, event.seq, ~out) < chance * 4294967296.0:
        s.marked += 1 - event.mark
        line.marks += 1
        event.mark = 1


@compiled
def drop(s: Row, row: int, where: int) -> None:
    """A packet is lost; its sender finds out in its own way."""
    event = events(s, row)
    lines(s, where).drops += 1
    if event.kind == DATA:
        s.dropped += 1
    else:
        s.dropped_quick += 1
    lose(s, row)
