"""Time of the rounds of a collective, rates computed once per round.

Idea: the flows of a round share the network as if all of them ran throughout, so their rates are
computed once per state of the network: once, or from one fault event to the next. A flow that an
event interrupts sends its rest at the new rate. Hosts do not wait for the end of a round, only for
what they receive, which is a recursion in max and plus per host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt

from gpuyard.document.field_types import Doc
from gpuyard.jit import jit
from gpuyard.simulate.collectives.rounds import Exchange, Round
from gpuyard.simulate.flow.exchange import simulate_exchange
from gpuyard.simulate.flow.flow_links import (
    FlowRoutes,
    build_problem,
    flow_link_shares,
    live_routes,
)
from gpuyard.simulate.flow.max_min import max_min_rates
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.timeline import (
    STALLED_BYTES_PER_S,
    StableInterval,
    stable_intervals,
)
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import traffic_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CHECK_EVERY = 64  # repetitions of a ring after which it is checked for a steady state
NEVER_S = 1e9  # a collective that takes longer never ends: hosts are cut off
SAME_RATIO = 1e-12  # times this close, relatively, are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTime:
    """Times of one round with all its repetitions."""

    label: str
    begin_s: float
    end_s: float
    flow_count: int
    repeat_count: int
    interval_ratios: Annotated[
        tuple[float, ...], Doc("share of its bytes that is sent in each interval of the network")
    ] = (1.0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsResult:
    """A collective, simulated in rounds."""

    rounds: tuple[RoundTime, ...]

    @property
    def time_s(self) -> float:
        """Time at which the last host is done."""
        return self.rounds[-1].end_s if self.rounds else 0.0


def simulate_rounds(
    network: Network,
    rounds: Sequence[Round | Exchange],
    settings: FlowSettings,
    delay_s: float = 0.0,
    ready_s: Floats | None = None,
    intervals: Sequence[StableInterval] = (),
) -> RoundsResult:
    """Simulate rounds one after the other.

    Args:
        network: its hosts are the ranks.
        rounds: what is sent.
        settings: of the flow engine.
        delay_s: time between receiving and sending on.
        ready_s: when each host is ready for the first round; default: at 0.
        intervals: states of the network in order; default: it never changes.
    """
    free_s = np.zeros(network.host_count) if ready_s is None else ready_s.astype(np.float64).copy()
    times: list[RoundTime] = []
    intervals = intervals or stable_intervals(network, ())
    end_s = np.array([interval.end_s for interval in intervals])
    states = [routes_in(network, settings, interval) for interval in intervals]
    for item in rounds:
        begin_s = float(free_s.max()) if times else 0.0
        if isinstance(item, Exchange):
            exchanges = [simulate_exchange(routes, item, settings) for routes in states]
            step_s = np.array([one.duration_s for one in exchanges])
            ready = free_s[item.hosts].max() + delay_s
            free_s[item.hosts] = _sent_at(ready, 0, step_s[:, None], end_s)[0]
            at = int(np.searchsorted(end_s, begin_s, side="right"))
            flows = exchanges[at].flow_count
            repeats = 1
        else:
            durations = [round_durations(routes, item, settings) for routes in states]
            send_s = np.array([sent for sent, _ in durations])
            latency_s = np.array([latency for _, latency in durations])
            step_s = (send_s + latency_s).max(axis=1)
            free_s = _free_after(item, send_s, latency_s + delay_s, free_s, end_s)
            repeats, flows = item.repeat_count, len(item.source)
        times.append(
            RoundTime(
                label=item.label,
                begin_s=begin_s,
                end_s=float(free_s.max()),
                flow_count=flows,
                repeat_count=repeats,
                interval_ratios=_interval_ratios(begin_s, float(free_s.max()), step_s, intervals),
            )
        )
    return RoundsResult(rounds=tuple(times))


def routes_in(network: Network, settings: FlowSettings, interval: StableInterval) -> FlowRoutes:
    """Return the routes of the network in the state of an interval."""
    current = replace(network, rate_bits_per_s=interval.rate_bits_per_s)
    return live_routes(current, settings, interval.routed)


def _interval_ratios(
    begin_s: float, end_s: float, step_s: Floats, intervals: Sequence[StableInterval]
) -> tuple[float, ...]:
    """The share of a round's bytes in each interval: time in it over the time of a repetition."""
    if len(intervals) == 1:
        return (1.0,)
    overlap_s = np.array(
        [max(0.0, min(end_s, one.end_s) - max(begin_s, one.begin_s)) for one in intervals]
    )
    progress = overlap_s / step_s
    return tuple((progress / max(progress.sum(), np.finfo(np.float64).tiny)).tolist())


def round_durations(
    routes: FlowRoutes, item: Round, settings: FlowSettings
) -> tuple[Floats, Floats]:
    """Return how long each flow of a round sends, and its latency after the last byte is sent."""
    size = max(1, round(item.size_bytes))
    traffic = traffic_of(item.source, item.target, size, channel=item.channel)
    problem = build_problem(traffic, flow_link_shares(routes, traffic), settings)
    rates = max_min_rates(problem.shares, problem.capacity_bytes_per_s)
    return problem.size_bytes / np.maximum(rates, STALLED_BYTES_PER_S), problem.latency_s


def _free_after(
    item: Round, send_s: Floats, latency_s: Floats, free_s: Floats, end_s: Floats
) -> Floats:
    """When each host is free after a round: it has sent and received all its flows."""
    source, target = item.source.astype(np.int64), item.target.astype(np.int64)
    if not item.ring_length:
        return _repeat(source, target, send_s, latency_s, item.repeat_count, free_s, end_s)
    shape = (-1, item.ring_length)
    ring_free_s = _repeat_rings(
        send_s, latency_s, item.repeat_count, free_s[source].reshape(shape), end_s
    )
    latest_s = free_s.copy()
    np.maximum.at(latest_s, source, ring_free_s.reshape(-1))
    return latest_s


@jit
def _interval_of(time_s: float, end_s: Floats) -> int:
    at = 0
    while at < len(end_s) - 1 and time_s >= end_s[at]:
        at += 1
    return at


@jit
def _sent_at(begin_s: float, flow: int, send_s: Floats, end_s: Floats) -> tuple[float, int]:
    """When a flow that begins at a time is sent, and in which interval; send_s[interval, flow]."""
    at, now_s, left_ratio = _interval_of(begin_s, end_s), begin_s, 1.0
    while True:
        sent_s = now_s + left_ratio * send_s[at, flow]
        if sent_s <= end_s[at] or at == len(end_s) - 1:
            return sent_s, at
        left_ratio -= (end_s[at] - now_s) / send_s[at, flow]
        now_s, at = end_s[at], at + 1


@jit
def _repeat_rings(
    send_s: Floats, latency_s: Floats, repeats: int, begin_s: Floats, end_s: Floats
) -> Floats:
    """When each position of each ring is free: it has sent, and received from the one before.

    The recursion is linear over max and plus within an interval. Once all positions of a ring
    advance by the same time, they do so until the interval ends: one multiplication.
    """
    rings, length = begin_s.shape
    free_s = np.empty((rings, length))
    received, now, after = np.empty(length), np.empty(length), np.empty(length)
    for r in range(rings):
        first = r * length
        now[:] = begin_s[r]
        done = 0
        while done < repeats:
            for k in range(length):
                after[k], at = _sent_at(now[k], first + k, send_s, end_s)
                received[k] = after[k] + latency_s[at, first + k]
            for k in range(length):
                if received[k - 1] > after[k]:
                    after[k] = received[k - 1]
            now, after = after, now
            done += 1
            if done % CHECK_EVERY == 1:
                most, least = _advances(now, after)
                if most - least <= SAME_RATIO * most:
                    more = _steps_in_interval(now, after, most, repeats - done, end_s)
                    for k in range(length):
                        now[k] += most * more
                    done += more
        for k in range(length):
            free_s[r, k] = now[k]
    return free_s


@jit
def _steps_in_interval(now: Floats, before: Floats, step_s: float, most: int, end_s: Floats) -> int:
    """How many more repetitions of the same time end within the interval of the last one."""
    at = _interval_of(before.min(), end_s)
    if end_s[at] == np.inf:
        return most
    left = (end_s[at] - now.max()) / step_s
    return max(0, min(most, int(left)))


@jit
def _advances(now: Floats, before: Floats) -> tuple[float, float]:
    """The largest and smallest advance of a position; NaN if one of them is never free."""
    most, least = now[0] - before[0], now[0] - before[0]
    for k in range(1, len(now)):
        advance = now[k] - before[k]
        if np.isnan(advance):
            return advance, advance
        most, least = max(most, advance), min(least, advance)
    return most, least


@jit
def _repeat(
    source: Ints,
    target: Ints,
    send_s: Floats,
    latency_s: Floats,
    repeats: int,
    free_s: Floats,
    end_s: Floats,
) -> Floats:
    """When each host is free after the repetitions of any round."""
    now, after = free_s.copy(), free_s.copy()
    for _ in range(repeats):
        for k in range(len(source)):
            sent, at = _sent_at(now[source[k]], k, send_s, end_s)
            after[source[k]] = max(after[source[k]], sent)
            after[target[k]] = max(after[target[k]], sent + latency_s[at, k])
        now[:] = after
    return now
