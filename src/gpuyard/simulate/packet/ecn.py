"""ECN marking: RED on the length of the queue that a packet leaves behind.

Never up to kmin, always from kmax, with a probability that rises to pmax in between; drawn from
the seed, the packet and the link, so that a run can be repeated.
"""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.packet.balance import draw
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import DATA, events, ports


@jit
def mark(s: Row, row: int, out: int) -> None:
    """Mark a data packet that leaves a queue, with the probability of the queue's length."""
    event, port = events(s, row), ports(s, out)
    if port.queued <= s.kmin or event.kind != DATA:
        return
    probability = 1.0
    if port.queued < s.kmax:
        probability = s.pmax * (port.queued - s.kmin) / (s.kmax - s.kmin)
    if draw(s, event.flow, event.seq, ~out) < probability * 2.0**32:
        s.marked += 1 - event.mark
        port.marks += 1
        event.mark = 1
