"""Build the flow problem: links, wire sizes and latencies of flows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.flow.aggregate_switches import AggregatedNetwork, aggregate_switches
from gpuyard.simulate.flow.ecmp_shares import ecmp_shares
from gpuyard.simulate.flow.problem import FlowProblem, LinkShares
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.network import Network
from gpuyard.simulate.routes import (
    Routes,
    flow_hash,
    flow_paths,
    host_ports,
    no_route,
    routes_of,
    switch_salts,
)
from gpuyard.simulate.traffic import FlowSet
from gpuyard.units import bytes_from_bits

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
DOWN_BITS_PER_S = 1.0  # a slower link carries nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FlowLoads:
    """The links that each flow loads, of the aggregated network if there is one."""

    shares: LinkShares
    capacity_bytes_per_s: Floats
    member_bytes_per_s: Floats  # of one of the links that an aggregated link stands for
    delay_s: Floats
    aggregated: AggregatedNetwork | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FlowRoutes:
    """The routes of a network under a load balancing, computed once for many flows."""

    network: Network  # the aggregated one unless flows are hashed
    routes: Routes
    aggregated: AggregatedNetwork | None
    salts: npt.NDArray[np.uint64]
    weight: Floats  # of each link, by which a node splits traffic


def live_routes(
    network: Network, settings: FlowSettings, alive: npt.NDArray[np.bool_] | None = None
) -> FlowRoutes:
    """Compute the routes over the links that are alive."""
    if settings.balance == "ecmp":
        return FlowRoutes(
            network=network,
            routes=routes_of(network, alive=alive),
            aggregated=None,
            salts=switch_salts(network, settings.seed, polarised=settings.polarised),
            weight=np.ones(network.link_count),
        )
    rate = network.rate_bits_per_s
    usable = rate if alive is None else np.where(alive, rate, 0.0)
    aggregated = aggregate_switches(replace(network, rate_bits_per_s=usable))
    total_rate = aggregated.network.rate_bits_per_s
    evenly = (aggregated.members * (total_rate > 0)).astype(np.float64)
    return FlowRoutes(
        network=aggregated.network,
        routes=routes_of(aggregated.network, alive=total_rate > 0),
        aggregated=aggregated,
        salts=np.zeros(0, dtype=np.uint64),
        weight=total_rate if settings.balance == "adaptive" else evenly,
    )


def flow_link_shares(flow_routes: FlowRoutes, traffic: FlowSet) -> FlowLoads:
    """Return the links of every flow: one path by hash per port, or all equal-cost paths.

    Raises:
        NoRouteError: a flow has no route.
    """
    routes, source, target = flow_routes.routes, traffic.source, traffic.target
    rate = flow_routes.network.rate_bits_per_s
    capacity = bytes_from_bits(1.0) * np.where(rate < DOWN_BITS_PER_S, 0.0, rate)
    if flow_routes.aggregated is None:
        shares = _hashed_shares(flow_routes, traffic)
        members = np.ones(len(capacity), dtype=np.int64)
    else:
        shares, unreachable = ecmp_shares(routes, source, target, flow_routes.weight)
        members = flow_routes.aggregated.members
        if unreachable >= 0:
            raise no_route(unreachable, int(source[unreachable]), int(target[unreachable]))
    return FlowLoads(
        shares=shares,
        capacity_bytes_per_s=capacity,
        member_bytes_per_s=capacity / members,
        delay_s=flow_routes.network.delay_s,
        aggregated=flow_routes.aggregated,
    )


def _hashed_shares(flow_routes: FlowRoutes, traffic: FlowSet) -> LinkShares:
    """The hashed path of each flow; with several ports per host, one path per port.

    NCCL merges the ports of a NIC into one device and splits every message evenly over them, so
    their paths carry equal shares and the slowest limits the flow.
    """
    hashes, ports = flow_hash(traffic), host_ports(flow_routes.routes)
    walks = [
        flow_paths(
            flow_routes.routes,
            traffic.source,
            traffic.target,
            hashes,
            flow_routes.salts,
            np.full(traffic.flow_count, port, dtype=np.int32),
        )
        for port in range(ports)
    ]
    stripes = np.ones(traffic.flow_count)
    for port in range(1, ports):
        repeated = np.any([walks[port][:, 0] == walk[:, 0] for walk in walks[:port]], axis=0)
        walks[port][repeated] = -1  # this host has fewer ports, or the flow stays in its server
        stripes += ~repeated
    paths = np.concatenate(walks, axis=1)
    used = paths >= 0
    count = used.sum(axis=1)
    offset = np.zeros(len(paths) + 1, dtype=np.int64)
    np.cumsum(count, out=offset[1:])
    share = np.repeat(1.0 / stripes, count)
    return LinkShares(offset=offset, link=paths[used].astype(np.int64), share=share)


def carried_bytes(
    loads: FlowLoads, sent_bytes: Floats, link_count: int, repeat_count: int = 1
) -> Floats:
    """Return the bytes on each link of the original network if the flows send these bytes."""
    shares, links = loads.shares, len(loads.capacity_bytes_per_s)
    entry_bytes = np.repeat(sent_bytes, np.diff(shares.offset)) * shares.share
    total = np.bincount(shares.link, entry_bytes, minlength=links).astype(np.float64) * repeat_count
    if loads.aggregated is None:
        return total[:link_count]
    members = loads.aggregated.members
    per_member: Floats = total[: len(members)] / members
    return per_member[loads.aggregated.link]


def wire_bytes(size_bytes: npt.NDArray[np.int64] | Floats, settings: FlowSettings) -> Floats:
    """Return the bytes on the wire: payload and packet headers."""
    size = np.asarray(size_bytes, dtype=np.float64)
    return np.asarray(
        size + np.ceil(size / settings.mtu_bytes) * settings.header_bytes, dtype=np.float64
    )


def build_problem(traffic: FlowSet, loads: FlowLoads, settings: FlowSettings) -> FlowProblem:
    """Return the flow problem of this traffic."""
    return FlowProblem(
        shares=loads.shares,
        capacity_bytes_per_s=loads.capacity_bytes_per_s,
        size_bytes=wire_bytes(traffic.size_bytes, settings),
        start_s=traffic.start_s,
        latency_s=_latency_s(traffic, loads, settings),
        after_index=traffic.after_index,
        after=traffic.after.astype(np.int64),
    )


def _latency_s(traffic: FlowSet, loads: FlowLoads, settings: FlowSettings) -> Floats:
    """Time from the last byte sent to the last received.

    That is propagation, plus one packet's transmission on every link but the slowest: a train of
    packets without competitors takes that long on the links before and after its bottleneck.
    """
    flows, link, share = traffic.flow_count, loads.shares.link, loads.shares.share
    owner = np.repeat(np.arange(flows), np.diff(loads.shares.offset))
    propagation_s = _sums(owner, share * loads.delay_s[link], flows)
    if not settings.store_and_forward:
        return propagation_s
    with np.errstate(divide="ignore", invalid="ignore"):
        s_per_byte = 1.0 / loads.member_bytes_per_s[link]
    s_per_byte = np.where(np.isfinite(s_per_byte), s_per_byte, 0.0)  # flows on a dead link stall
    total = _sums(owner, share * s_per_byte, flows)
    slowest = np.zeros(flows)
    np.maximum.at(slowest, owner, s_per_byte)
    packet = np.minimum(traffic.size_bytes, settings.mtu_bytes) + settings.header_bytes
    return np.asarray(propagation_s + packet * np.maximum(total - slowest, 0.0), dtype=np.float64)


def _sums(owner: Ints, values: Floats, count: int) -> Floats:
    return np.bincount(owner, values, minlength=count).astype(np.float64)
