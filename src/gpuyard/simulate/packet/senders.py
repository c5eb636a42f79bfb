"""How hosts send: flows take turns at their NIC, at line rate, within a window, or at the rate that DCQCN allows.

DCQCN is that of Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 5: a cut
for a notification, then recovery by a timer and a byte counter. Its timers are evaluated when a flow is looked at,
which gives the same rates as ticking them, and costs nothing for flows that are idle.
"""

from __future__ import annotations

import numpy as np

from gpuyard.compiled import compiled, compiled_within
from gpuyard.simulate.packet.calendar import return_row, schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.receivers import ACKS_QUEUED, ACKS_QUICK
from gpuyard.simulate.packet.state import (
    DATA,
    NONE,
    PACE,
    START,
    events,
    flows,
    follower_index,
    followers,
    lags,
    lines,
    reactions,
)
from gpuyard.simulate.packet.switches import transmit

__all__ = [
    "acknowledged", "cut_rate", "free_followers", "go_back", "join_ring", "rate_after", "resend_later", "send_next",
    "timed_out",
]  # fmt: skip


@compiled_within
def has_work(s: Row, number: int) -> bool:
    """True if a flow has a packet that it may send, rate aside."""
    flow = flows(s, number)
    if flow.done:
        return False
    if flow.resend != NONE:
        return True
    return flow.next_seq < flow.packets and (not s.windowed or flow.next_seq - flow.acked < flow.window)


@compiled
def join_ring(s: Row, number: int) -> None:
    """A flow with something to send lines up at its NIC."""
    flow = flows(s, number)
    if flow.in_ring or flow.pacing or flow.began < 0 or not has_work(s, number):
        return
    flow.in_ring = 1
    _append(s, number)
    line = lines(s, flow.link)
    if not line.pending and not line.paused:
        line.pending = 1
        schedule(s, flow.link, max(line.free_at, s.now))


@compiled_within
def _append(s: Row, number: int) -> None:
    """Puts a flow at the end of its ring."""
    flow = flows(s, number)
    line = lines(s, flow.link)
    flow.next = NONE
    if line.ring_head == NONE:
        line.ring_head = number
    else:
        flows(s, line.ring_tail).next = number
    line.ring_tail = number


@compiled_within
def send_next(s: Row, link: int) -> None:
    """The flow whose turn it is sends one packet and lines up again."""
    line = lines(s, link)
    number = line.ring_head
    flow = flows(s, number)
    line.ring_head = flow.next
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
    event.quick = 0
    size = event.bytes
    flow.sent += 1
    s.sent += 1
    transmit(s, row, link)
    _again(s, number, size)


@compiled_within
def _again(s: Row, number: int, size: int) -> None:
    """After a packet: the flow lines up again, now or when its rate allows."""
    flow = flows(s, number)
    line = lines(s, flow.link)
    if s.dcqcn:
        rate = rate_after(s, number, size, line.ps_per_byte)
        ready = s.now + np.int64(size / rate)
        if ready > line.free_at:
            flow.in_ring = 0
            if has_work(s, number):
                flow.pacing = 1
                row = s.line_count + number
                events(s, row).kind = PACE
                schedule(s, row, ready)
            return
    if has_work(s, number):
        _append(s, number)
    else:
        flow.in_ring = 0


@compiled
def rate_after(s: Row, number: int, size: int, ps_per_byte: float) -> float:
    """The rate of a flow after sending so many bytes, its timers brought up to now."""
    reaction, now = reactions(s, number), s.now
    line_rate = 1.0 / ps_per_byte
    if reaction.rate >= line_rate and reaction.cuts == 0:
        return line_rate
    _decay(s, number)
    while now - reaction.rise_at >= s.rise_timer:
        reaction.rise_at += s.rise_timer
        reaction.timer_stage += 1
        _rise(s, number, line_rate)
    reaction.bytes += size
    if s.rise_bytes and reaction.bytes >= s.rise_bytes:
        reaction.bytes -= s.rise_bytes
        reaction.byte_stage += 1
        _rise(s, number, line_rate)
    rate: float = min(reaction.rate, line_rate)
    return rate


@compiled
def _decay(s: Row, number: int) -> None:
    """Alpha falls with every period without a notification."""
    reaction, now = reactions(s, number), s.now
    periods = (now - reaction.alpha_at) // s.alpha_timer
    if periods > 0:
        reaction.alpha *= (1.0 - s.g) ** periods
        reaction.alpha_at += periods * s.alpha_timer


@compiled
def _rise(s: Row, number: int, line_rate: float) -> None:
    """One step of recovery: halfway back, then additive, then hyper increase."""
    reaction = reactions(s, number)
    if max(reaction.timer_stage, reaction.byte_stage) > s.recovery:
        both = min(reaction.timer_stage, reaction.byte_stage) > s.recovery
        reaction.target += s.hyper if both else s.additive
    reaction.target = min(reaction.target, line_rate)
    reaction.rate = 0.5 * (reaction.rate + reaction.target)
    if reaction.rate > 0.999 * line_rate:
        reaction.rate = line_rate


@compiled
def cut_rate(s: Row, number: int) -> None:
    """A congestion notification reaches the source of a flow."""
    reaction, now = reactions(s, number), s.now
    line_rate = 1.0 / lines(s, flows(s, number).link).ps_per_byte
    if reaction.cuts == 0:
        reaction.rate = line_rate
        reaction.alpha_at = now
    rate_after(s, number, 0, lines(s, flows(s, number).link).ps_per_byte)
    reaction.alpha = (1.0 - s.g) * reaction.alpha + s.g
    reaction.alpha_at = now
    if reaction.cuts and now - reaction.cut_at < s.cut_gap:
        return
    reaction.target = min(reaction.rate, line_rate)
    reaction.rate = max(s.least, reaction.target * (1.0 - 0.5 * reaction.alpha))
    reaction.cut_at = now
    reaction.cuts += 1
    reaction.rise_at = now
    reaction.bytes = 0
    reaction.timer_stage = 0
    reaction.byte_stage = 0


@compiled
def acknowledged(s: Row, number: int, seq: int) -> None:
    """The source learns that all before `seq` is there."""
    flow = flows(s, number)
    flow.acked = max(flow.acked, seq)
    join_ring(s, number)


@compiled
def go_back(s: Row, number: int, seq: int) -> None:
    """The source starts again from a packet."""
    flow = flows(s, number)
    flow.acked = max(flow.acked, seq)
    if seq < flow.next_seq:
        flow.next_seq = seq
    join_ring(s, number)


@compiled
def timed_out(s: Row, number: int) -> None:
    """A loss may have gone unnoticed: the source starts again from what it knows to be missing."""
    flow = flows(s, number)
    flow.timed = 0
    known = flow.acked if s.acks in (ACKS_QUEUED, ACKS_QUICK) else min(flow.expected, flow.packets - 1)
    if flow.done or known > flow.timeout_seq:
        return
    s.timeouts += 1
    flow.retries = flow.retries + 1 if known == flow.timeout_known else 1
    flow.timeout_known = known
    if flow.retries > s.retries:
        give_up(s, number)
        return
    flow.nacked = NONE
    flow.next_seq = min(flow.next_seq, known)
    join_ring(s, number)


@compiled
def give_up(s: Row, number: int) -> None:
    """A flow fails, as a queue pair does whose retries are used up; what waits for it never starts."""
    flows(s, number).done = 2
    s.left -= 1


@compiled
def free_followers(s: Row, number: int) -> None:
    """Starts the flows that waited for this one last."""
    now = s.now
    for place in range(follower_index(s, number).value, follower_index(s, number + 1).value):
        follower = followers(s, place).row
        flow = flows(s, follower)
        flow.waits -= 1
        if flow.waits == 0:
            row = s.line_count + follower
            events(s, row).kind = START
            schedule(s, row, now + flow.start + lags(s, flow.source).value)


@compiled
def resend_later(s: Row, row: int) -> None:
    """A sprayed packet that was lost waits to be sent again."""
    number = events(s, row).flow
    if flows(s, number).done:
        return_row(s, row)
        return
    events(s, row).next = flows(s, number).resend
    flows(s, number).resend = row
    join_ring(s, number)
