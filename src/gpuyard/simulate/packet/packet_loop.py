"""Event loop of the packet engine.

Idea. One event per packet and hop: a packet is scheduled at the far end of its link, and a link's
own row is scheduled when the link may send its next packet. Ports send control packets first, then
queued data in FIFO order, then (hosts) the next flow of the NIC's ring.

Invariant. Events are handled in order of time, and an event schedules only at or after `now`.

Source: the same model as csg-htsim's RoCE with lossless input queues; tests compare the two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.jit import jit
from gpuyard.simulate.packet.calendar import next_batch, return_row, schedule
from gpuyard.simulate.packet.dcqcn import cut_rate
from gpuyard.simulate.packet.ecn import mark
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.pfc import handle_pfc, release
from gpuyard.simulate.packet.receivers import finish
from gpuyard.simulate.packet.senders import (
    acknowledged,
    go_back_n,
    join_nic_queue,
    release_dependents,
    resend_later,
    send_next,
    timed_out,
)
from gpuyard.simulate.packet.state import (
    ACKED,
    CNP,
    CNPED,
    DATA,
    LOST,
    NACKED,
    NONE,
    PACE,
    PAUSE,
    RELEASED,
    RESUME,
    RTO,
    START,
    TX,
    batch,
    events,
    flows,
    near_event,
    ports,
)
from gpuyard.simulate.packet.switches import enqueue, forward, transmit

DONE = 0  # every flow is finished
QUIET = 1  # no event is left before the given time
FULL = 2  # the pool of event rows has to grow
INTERRUPTED = 3  # the given number of events is handled


@jit
def run(head: npt.NDArray[np.void], until: int, max_events: int) -> int:
    """Handle events until all flows are done, `until` is reached, or no event row is free."""
    s: Row = head[0]
    last_event = s.event_count + max_events
    while s.unfinished > 0:
        if s.batch_next == s.batch_end:
            if s.event_count >= last_event:
                return INTERRUPTED
            if not next_batch(s, until):
                return QUIET
        if s.fresh > s.last_fresh:
            return FULL
        row = batch(s, s.batch_next).row
        s.batch_next += 1
        s.now = events(s, row).time
        s.event_count += 1
        kind = events(s, row).kind
        if kind == TX:
            _serve_port(s, row)
        elif kind == DATA:
            forward(s, row)
        else:
            _handle_other(s, row, kind)
    return DONE


@jit(forceinline=True)
def _serve_port(s: Row, link: int) -> None:
    # The link is free: send, and come back when it is free again.
    port = ports(s, link)
    port.pending = 0
    if port.free_at <= s.now:  # else the host sent a reply in between
        _send_burst(s, link)
    ready = not (port.paused or port.down) and (port.head != NONE or port.ring_head != NONE)
    if ready or port.control_head != NONE:
        port.pending = 1
        schedule(s, link, max(port.free_at, s.now))


@jit(forceinline=True)
def _send_burst(s: Row, link: int) -> None:
    # Several packets in one event: none of them is sent later than a pause that is not yet on
    # its way could arrive (the cable's delay), so pauses still act in time.
    port = ports(s, link)
    earliest_pause = s.now + port.delay + s.pause_delay
    for count in range(s.burst):
        if count > 0 and (port.free_at >= earliest_pause or port.pauses_in_flight > 0):
            return
        if port.control_head != NONE:
            row = port.control_head
            port.control_head = events(s, row).next
            _send_queued(s, row, link)
        elif port.paused or port.down:
            return
        elif port.head != NONE:
            row = port.head
            port.head = events(s, row).next
            if port.head != NONE:
                near_event(s, port.head)
            port.queued -= events(s, row).bytes
            if s.ecn:
                mark(s, row, link)
            _send_queued(s, row, link)
        elif port.ring_head != NONE and (count == 0 or not s.dcqcn):
            send_next(s, link)
        else:
            return


@jit(forceinline=True)
def _send_queued(s: Row, row: int, link: int) -> None:
    event = events(s, row)
    if event.link != NONE and not event.control:
        release(s, event.bytes, event.link)
    event.link = NONE  # received completely: cut-through does not apply
    transmit(s, row, link)


@jit
def _handle_other(s: Row, row: int, kind: int) -> None:
    if kind <= CNP and kind > DATA:
        if events(s, row).link == NONE:
            _send_reply(s, row)
        else:
            forward(s, row)
    elif kind in (PAUSE, RESUME):
        handle_pfc(s, events(s, row).link, kind)
        return_row(s, row)
    elif kind in (START, PACE):
        _flow_ready(s, row, kind)
    elif kind == LOST:
        resend_later(s, row)
    else:
        _source_notified(s, events(s, row).flow, events(s, row).seq, kind)
        return_row(s, row)


@jit
def _flow_ready(s: Row, row: int, kind: int) -> None:
    number = row - s.link_count
    if kind == START:
        flows(s, number).began = s.now
    else:
        flows(s, number).pacing = 0
    join_nic_queue(s, number)


@jit
def _source_notified(s: Row, number: int, seq: int, kind: int) -> None:
    if kind == ACKED:
        flow = flows(s, number)
        if seq == flow.packets and not flow.done:
            finish(s, number, s.now)
        acknowledged(s, number, seq)
    elif kind == NACKED:
        go_back_n(s, number, seq)
    elif kind == CNPED:
        cut_rate(s, number)
    elif kind == RTO:
        timed_out(s, number)
    elif kind == RELEASED:
        release_dependents(s, number)


@jit
def _send_reply(s: Row, row: int) -> None:
    # A host sends a reply before its data.
    event = events(s, row)
    out = flows(s, event.flow).back_link
    port = ports(s, out)
    idle = port.free_at <= s.now and port.head == NONE and port.control_head == NONE
    if idle and not port.paused:
        transmit(s, row, out)
    else:
        enqueue(s, row, NONE, out)
