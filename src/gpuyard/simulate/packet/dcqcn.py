"""DCQCN: rate control of a flow's source (the reaction point).

Idea. A congestion notification packet (CNP) cuts the rate by alpha / 2, where alpha estimates how
congested the path is. After a cut the rate recovers in stages that a timer and a byte counter
count separately: halfway back to the rate before the cut (fast recovery), then the target rises by
a fixed step (additive increase), or by a larger one once both counters are past fast recovery
(hyper increase).

Invariant. Timers are not events: they are brought up to date when the flow sends or is notified.
Between two such moments nothing reads the rate, so the rates equal those of ticking timers, and
idle flows cost nothing.

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 5.
"""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.packet.memory import Row
from gpuyard.simulate.packet.state import flows, ports, reactions

FULL_RATE_RATIO = 0.999  # halving the gap never closes it: above this the rate is the line rate


@jit
def rate_after(s: Row, number: int, size: int, ps_per_byte: float) -> float:
    """Return a flow's rate in bytes per ps after it sent `size` bytes, timers brought up to now."""
    reaction, now = reactions(s, number), s.now
    line_rate = 1.0 / ps_per_byte
    if reaction.rate >= line_rate and reaction.cuts == 0:
        return line_rate
    _decay_alpha(s, number)
    while now - reaction.increase_at >= s.increase_timer:
        reaction.increase_at += s.increase_timer
        reaction.timer_stage += 1
        _increase(s, number, line_rate)
    reaction.bytes += size
    if s.increase_bytes and reaction.bytes >= s.increase_bytes:
        reaction.bytes -= s.increase_bytes
        reaction.byte_stage += 1
        _increase(s, number, line_rate)
    rate: float = min(reaction.rate, line_rate)
    return rate


@jit
def _decay_alpha(s: Row, number: int) -> None:
    reaction, now = reactions(s, number), s.now
    periods = (now - reaction.alpha_at) // s.alpha_timer
    if periods > 0:  # each without a CNP
        reaction.alpha *= (1.0 - s.g) ** periods
        reaction.alpha_at += periods * s.alpha_timer


@jit
def _increase(s: Row, number: int, line_rate: float) -> None:
    reaction = reactions(s, number)
    if max(reaction.timer_stage, reaction.byte_stage) > s.recovery_stages:
        both = min(reaction.timer_stage, reaction.byte_stage) > s.recovery_stages
        reaction.target += s.hyper if both else s.additive
    reaction.target = min(reaction.target, line_rate)
    reaction.rate = 0.5 * (reaction.rate + reaction.target)
    if reaction.rate > FULL_RATE_RATIO * line_rate:
        reaction.rate = line_rate


@jit
def cut_rate(s: Row, number: int) -> None:
    """Handle a CNP at the source of a flow."""
    reaction, now = reactions(s, number), s.now
    ps_per_byte = ports(s, flows(s, number).link).ps_per_byte
    line_rate = 1.0 / ps_per_byte
    if reaction.cuts == 0:
        reaction.rate = line_rate
        reaction.alpha_at = now
    rate_after(s, number, 0, ps_per_byte)
    reaction.alpha = (1.0 - s.g) * reaction.alpha + s.g
    reaction.alpha_at = now
    if reaction.cuts and now - reaction.cut_at < s.cut_interval:
        return
    reaction.target = min(reaction.rate, line_rate)
    reaction.rate = max(s.min_rate, reaction.target * (1.0 - 0.5 * reaction.alpha))
    reaction.cut_at = now
    reaction.cuts += 1
    reaction.increase_at = now
    reaction.bytes = 0
    reaction.timer_stage = 0
    reaction.byte_stage = 0
