"""The loop: takes events in order of time and gives each to what it concerns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled, compiled_within
from gpuyard.simulate.packet.calendar import next_batch, return_row, schedule
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.receivers import finish
from gpuyard.simulate.packet.senders import (
    acknowledged,
    cut_rate,
    free_followers,
    go_back,
    join_ring,
    resend_later,
    send_next,
    timed_out,
)  # fmt: skip
from gpuyard.simulate.packet.state import (
    ACKED,
    CNP,
    CNPED,
    DATA,
    FREED,
    LOST,
    NACKED,
    NONE,
    PACE,
    PAUSE,
    RESUME,
    RTO,
    START,
    TX,
    batch,
    events,
    flows,
    lines,
    near_event,
)
from gpuyard.simulate.packet.switches import enqueue, forward, mark, release, transmit

__all__ = ["DONE", "FULL", "QUIET", "obey", "run"]

DONE = 0  # every flow is finished
QUIET = 1  # nothing is left to happen before the time given
FULL = 2  # the pool of rows has to grow


@compiled
def run(head: npt.NDArray[np.void], until: int) -> int:
    """Works off events until the flows are done, the time has come, or there is no row to spare."""
    s: Row = head[0]
    while s.left > 0:
        if s.batch_next == s.batch_end and not next_batch(s, until):
            return QUIET
        if s.fresh > s.last_fresh:
            return FULL
        row = batch(s, s.batch_next).row
        s.batch_next += 1
        s.now = events(s, row).time
        s.event_count += 1
        kind = events(s, row).kind
        if kind == TX:
            serve(s, row)
        elif kind == DATA:
            forward(s, row)
        else:
            _rarer(s, row, kind)
    return DONE


@compiled_within
def serve(s: Row, link: int) -> None:
    """A link is free: it sends what comes next."""
    line = lines(s, link)
    line.pending = 0
    if line.free_at <= s.now:  # else an answer of the host came in between
        _send_burst(s, link)
    ready = not (line.paused or line.down) and (line.head != NONE or line.ring_head != NONE)
    if ready or line.quick_head != NONE:
        line.pending = 1
        schedule(s, link, max(line.free_at, s.now))


@compiled_within
def _send_burst(s: Row, link: int) -> None:
    """Sends a packet, and some more while no pause can come in between: one on its way takes the cable's delay."""
    line = lines(s, link)
    known = s.now + line.delay + s.pause_delay
    for count in range(s.burst):
        if count > 0 and (line.free_at >= known or line.pauses_due > 0):
            return
        if line.quick_head != NONE:
            row = line.quick_head
            line.quick_head = events(s, row).next
            _send_queued(s, row, link)
        elif line.paused or line.down:
            return
        elif line.head != NONE:
            row = line.head
            line.head = events(s, row).next
            if line.head != NONE:
                near_event(s, line.head)
            line.queued -= events(s, row).bytes
            if s.ecn:
                mark(s, row, link)
            _send_queued(s, row, link)
        elif line.ring_head != NONE and (count == 0 or not s.dcqcn):
            send_next(s, link)
        else:
            return


@compiled_within
def _send_queued(s: Row, row: int, link: int) -> None:
    """Takes a packet out of the buffer and sends it."""
    event = events(s, row)
    if event.link != NONE and not event.quick:
        release(s, event.bytes, event.link)
    event.link = NONE  # all of it is here
    transmit(s, row, link)


@compiled
def _rarer(s: Row, row: int, kind: int) -> None:
    """Everything but data and transmission."""
    if kind <= CNP and kind > DATA:
        if events(s, row).link == NONE:
            _emit(s, row)
        else:
            forward(s, row)
    elif kind in (PAUSE, RESUME):
        obey(s, events(s, row).link, kind)
        return_row(s, row)
    elif kind in (START, PACE):
        _turn(s, row, kind)
    elif kind == LOST:
        resend_later(s, row)
    else:
        _told(s, events(s, row).flow, events(s, row).seq, kind)
        return_row(s, row)


@compiled
def _turn(s: Row, row: int, kind: int) -> None:
    """A flow starts or may go on."""
    number = row - s.line_count
    if kind == START:
        flows(s, number).began = s.now
    else:
        flows(s, number).pacing = 0
    join_ring(s, number)


@compiled
def _told(s: Row, number: int, seq: int, kind: int) -> None:
    """The source of a flow learns something."""
    if kind == ACKED:
        flow = flows(s, number)
        if seq == flow.packets and not flow.done:
            finish(s, number, s.now)
        acknowledged(s, number, seq)
    elif kind == NACKED:
        go_back(s, number, seq)
    elif kind == CNPED:
        cut_rate(s, number)
    elif kind == RTO:
        timed_out(s, number)
    elif kind == FREED:
        free_followers(s, number)


@compiled
def _emit(s: Row, row: int) -> None:
    """A host sends an answer, before its data."""
    event = events(s, row)
    out = flows(s, event.flow).back_link
    line = lines(s, out)
    idle = line.free_at <= s.now and line.head == NONE and line.quick_head == NONE
    if idle and not line.paused:
        transmit(s, row, out)
    else:
        enqueue(s, row, NONE, out)


@compiled
def obey(s: Row, link: int, kind: int) -> None:
    """The sender of a link stops or goes on."""
    line = lines(s, link)
    if kind == PAUSE and not line.paused:
        line.paused = 1
        line.pauses_due -= line.pauses_due > 0
        line.paused_since = s.now
        line.pauses += 1
        s.pauses += 1
    elif kind == RESUME and line.paused:
        line.paused = 0
        line.paused_ps += s.now - line.paused_since
        if not line.pending and (line.head != NONE or line.ring_head != NONE):
            line.pending = 1
            schedule(s, link, max(line.free_at, s.now))
