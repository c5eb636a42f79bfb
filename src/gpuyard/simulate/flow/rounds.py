"""Time of the rounds of a collective, rates computed once per round.

Idea: the flows of a round share the network as if all of them ran throughout, so their rates are
computed once and a round takes each flow a fixed time. Hosts do not wait for the end of a round,
only for what they receive, which is a recursion in max and plus per host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import traffic_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
CHECK_EVERY = 64  # repetitions of a ring after which it is checked for a steady state
SAME_RATIO = 1e-12  # times this close, relatively, are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTime:
    """Times and rates of one round with all its repetitions."""

    label: str
    begin_s: float
    end_s: float
    flow_count: int
    repeat_count: int
    slowest_bytes_per_s: float
    fastest_bytes_per_s: float


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
    alive: npt.NDArray[np.bool_] | None = None,
) -> RoundsResult:
    """Simulate rounds one after the other.

    Args:
        network: its hosts are the ranks.
        rounds: what is sent.
        settings: of the flow engine.
        delay_s: time between receiving and sending on.
        ready_s: when each host is ready for the first round; default: at 0.
        alive: links that routes use; default: all.
    """
    free_s = np.zeros(network.host_count) if ready_s is None else ready_s.astype(np.float64).copy()
    times: list[RoundTime] = []
    routes = live_routes(network, settings, alive)
    for item in rounds:
        begin_s = float(free_s.max()) if times else 0.0
        if isinstance(item, Exchange):
            low, high, duration_s, flows = simulate_exchange(routes, item, settings)
            free_s[item.hosts] = free_s[item.hosts].max() + delay_s + duration_s
            repeats = 1
        else:
            send_s, latency_s = round_durations(routes, item, settings)
            free_s = _free_after(item, send_s, latency_s + delay_s, free_s)
            low, high = item.size_bytes / send_s.max(), item.size_bytes / send_s.min()
            repeats, flows = item.repeat_count, len(item.source)
        times.append(
            RoundTime(
                label=item.label,
                begin_s=begin_s,
                end_s=float(free_s.max()),
                flow_count=flows,
                repeat_count=repeats,
                slowest_bytes_per_s=float(low),
                fastest_bytes_per_s=float(high),
            )
        )
    return RoundsResult(rounds=tuple(times))


def round_durations(
    routes: FlowRoutes, item: Round, settings: FlowSettings
) -> tuple[Floats, Floats]:
    """Return how long each flow of a round sends, and its latency after the last byte is sent."""
    size = max(1, round(item.size_bytes))
    traffic = traffic_of(item.source, item.target, size, channel=item.channel)
    problem = build_problem(traffic, flow_link_shares(routes, traffic), settings)
    rates = max_min_rates(problem.shares, problem.capacity_bytes_per_s)
    return problem.size_bytes / rates, problem.latency_s


def _free_after(item: Round, send_s: Floats, latency_s: Floats, free_s: Floats) -> Floats:
    """When each host is free after a round: it has sent and received all its flows."""
    source, target = item.source.astype(np.int64), item.target.astype(np.int64)
    if not item.ring_length:
        return _repeat(source, target, send_s, latency_s, item.repeat_count, free_s)
    shape = (-1, item.ring_length)
    ring_free_s = _repeat_rings(
        send_s.reshape(shape),
        latency_s.reshape(shape),
        item.repeat_count,
        free_s[source].reshape(shape),
    )
    latest_s = free_s.copy()
    np.maximum.at(latest_s, source, ring_free_s.reshape(-1))
    return latest_s


@jit
def _repeat_rings(send_s: Floats, latency_s: Floats, repeats: int, begin_s: Floats) -> Floats:
    """When each position of each ring is free: it has sent, and received from the one before.

    The recursion is linear over max and plus. Once all positions of a ring advance by the same
    time, they always will, and the remaining repetitions are one multiplication.
    """
    rings, length = send_s.shape
    free_s = np.empty((rings, length))
    hop, now, after = np.empty(length), np.empty(length), np.empty(length)
    for r in range(rings):
        send = send_s[r]
        for k in range(length):
            hop[k], now[k] = send[k] + latency_s[r, k], begin_s[r, k]
        for count in range(repeats):
            own, received = now[0] + send[0], now[length - 1] + hop[length - 1]
            after[0] = own if own > received else received
            for k in range(1, length):
                own, received = now[k] + send[k], now[k - 1] + hop[k - 1]
                after[k] = own if own > received else received
            now, after = after, now
            if count % CHECK_EVERY == 0:
                most, least = _advances(now, after)
                if most - least <= SAME_RATIO * most:
                    for k in range(length):
                        now[k] += most * (repeats - 1 - count)
                    break
        for k in range(length):
            free_s[r, k] = now[k]
    return free_s


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
    source: Ints, target: Ints, send_s: Floats, latency_s: Floats, repeats: int, free_s: Floats
) -> Floats:
    """When each host is free after the repetitions of any round."""
    now, after = free_s.copy(), free_s.copy()
    for _ in range(repeats):
        for k in range(len(source)):
            sent = now[source[k]] + send_s[k]
            after[source[k]] = max(after[source[k]], sent)
            after[target[k]] = max(after[target[k]], sent + latency_s[k])
        now[:] = after
    return now
