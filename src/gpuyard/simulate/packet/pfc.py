"""PFC: shared-buffer admission at the receiving end of a link, pause frames to its sender.

Idea. A switch counts queued bytes against the link they came over. Up to XOFF (static, or alpha
times the free shared pool) they are in the pool; beyond it they are in that link's headroom and
its sender is paused. The sender resumes when the headroom is empty and the pool use is below XON.

Invariant. For every link, in_pool + in_headroom is the number of bytes that came over it and are
still queued, and the sum over a switch's links is the switch's `total`. With enough headroom for
the round trip of a pause frame nothing is dropped.

Source: ns-3's SwitchMmu, as in HPCC's RoCE model. A packet that finds its output idle is never
counted, because it does not stay.
"""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.packet.calendar import schedule, take_row
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import NONE, PAUSE, RESUME, events, nodes, ports


@jit(forceinline=True)
def admit(s: Row, size: int, link: int, out: int) -> bool:
    """Count bytes that came over `link` for `out`, pausing the sender at XOFF; False: drop them."""
    port = ports(s, link)
    node = nodes(s, port.to)
    if node.total + size > node.limit:
        return False
    xoff = _xoff(s, node.used)
    if not s.lossless:
        if ports(s, out).queued + size > xoff:
            return False
        port.in_pool += size
        node.used += size
    elif port.in_pool + size > xoff:
        fits = port.in_headroom + size <= port.headroom
        if not port.xoff and (fits or port.in_pool > 0):
            _send_pfc(s, link, PAUSE)
        if not fits:
            return False
        port.in_headroom += size
    else:
        port.in_pool += size
        node.used += size
    node.total += size
    node.peak = max(node.peak, node.total)
    port.ingress_peak = max(port.ingress_peak, port.in_pool + port.in_headroom)
    return True


@jit(forceinline=True)
def release(s: Row, size: int, link: int) -> None:
    """Uncount bytes that leave the buffer, headroom first, and resume the sender below XON."""
    port = ports(s, link)
    node = nodes(s, port.to)
    from_headroom = min(port.in_headroom, size)
    port.in_headroom -= from_headroom
    port.in_pool -= size - from_headroom
    node.used -= size - from_headroom
    node.total -= size
    below_xon = port.in_pool + s.xon_gap < _xoff(s, node.used) or port.in_pool == 0
    if port.xoff and port.in_headroom == 0 and below_xon:
        _send_pfc(s, link, RESUME)


@jit(forceinline=True)
def _xoff(s: Row, used: int) -> int:
    return int(s.alpha * (s.pool - used)) if s.dynamic else int(s.xoff)


@jit
def _send_pfc(s: Row, link: int, kind: int) -> None:
    port = ports(s, link)
    port.xoff = kind == PAUSE
    port.pauses_in_flight += kind == PAUSE
    row = take_row(s)
    event = events(s, row)
    event.kind = kind
    event.link = link
    schedule(s, row, s.now + port.delay + s.pause_delay)


@jit
def handle_pfc(s: Row, link: int, kind: int) -> None:
    """Pause or resume the sender of a link when the frame has reached it."""
    port = ports(s, link)
    if kind == PAUSE and not port.paused:
        port.paused = 1
        port.pauses_in_flight -= port.pauses_in_flight > 0
        port.paused_since = s.now
        port.pauses += 1
        s.pauses += 1
    elif kind == RESUME and port.paused:
        port.paused = 0
        port.paused_ps += s.now - port.paused_since
        if not port.pending and (port.head != NONE or port.ring_head != NONE):
            port.pending = 1
            schedule(s, link, max(port.free_at, s.now))
