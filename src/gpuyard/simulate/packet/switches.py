"""Switches: output queues, forwarding, transmission, drops.

Idea. Every output port has one FIFO for data and one for control packets, which PFC does not pause
and which goes first. A packet that finds its output idle is sent at once and never queued.

Invariant. A port that has something it may send has its TX event in the calendar (`pending`) at
the time when its link is free.
"""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
from gpuyard.simulate.packet.balance import FIXED, next_hop
from gpuyard.simulate.packet.calendar import schedule
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.pfc import admit, release
from gpuyard.simulate.packet.receivers import deliver, handle_loss
from gpuyard.simulate.packet.state import DATA, NONE, back_paths, events, paths, ports


@jit(forceinline=True)
def forward(s: Row, row: int) -> None:
    """Handle a packet that has come over a link to a switch."""
    event = events(s, row)
    link = event.link
    event.hop += 1
    if s.balance == FIXED:  # nothing fails
        out = _next_of_path(s, event.flow, event.hop, event.kind)
    else:
        out = NONE if ports(s, link).down else next_hop(s, row, ports(s, link).to)
        if out == NONE:
            drop(s, row, link)
            return
    port = ports(s, out)
    idle = port.free_at <= s.now and port.head == NONE and port.control_head == NONE
    if idle and not (port.paused or port.down or port.dropping):
        transmit(s, row, out)
    else:
        enqueue(s, row, link, out)


@jit(forceinline=True)
def _next_of_path(s: Row, number: int, hop: int, kind: int) -> int:
    place = number * s.path_width + hop
    link: int = paths(s, place).row if kind == DATA else back_paths(s, place).row
    return link


@jit(forceinline=True)
def transmit(s: Row, row: int, out: int) -> None:
    """Put a packet on a link, now or as soon as the link is free."""
    event, port = events(s, row), ports(s, out)
    start = max(s.now, port.free_at)
    busy = np.int64(event.bytes * port.ps_per_byte + 0.5)
    wait = busy
    if s.cut_through:
        if event.link != NONE:  # a faster link may not run ahead of a slower one
            lag = np.int64(event.bytes * (ports(s, event.link).ps_per_byte - port.ps_per_byte))
            busy += max(np.int64(0), lag)
        wait = busy if port.to_host else np.int64(s.header * port.ps_per_byte)
    port.free_at = start + busy
    port.sent += event.bytes
    event.link = out
    if port.to_host:
        deliver(s, row, start + busy + port.delay)
    else:
        schedule(s, row, start + wait + port.delay)


@jit(forceinline=True)
def enqueue(s: Row, row: int, link: int, out: int) -> None:
    """Queue a packet from `link` (NONE: from this host) whose output is busy, or drop it."""
    event, port = events(s, row), ports(s, out)
    counted = link != NONE and not event.control
    if port.dropping or port.down or (counted and not admit(s, event.bytes, link, out)):
        drop(s, row, out)
        return
    event.next = NONE
    if event.control:
        if port.control_head == NONE:
            port.control_head = row
        else:
            events(s, port.control_tail).next = row
        port.control_tail = row
    else:
        if port.head == NONE:
            port.head = row
        else:
            events(s, port.tail).next = row
        port.tail = row
        port.queued += event.bytes
        port.peak = max(port.peak, port.queued)
    if not port.pending and (event.control or not port.paused):
        port.pending = 1
        schedule(s, out, max(port.free_at, s.now))


@jit
def flush(s: Row, link: int) -> None:
    """Drop everything that is queued for a link."""
    port = ports(s, link)
    for queue in range(2):
        row = port.control_head if queue else port.head
        while row != NONE:
            event = events(s, row)
            following = event.next
            if event.link != NONE and not event.control:
                release(s, event.bytes, event.link)
            drop(s, row, link)
            row = following
    port.head = port.control_head = NONE
    port.queued = 0


@jit
def drop(s: Row, row: int, where: int) -> None:
    """Count a lost packet at a link and start its retransmission."""
    event = events(s, row)
    ports(s, where).drops += 1
    if event.kind == DATA:
        s.dropped += 1
    else:
        s.dropped_control += 1
    handle_loss(s, row)
