"""How long rounds of a collective take: rates once a round, then host by host from repetition to repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled
from gpuyard.simulate.collectives.rounds import Exchange, Round
from gpuyard.simulate.flow.entries import Ways, loads_of, problem_of, ways_of
from gpuyard.simulate.flow.exchange import exchange_s
from gpuyard.simulate.flow.fill import max_min_rates
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import traffic_of

__all__ = ["RoundTime", "RoundsResult", "round_durations", "simulate_rounds"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTime:
    """One round with all its repetitions."""

    label: str
    begin_s: float
    end_s: float
    flow_count: int
    repeat_count: int
    slowest_bytes_per_s: float
    fastest_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundsResult:
    """A collective in rounds."""

    rounds: tuple[RoundTime, ...]

    @property
    def time_s(self) -> float:
        """When the last host is done."""
        return self.rounds[-1].end_s if self.rounds else 0.0


def simulate_rounds(
    network: Network,
    rounds: Sequence[Round | Exchange],
    settings: FlowSettings,
    delay_s: float = 0.0,
    ready_s: Floats | None = None,
) -> RoundsResult:
    """Rounds after each other; `delay_s` passes between receiving and sending on, `ready_s` is when each host is ready.

    The flows of a round share the network as if all of them ran at once throughout. Hosts do not wait for the end of
    a round, only for what they themselves receive.
    """
    free_s = np.zeros(network.host_count) if ready_s is None else ready_s.astype(np.float64).copy()
    done: list[RoundTime] = []
    ways = ways_of(network, settings)
    for item in rounds:
        begin_s = float(free_s.max()) if done else 0.0
        if isinstance(item, Exchange):
            low, high, seconds, flows = exchange_s(ways, item, settings)
            free_s[item.hosts] = free_s[item.hosts].max() + delay_s + seconds
            repeats = 1
        else:
            send_s, latency_s = round_durations(ways, item, settings)
            free_s = _after(item, send_s, latency_s + delay_s, free_s)
            low, high = item.size_bytes / send_s.max(), item.size_bytes / send_s.min()
            repeats, flows = item.repeat_count, len(item.source)
        done.append(
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
    return RoundsResult(rounds=tuple(done))


def round_durations(ways: Ways, item: Round, settings: FlowSettings) -> tuple[Floats, Floats]:
    """Seconds that each flow of a round sends, and from the last byte sent to the last received."""
    size = max(1, round(item.size_bytes))
    traffic = traffic_of(item.source, item.target, size, channel=item.channel)
    problem = problem_of(traffic, loads_of(ways, traffic), settings)
    rates = max_min_rates(problem.entry_index, problem.entry_link, problem.entry_weight, problem.capacity_bytes_per_s)
    return problem.size_bytes / rates, problem.latency_s


def _after(item: Round, send_s: Floats, latency_s: Floats, free_s: Floats) -> Floats:
    """When each host is free after a round."""
    source, target = item.source.astype(np.int64), item.target.astype(np.int64)
    if not item.ring_length:
        return _repeat(source, target, send_s, latency_s, item.repeat_count, free_s)
    shape = (-1, item.ring_length)
    rings = _around(send_s.reshape(shape), latency_s.reshape(shape), item.repeat_count, free_s[source].reshape(shape))
    done = free_s.copy()
    np.maximum.at(done, source, rings.reshape(-1))
    return done


@compiled
def _around(send_s: Floats, latency_s: Floats, repeats: int, begin_s: Floats) -> Floats:
    """When each place of each ring is free: it has sent, and received from the place before.

    The recursion is linear over max and plus. Once all places of a ring move on by the same time, they always will,
    and the rest is one product.
    """
    rings, length = send_s.shape
    done = np.empty((rings, length))
    hop, now, after = np.empty(length), np.empty(length), np.empty(length)
    for r in range(rings):
        send = send_s[r]
        for k in range(length):
            hop[k], now[k] = send[k] + latency_s[r, k], begin_s[r, k]
        for count in range(repeats):
            own, came = now[0] + send[0], now[length - 1] + hop[length - 1]
            after[0] = own if own > came else came
            for k in range(1, length):
                own, came = now[k] + send[k], now[k - 1] + hop[k - 1]
                after[k] = own if own > came else came
            now, after = after, now
            if count % 64 == 0:
                most, least = _moved(now, after)
                if most - least <= 1e-12 * most:
                    for k in range(length):
                        now[k] += most * (repeats - 1 - count)
                    break
        for k in range(length):
            done[r, k] = now[k]
    return done


@compiled
def _moved(now: Floats, before: Floats) -> tuple[float, float]:
    """The most and the least that places moved on; no numbers where one of them is never free."""
    most, least = now[0] - before[0], now[0] - before[0]
    for k in range(1, len(now)):
        moved = now[k] - before[k]
        if np.isnan(moved):
            return moved, moved
        most, least = max(most, moved), min(least, moved)
    return most, least


@compiled
def _repeat(
    source: npt.NDArray[np.int64],
    target: npt.NDArray[np.int64],
    send_s: Floats,
    latency_s: Floats,
    repeats: int,
    free_s: Floats,
) -> Floats:
    """When each host is free after the repetitions: it has sent its flows and received those sent to it."""
    now, after = free_s.copy(), free_s.copy()
    for _ in range(repeats):
        for k in range(len(source)):
            sent = now[source[k]] + send_s[k]
            received = sent + latency_s[k]
            after[source[k]] = max(after[source[k]], sent)
            after[target[k]] = max(after[target[k]], received)
        for host in range(len(now)):
            now[host] = after[host]
    return now
