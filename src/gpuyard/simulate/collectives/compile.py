"""Compile a collective (name, algorithm, size) to flows between hosts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.bus import whole_bytes
from gpuyard.simulate.collectives.exchange import all_to_all, rail_all_to_all, send
from gpuyard.simulate.collectives.halving import halving_doubling
from gpuyard.simulate.collectives.hierarchical import (
    Between,
    hierarchical,
    nvls,
    nvls_rails,
    sharp_rails,
)
from gpuyard.simulate.collectives.ring import (
    Part,
    chain_broadcast,
    rail_orders,
    ring,
    rotated_orders,
)
from gpuyard.simulate.collectives.schedule import Ints, Schedule, to_traffic
from gpuyard.simulate.collectives.tree import double_tree, tree_broadcast
from gpuyard.simulate.network import Network
from gpuyard.simulate.traffic import FlowSet

Name = Literal["all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "send"]
Algorithm = Literal[
    "ring", "rail-ring", "tree", "halving", "hierarchical", "nvls", "sharp", "direct", "pxn"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """One collective: name, algorithm, size, channels (queue pairs) and pipelined chunks."""

    collective: Name
    algorithm: Algorithm
    size_bytes: float  # as nccl-tests counts it: the larger buffer of a rank
    channels: int = 1
    chunks: int = 1  # pipelined through trees, chains and levels
    delay_s: float = 0.0  # between receiving and sending on: kernel and proxy


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostGrid:
    """The hosts of a collective, server by server: rank = server x rails + rail."""

    servers: int
    rails: int
    hosts: Ints


def grid_of(network: Network, hosts: Ints | None = None) -> HostGrid:
    """Return the hosts by server; if servers differ in size, each host counts as a server."""
    chosen = np.arange(network.host_count) if hosts is None else np.asarray(hosts, dtype=np.int64)
    server = network.server[chosen]
    ordered = chosen[np.argsort(server, kind="stable")]
    counts = np.unique(server, return_counts=True)[1]
    if len(set(counts.tolist())) != 1:
        return HostGrid(servers=len(chosen), rails=1, hosts=chosen)
    return HostGrid(servers=len(counts), rails=int(counts[0]), hosts=ordered)


def _ring(call: CollectiveCall, grid: HostGrid) -> Schedule:
    return ring(_part(call), rotated_orders(np.arange(len(grid.hosts)), call.channels))


def _rail_ring(call: CollectiveCall, grid: HostGrid) -> Schedule:
    return ring(_part(call), rail_orders(grid.servers, grid.rails, max(call.channels, grid.rails)))


def _halving(call: CollectiveCall, grid: HostGrid) -> Schedule:
    n = len(grid.hosts)
    if call.collective != "all-reduce" and n & (n - 1):
        raise InputError.one(
            "algorithm", f"halving needs a power of two, not {n} ranks", "use ring"
        )
    return halving_doubling(_part(call), np.arange(n))


def _hierarchical(call: CollectiveCall, grid: HostGrid) -> Schedule:
    return hierarchical(_part(call), grid.servers, grid.rails, "ring", call.chunks, call.channels)


def _nvls(call: CollectiveCall, grid: HostGrid) -> Schedule:
    if grid.servers == 1:
        return nvls(np.arange(grid.rails), _part(call), call.chunks)
    between: Between = (
        "tree" if call.chunks > 1 else "ring"
    )  # a tree that is not pipelined sends everything twice over
    return nvls_rails(grid.servers, grid.rails, between, call.chunks)


def _part(call: CollectiveCall) -> Part:
    """The collective, one of the three that reduce or gather."""
    assert call.collective in (
        "all-reduce",
        "all-gather",
        "reduce-scatter",
    ), "the table holds no other"
    return call.collective


Builder = Callable[[CollectiveCall, HostGrid], Schedule]
REDUCING: tuple[Name, ...] = ("all-reduce", "all-gather", "reduce-scatter")
ALGORITHMS: dict[tuple[Name, Algorithm], Builder] = {
    **{(name, "ring"): _ring for name in REDUCING},
    **{(name, "rail-ring"): _rail_ring for name in REDUCING},
    **{(name, "halving"): _halving for name in REDUCING},
    **{(name, "hierarchical"): _hierarchical for name in REDUCING},
    ("all-reduce", "tree"): lambda call, grid: double_tree(
        np.arange(len(grid.hosts)), call.chunks, call.channels
    ),
    ("all-reduce", "nvls"): _nvls,
    ("all-reduce", "sharp"): lambda call, grid: sharp_rails(grid.servers, grid.rails, call.chunks),
    ("all-to-all", "direct"): lambda call, grid: all_to_all(len(grid.hosts), call.channels),
    ("all-to-all", "pxn"): lambda _, grid: rail_all_to_all(grid.servers, grid.rails),
    ("broadcast", "ring"): lambda call, grid: chain_broadcast(
        np.arange(len(grid.hosts)), call.chunks
    ),
    ("broadcast", "tree"): lambda call, grid: tree_broadcast(
        np.arange(len(grid.hosts)), call.chunks
    ),
    ("send", "direct"): lambda call, grid: send(
        0, len(grid.hosts) - 1, len(grid.hosts), call.channels
    ),
}


def schedule_of(call: CollectiveCall, grid: HostGrid) -> Schedule:
    """Return the messages of a collective.

    Raises:
        InputError: the algorithm does not support it.
    """
    builder = ALGORITHMS.get((call.collective, call.algorithm))
    if builder is None:
        can = sorted(algorithm for name, algorithm in ALGORITHMS if name == call.collective)
        raise InputError.one(
            "algorithm", f"no {call.algorithm} {call.collective}", f"use {' or '.join(can)}"
        )
    if len(grid.hosts) < 2:
        raise InputError.one("hosts", "a collective needs two hosts or more", "name more hosts")
    return builder(call, grid)


def collective_traffic(
    call: CollectiveCall, network: Network, hosts: Ints | None = None
) -> FlowSet:
    """Return a collective as flows over these hosts, by default all."""
    grid = grid_of(network, hosts)
    whole = whole_bytes(call.collective, call.size_bytes, len(grid.hosts))
    return to_traffic(schedule_of(call, grid), whole, grid.hosts, call.delay_s)
