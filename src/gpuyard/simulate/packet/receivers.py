"""Receivers: packet arrival, ACKs, NACKs, CNPs, and what a loss leads to.

Idea. A packet on the last link has nothing more to contend for, so it is received when it is sent,
with the later time. Replies (ACK, NACK for go-back-N, CNP for DCQCN) either travel as packets or
take a fixed delay; then the event is scheduled with the kind ACKED, NACKED or CNPED.

Invariant. Every received, dropped or answered packet gives its event row back or reuses it, so the
pool holds exactly the packets, replies and timers that are under way.
"""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.packet.calendar import return_row, schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import (
    ACK,
    ACKED,
    CNP,
    DATA,
    LOST,
    NACK,
    NONE,
    RELEASED,
    RTO,
    dependent_index,
    events,
    flows,
    reactions,
)

ACKS_DELAYED = 0
ACKS_QUEUED = 1  # packets in the data queues
ACKS_CONTROL = 2  # packets in the control class
ACKS_FINAL = 3  # the ACK that ends a flow is a packet in the data queues, the others are delayed


@jit(forceinline=True)
def deliver(s: Row, row: int, time: int) -> None:
    """Receive a packet at its host at a time that is still to come."""
    event = events(s, row)
    if event.kind != DATA:
        event.kind += ACKED - ACK
        schedule(s, row, time)
        return
    flow = flows(s, event.flow)
    s.received += 1
    if event.mark and s.dcqcn:
        _send_cnp(s, event.flow, time)
    if not s.ordered:
        flow.expected += 1
        flow.late += event.seq < flow.highest
        flow.highest = max(flow.highest, event.seq)
    elif event.seq == flow.expected:
        flow.expected += 1
    elif event.seq < flow.expected:
        s.duplicates += 1
    else:
        flow.late += 1
        if flow.nacked == flow.expected:
            return_row(s, row)
            return
        flow.nacked = flow.expected
        s.nacks += 1
        _reply(s, row, NACK, time)
        return
    complete = flow.expected == flow.packets and not flow.done
    if complete and not (s.finish_acked and s.acks != ACKS_DELAYED):
        finish(s, event.flow, time + (flow.ack_delay if s.finish_acked else 0))
    if s.windowed or s.acks in (ACKS_QUEUED, ACKS_CONTROL) or (complete and s.acks == ACKS_FINAL):
        _reply(s, row, ACK, time)
    else:
        return_row(s, row)


@jit
def _reply(s: Row, row: int, kind: int, time: int) -> None:
    # The row of the packet becomes the reply to it.
    event = events(s, row)
    flow = flows(s, event.flow)
    event.seq = flow.expected
    final = kind == ACK and flow.expected == flow.packets
    if s.acks == ACKS_DELAYED or (s.acks == ACKS_FINAL and not final):
        event.kind = kind + ACKED - ACK
        schedule(s, row, time + flow.ack_delay)
        return
    event.kind = kind
    event.link = NONE  # it is sent by the host when its time comes
    event.hop = 0
    event.mark = 0
    event.bytes = s.ack_bytes
    event.control = s.acks == ACKS_CONTROL
    schedule(s, row, time)


@jit
def _send_cnp(s: Row, number: int, time: int) -> None:
    reaction = reactions(s, number)
    if time - reaction.cnp_at < s.cnp_interval:
        return
    reaction.cnp_at = time
    s.cnps += 1
    row = take_row(s)
    events(s, row).flow = number
    _reply(s, row, CNP, time)


@jit
def finish(s: Row, number: int, time: int) -> None:
    """Complete a flow at that time and schedule the release of its dependents."""
    flow = flows(s, number)
    flow.done = 1
    flow.finish = time
    s.unfinished -= 1
    if dependent_index(s, number + 1).value > dependent_index(s, number).value:
        row = take_row(s)
        events(s, row).kind = RELEASED
        events(s, row).flow = number
        schedule(s, row, time)


@jit
def handle_loss(s: Row, row: int) -> None:
    """Turn a dropped packet's row into the retransmission timer of its flow, or free it."""
    event = events(s, row)
    flow = flows(s, event.flow)
    if event.kind == CNP or flow.done:
        return_row(s, row)
    elif event.kind == DATA and not s.ordered:
        event.kind = LOST
        schedule(s, row, s.now + s.rto)
    else:
        flow.timeout_seq = max(flow.timeout_seq, event.seq - (event.kind == ACK))
        if flow.timed:
            return_row(s, row)
            return
        flow.timed = 1
        event.kind = RTO
        schedule(s, row, s.now + s.rto)
