"""Traffic over a network as the problem that the engine solves: the links of flows, sizes on the wire, latencies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.flow.lump import Lumped, lumped
from gpuyard.simulate.flow.problem import Problem
from gpuyard.simulate.flow.settings import FlowSettings
from gpuyard.simulate.flow.spread import spread_entries
from gpuyard.simulate.network import Network
from gpuyard.simulate.routes import Routes, flow_hash, flow_paths, routes_of, switch_salts
from gpuyard.simulate.traffic import Traffic
from gpuyard.units import bytes_from_bits

__all__ = ["Loads", "Ways", "loads_of", "problem_of", "ways_of", "wire_bytes"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
NOTHING_BITS_PER_S = 1.0  # a link that is slower carries nothing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Loads:
    """Which links each flow loads, and by how much of its rate; links of the lumped network if there is one."""

    index: Ints
    link: Ints
    share: Floats
    capacity_bytes_per_s: Floats
    member_bytes_per_s: Floats  # of one link where links are lumped
    delay_s: Floats
    lump: Lumped | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Ways:
    """The routes of a network as its load balancing uses them, made once for many flows."""

    network: Network  # the lumped one where packets go every way
    routes: Routes
    lump: Lumped | None
    salts: npt.NDArray[np.uint64]
    weight: Floats  # by which a node splits what it sprays


def ways_of(network: Network, settings: FlowSettings, alive: npt.NDArray[np.bool_] | None = None) -> Ways:
    """The ways over the links that are alive."""
    if settings.balance == "ecmp":
        salts = switch_salts(network, settings.seed, polarised=settings.polarised)
        routes = routes_of(network, alive=alive)
        return Ways(network=network, routes=routes, lump=None, salts=salts, weight=np.ones(network.link_count))
    usable = network.rate_bits_per_s if alive is None else np.where(alive, network.rate_bits_per_s, 0.0)
    lump = lumped(replace(network, rate_bits_per_s=usable))
    joint = lump.network.rate_bits_per_s
    return Ways(
        network=lump.network,
        routes=routes_of(lump.network, alive=joint > 0),
        lump=lump,
        salts=np.zeros(0, dtype=np.uint64),
        weight=joint if settings.balance == "adaptive" else (lump.members * (joint > 0)).astype(np.float64),
    )


def loads_of(ways: Ways, traffic: Traffic) -> Loads:
    """The links of every flow, by hash or over all equal-cost ways."""
    rate = ways.network.rate_bits_per_s
    capacity = bytes_from_bits(1.0) * np.where(rate < NOTHING_BITS_PER_S, 0.0, rate)
    if ways.lump is None:
        paths = flow_paths(ways.routes, traffic.source, traffic.target, flow_hash(traffic), ways.salts)
        used = paths >= 0
        index = np.zeros(len(paths) + 1, dtype=np.int64)
        np.cumsum(used.sum(axis=1), out=index[1:])
        link = paths[used].astype(np.int64)
        share, members = np.ones(len(link)), np.ones(len(capacity), dtype=np.int64)
    else:
        index, link, share, lost = spread_entries(ways.routes, traffic.source, traffic.target, ways.weight)
        members = ways.lump.members
        if lost >= 0:
            raise _no_way(traffic, lost)
    return Loads(
        index=index,
        link=link,
        share=share,
        capacity_bytes_per_s=capacity,
        member_bytes_per_s=capacity / members,
        delay_s=ways.network.delay_s,
        lump=ways.lump,
    )


def _no_way(traffic: Traffic, flow: int) -> InputError:
    """The error for a flow without a route."""
    return InputError.one(
        f"traffic flow {flow}",
        f"no route from host {traffic.source[flow]} to host {traffic.target[flow]}",
        "join them, or send between hosts that are joined",
    )


def wire_bytes(size_bytes: npt.NDArray[np.int64] | Floats, settings: FlowSettings) -> Floats:
    """Payload and headers."""
    size = np.asarray(size_bytes, dtype=np.float64)
    return np.asarray(size + np.ceil(size / settings.mtu_bytes) * settings.header_bytes, dtype=np.float64)


def problem_of(traffic: Traffic, loads: Loads, settings: FlowSettings) -> Problem:
    """The problem of this traffic over these loads."""
    return Problem(
        entry_index=loads.index,
        entry_link=loads.link,
        entry_weight=loads.share,
        capacity_bytes_per_s=loads.capacity_bytes_per_s,
        size_bytes=wire_bytes(traffic.size_bytes, settings),
        start_s=traffic.start_s,
        latency_s=_latency_s(traffic, loads, settings),
        after_index=traffic.after_index,
        after=traffic.after.astype(np.int64),
    )


def _latency_s(traffic: Traffic, loads: Loads, settings: FlowSettings) -> Floats:
    """From the last byte sent to the last received: propagation, and a packet at every link but the slowest.

    A train of packets that meets no other takes one packet's time on each link before and after its bottleneck.
    """
    flows = traffic.flow_count
    owner = np.repeat(np.arange(flows), np.diff(loads.index))
    light = _sums(owner, loads.share * loads.delay_s[loads.link], flows)
    if not settings.store_and_forward:
        return light
    with np.errstate(divide="ignore", invalid="ignore"):
        each = 1.0 / loads.member_bytes_per_s[loads.link]  # seconds a byte; a dead link's flows wait anyway
    each = np.where(np.isfinite(each), each, 0.0)
    hops = _sums(owner, loads.share * each, flows)
    slowest = np.zeros(flows)
    np.maximum.at(slowest, owner, each)
    packet = np.minimum(traffic.size_bytes, settings.mtu_bytes) + settings.header_bytes
    return np.asarray(light + packet * np.maximum(hops - slowest, 0.0), dtype=np.float64)


def _sums(owner: Ints, values: Floats, count: int) -> Floats:
    """The sum of the values of each owner."""
    return np.bincount(owner, values, minlength=count).astype(np.float64)
