"""What a host does with a packet that reaches it, and how a loss becomes known to the sender.

A packet on the last link has nothing more to contend for, so it is received when it is sent, at the later time.
Answers (acknowledgement, go-back, congestion notification) either travel as packets or take a fixed delay.
"""

from __future__ import annotations

from gpuyard.compiled import compiled, compiled_within
from gpuyard.simulate.packet.calendar import return_row, schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import (
    ACK,
    ACKED,
    CNP,
    DATA,
    FREED,
    LOST,
    NACK,
    NONE,
    RTO,
    events,
    flows,
    follower_index,
    reactions,
)

__all__ = ["ACKS_DELAYED", "ACKS_FINAL", "ACKS_QUEUED", "ACKS_QUICK", "deliver", "finish", "lose"]

ACKS_DELAYED = 0
ACKS_QUEUED = 1  # in the data queues
ACKS_QUICK = 2  # in a class of their own
ACKS_FINAL = 3  # the one that ends a flow in the data queues, the others delayed


@compiled_within
def deliver(s: Row, row: int, time: int) -> None:
    """A packet reaches its host at that time."""
    event = events(s, row)
    if event.kind != DATA:
        event.kind += ACKED - ACK
        schedule(s, row, time)
        return
    flow = flows(s, event.flow)
    s.received += 1
    if event.mark and s.dcqcn:
        _notify(s, event.flow, time)
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
        _answer(s, row, NACK, time)
        return
    whole = flow.expected == flow.packets and not flow.done
    if whole and not (s.finish_acked and s.acks != ACKS_DELAYED):
        finish(s, event.flow, time + (flow.ack_delay if s.finish_acked else 0))
    if s.windowed or s.acks in (ACKS_QUEUED, ACKS_QUICK) or (whole and s.acks == ACKS_FINAL):
        _answer(s, row, ACK, time)
    else:
        return_row(s, row)


@compiled
def _answer(s: Row, row: int, kind: int, time: int) -> None:
    """Makes a packet into the receiver's answer to it."""
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
    event.bytes = s.control
    event.quick = s.acks == ACKS_QUICK
    schedule(s, row, time)


@compiled
def _notify(s: Row, number: int, time: int) -> None:
    """Tells a flow's source of a mark, unless it was told of another just now."""
    reaction = reactions(s, number)
    if time - reaction.cnp_at < s.cnp_gap:
        return
    reaction.cnp_at = time
    s.cnps += 1
    row = take_row(s)
    events(s, row).flow = number
    _answer(s, row, CNP, time)


@compiled
def finish(s: Row, number: int, time: int) -> None:
    """A flow is done at that time; what waits for it is told then."""
    flow = flows(s, number)
    flow.done = 1
    flow.finish = time
    s.left -= 1
    if follower_index(s, number + 1).value > follower_index(s, number).value:
        row = take_row(s)
        events(s, row).kind = FREED
        events(s, row).flow = number
        schedule(s, row, time)


@compiled
def lose(s: Row, row: int) -> None:
    """A packet was dropped: its row becomes the timer after which its sender sends it again, or is given back."""
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
