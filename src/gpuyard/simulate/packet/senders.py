"""Senders: NIC scheduling, windows, go-back-N and retransmission timeouts.

Idea. The flows of a NIC that have something to send form a ring; each sends one packet in turn.
With DCQCN a flow leaves the ring after a packet and returns when its rate allows (PACE).

Invariant. A flow is in the ring (`in_ring`), waits for its pacing timer (`pacing`), or has nothing
to send. An ACK, a NACK, a loss or a timer puts it back into the ring.

Source: go-back-N and the retry limit as in RoCE NICs (InfiniBand specification, volume 1, chapter
9.7): an out-of-order packet makes the receiver ask for everything from the missing one on. Sprayed
packets arrive in any order, so there a lost packet is sent again by itself.
"""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
from gpuyard.simulate.packet.calendar import return_row, schedule, take_row
from gpuyard.simulate.packet.dcqcn import rate_after
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.receivers import ACKS_CONTROL, ACKS_QUEUED
from gpuyard.simulate.packet.state import (
    DATA,
    NONE,
    PACE,
    START,
    dependent_index,
    dependents,
    events,
    flows,
    host_lags,
    ports,
)
from gpuyard.simulate.packet.switches import transmit


@jit(forceinline=True)
def has_work(s: Row, number: int) -> bool:
    """Whether a flow has a packet that its window allows, its rate not considered."""
    flow = flows(s, number)
    if flow.done:
        return False
    if flow.resend != NONE:
        return True
    return flow.next_seq < flow.packets and (
        not s.windowed or flow.next_seq - flow.acked < flow.window
    )


@jit
def join_nic_queue(s: Row, number: int) -> None:
    """Put a flow that has something to send into the ring of its NIC."""
    flow = flows(s, number)
    if flow.in_ring or flow.pacing or flow.began < 0 or not has_work(s, number):
        return
    flow.in_ring = 1
    _append_to_ring(s, number)
    port = ports(s, flow.link)
    if not port.pending and not port.paused:
        port.pending = 1
        schedule(s, flow.link, max(port.free_at, s.now))


@jit(forceinline=True)
def _append_to_ring(s: Row, number: int) -> None:
    flow = flows(s, number)
    port = ports(s, flow.link)
    flow.next = NONE
    if port.ring_head == NONE:
        port.ring_head = number
    else:
        flows(s, port.ring_tail).next = number
    port.ring_tail = number


@jit(forceinline=True)
def send_next(s: Row, link: int) -> None:
    """Send one packet of the flow whose turn it is and move the flow to the end of the ring."""
    port = ports(s, link)
    number = port.ring_head
    flow = flows(s, number)
    port.ring_head = flow.next
    if not has_work(s, number):
        flow.in_ring = 0
        return
    row = flow.resend
    if row != NONE:
        flow.resend = events(s, row).next
        seq = events(s, row).seq
    else:
        row = take_row(s)
        seq = flow.next_seq
        flow.next_seq = seq + 1
    event = events(s, row)
    event.kind = DATA
    event.flow = number
    event.seq = seq
    event.bytes = flow.last_bytes if seq == flow.packets - 1 else s.payload + s.header
    event.link = NONE
    event.hop = 0
    event.mark = 0
    event.control = 0
    size = event.bytes
    flow.sent += 1
    s.sent += 1
    transmit(s, row, link)
    _requeue(s, number, size)


@jit(forceinline=True)
def _requeue(s: Row, number: int, size: int) -> None:
    flow = flows(s, number)
    port = ports(s, flow.link)
    if s.dcqcn:
        rate = rate_after(s, number, size, port.ps_per_byte)
        ready = s.now + np.int64(size / rate)
        if ready > port.free_at:
            flow.in_ring = 0
            if has_work(s, number):
                flow.pacing = 1
                row = s.link_count + number
                events(s, row).kind = PACE
                schedule(s, row, ready)
            return
    if has_work(s, number):
        _append_to_ring(s, number)
    else:
        flow.in_ring = 0


@jit
def acknowledged(s: Row, number: int, seq: int) -> None:
    """Handle an ACK: every packet before `seq` has arrived."""
    flow = flows(s, number)
    flow.acked = max(flow.acked, seq)
    join_nic_queue(s, number)


@jit
def go_back_n(s: Row, number: int, seq: int) -> None:
    """Handle a NACK: send again from packet `seq` on."""
    flow = flows(s, number)
    flow.acked = max(flow.acked, seq)
    if seq < flow.next_seq:
        flow.next_seq = seq
    join_nic_queue(s, number)


@jit
def timed_out(s: Row, number: int) -> None:
    """Handle a retransmission timeout: send again from the first packet not known to be there."""
    flow = flows(s, number)
    flow.timed = 0
    known = (
        flow.acked
        if s.acks in (ACKS_QUEUED, ACKS_CONTROL)
        else min(flow.expected, flow.packets - 1)
    )
    if flow.done or known > flow.timeout_seq:
        return
    s.timeouts += 1
    flow.retries = flow.retries + 1 if known == flow.timeout_known else 1
    flow.timeout_known = known
    if flow.retries > s.retries:
        abort_flow(s, number)
        return
    flow.nacked = NONE
    flow.next_seq = min(flow.next_seq, known)
    join_nic_queue(s, number)


@jit
def abort_flow(s: Row, number: int) -> None:
    """Fail a flow whose retries are used up, like a queue pair; its dependents never start."""
    flows(s, number).done = 2
    s.unfinished -= 1


@jit
def release_dependents(s: Row, number: int) -> None:
    """Start the flows of which this one was the last dependency."""
    now = s.now
    for place in range(dependent_index(s, number).value, dependent_index(s, number + 1).value):
        dependent = dependents(s, place).row
        flow = flows(s, dependent)
        flow.waits -= 1
        if flow.waits == 0:
            row = s.link_count + dependent
            events(s, row).kind = START
            schedule(s, row, now + flow.start + host_lags(s, flow.source).value)


@jit
def resend_later(s: Row, row: int) -> None:
    """Queue a lost sprayed packet for its flow to send again."""
    number = events(s, row).flow
    if flows(s, number).done:
        return_row(s, row)
        return
    events(s, row).next = flows(s, number).resend
    flows(s, number).resend = row
    join_nic_queue(s, number)
