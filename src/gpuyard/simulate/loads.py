"""Link loads of a collective that is simulated in rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.collectives.compile import CollectiveCall, HostGrid
from gpuyard.simulate.collectives.rounds import Exchange, Round
from gpuyard.simulate.flow.flow_links import carried_bytes, flow_link_shares, wire_bytes
from gpuyard.simulate.flow.rounds import routes_in
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.timeline import StableInterval, stable_intervals
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import FlowSet, traffic_of

MAX_PAIRS = 1_200_000  # flows of an exchange that are listed to add up link loads


def message_count(call: CollectiveCall, grid: HostGrid) -> int:
    """Estimate how many messages a collective has when all are listed."""
    n, servers, rails = len(grid.hosts), grid.servers, grid.rails
    halves = 2 if call.collective == "all-reduce" else 1
    counts = {
        "ring": halves * (n - 1) * n * call.channels,
        "rail-ring": halves * (n - 1) * n * max(call.channels, rails),
        "hierarchical": (rails * halves * (servers - 1) * servers * call.channels + 2 * n * rails)
        * call.chunks,
        "nvls": (4 * n + 2 * n) * call.chunks,
        "sharp": 3 * n * call.chunks,
        "direct": n * (n - 1) * call.channels if call.collective == "all-to-all" else call.channels,
        "pxn": n * rails + n * servers,
        "tree": 4 * n * call.chunks * call.channels,
        "halving": 2 * n * n.bit_length(),
    }
    return counts[call.algorithm]


def round_bytes(
    network: Network,
    rounds: Sequence[Round | Exchange],
    settings: FlowSettings,
    intervals: Sequence[StableInterval] = (),
    ratios: Sequence[Sequence[float]] = (),
) -> npt.NDArray[np.float64] | None:
    """Return the bytes on every link; None if an exchange has too many flows to list.

    `ratios` has the share of each round's bytes that is sent in each interval of the network;
    without it the network never changes.
    """
    intervals = intervals or stable_intervals(network, ())
    states = [routes_in(network, settings, interval) for interval in intervals]
    total = np.zeros(network.link_count)
    for number, item in enumerate(rounds):
        traffic, repeats = _flows(item)
        if traffic is None:
            return None
        sent_bytes = wire_bytes(traffic.size_bytes, settings)
        for routes, ratio in zip(states, ratios[number] if ratios else (1.0,), strict=True):
            if ratio > 0:
                loads = flow_link_shares(routes, traffic)
                sent = sent_bytes * ratio
                total += carried_bytes(loads, sent, network.link_count, repeats)
    return total


def _flows(item: Round | Exchange) -> tuple[FlowSet | None, int]:
    """The flows of a round, and how often they run."""
    if isinstance(item, Round):
        size = max(1, round(item.size_bytes))
        return traffic_of(item.source, item.target, size, channel=item.channel), item.repeat_count
    servers, rails = item.hosts.shape
    peers = servers - 1 if item.same_rail else servers * rails - 1
    if servers * rails * peers > MAX_PAIRS:
        return None, 1
    groups = list(item.hosts.T) if item.same_rail else [item.hosts.reshape(-1)]
    source = np.concatenate([np.repeat(hosts, len(hosts) - 1) for hosts in groups])
    target = np.concatenate(
        [np.roll(hosts, -1 - k)[:-1] for hosts in groups for k in range(len(hosts))]
    )
    size = max(1, round(item.size_bytes))
    return traffic_of(source, target, size, channel=np.zeros(len(source))), 1
