"""What links carry when a collective runs in rounds, whose flows are not simulated one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.collectives.compile import Call, Grid
from gpuyard.simulate.collectives.rounds import Exchange, Round
from gpuyard.simulate.flow.entries import loads_of, ways_of, wire_bytes
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import Traffic, traffic_of

__all__ = ["message_count", "round_bytes"]

MOST_PAIRS = 1_200_000  # of an exchange whose flows are listed to count what links carry


def message_count(call: Call, grid: Grid) -> int:
    """About how many messages a collective has when all are listed."""
    n, servers, rails = len(grid.hosts), grid.servers, grid.rails
    halves = 2 if call.collective == "all-reduce" else 1
    counts = {
        "ring": halves * (n - 1) * n * call.channels,
        "rail-ring": halves * (n - 1) * n * max(call.channels, rails),
        "hierarchical": (rails * halves * (servers - 1) * servers * call.channels + 2 * n * rails) * call.parts,
        "nvls": (4 * n + 2 * n) * call.parts,
        "direct": n * (n - 1) * call.channels if call.collective == "all-to-all" else call.channels,
        "pxn": n * rails + n * servers,
        "tree": 4 * n * call.parts * call.channels,
        "halving": 2 * n * n.bit_length(),
    }
    return counts[call.algorithm]


def round_bytes(
    network: Network, rounds: Sequence[Round | Exchange], settings: FlowSettings
) -> npt.NDArray[np.float64] | None:
    """Bytes on every link after all rounds; None where an exchange has too many flows to list."""
    ways = ways_of(network, settings)
    total = np.zeros(network.link_count)
    for item in rounds:
        traffic, times = _flows(item)
        if traffic is None:
            return None
        loads = loads_of(ways, traffic)
        sent = np.repeat(wire_bytes(traffic.size_bytes, settings), np.diff(loads.index)) * loads.share
        carried = np.bincount(loads.link, sent, minlength=len(loads.capacity_bytes_per_s)) * times
        total += carried if loads.lump is None else (carried / loads.lump.members)[loads.lump.link]
    return total


def _flows(item: Round | Exchange) -> tuple[Traffic | None, int]:
    """The flows of a round, and how often they run."""
    if isinstance(item, Round):
        size = max(1, round(item.size_bytes))
        return traffic_of(item.source, item.target, size, channel=item.channel), item.repeat_count
    servers, rails = item.hosts.shape
    peers = servers - 1 if item.same_rail else servers * rails - 1
    if servers * rails * peers > MOST_PAIRS:
        return None, 1
    groups = list(item.hosts.T) if item.same_rail else [item.hosts.reshape(-1)]
    source = np.concatenate([np.repeat(hosts, len(hosts) - 1) for hosts in groups])
    target = np.concatenate([np.roll(hosts, -1 - k)[:-1] for hosts in groups for k in range(len(hosts))])
    return traffic_of(source, target, max(1, round(item.size_bytes)), channel=np.zeros(len(source))), 1
