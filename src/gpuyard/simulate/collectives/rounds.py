"""Large symmetric collectives as repeated rounds of concurrent flows.

A ring over n ranks is one round of n flows repeated 2(n - 1) times; n² messages are never listed.
An all-to-all is an exchange: sizes and who takes part, no flows at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.simulate.collectives.compile import CollectiveCall, HostGrid
from gpuyard.simulate.collectives.ring import rail_orders, rotated_orders

Hosts = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """Concurrent flows; a host begins the next repetition when it has sent and received this one.

    Where `ring_length` is not 0, the flows are rings of that length listed one after the other, and
    a repetition on one ring does not wait for the others.
    """

    label: str
    source: Hosts
    target: Hosts
    channel: Hosts
    size_bytes: float  # of each flow
    repeat_count: int
    ring_length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exchange:
    """All-to-all within each column of hosts[server, rail], or among all of them."""

    label: str
    hosts: npt.NDArray[np.int64]
    size_bytes: float  # from each to each
    same_rail: bool


def rounds_of(call: CollectiveCall, grid: HostGrid) -> tuple[Round | Exchange, ...]:
    """Return the rounds of a collective.

    Raises:
        InputError: the algorithm has no rounds, only messages.
    """
    n, whole = len(grid.hosts), call.size_bytes
    halves = 2 if call.collective == "all-reduce" else 1
    if call.algorithm in ("ring", "rail-ring") and call.collective in (
        "all-reduce",
        "all-gather",
        "reduce-scatter",
    ):
        orders = rotated_orders(np.arange(n), call.channels)
        if call.algorithm == "rail-ring":
            orders = rail_orders(grid.servers, grid.rails, max(call.channels, grid.rails))
        return (_ring_round("ring", grid.hosts[orders], whole / n / len(orders), halves * (n - 1)),)
    if call.algorithm == "hierarchical" and call.collective in (
        "all-reduce",
        "all-gather",
        "reduce-scatter",
    ):
        return _levels(call, grid, halves)
    if call.algorithm == "nvls" and call.collective == "all-reduce":
        return _switched(call, grid)
    if call.algorithm == "direct" and call.collective == "all-to-all":
        square = grid.hosts.reshape(grid.servers, grid.rails)
        return (Exchange(label="all pairs", hosts=square, size_bytes=whole / n, same_rail=False),)
    if call.algorithm == "pxn" and call.collective == "all-to-all":
        return _rails(call, grid)
    raise InputError.one(
        "algorithm",
        f"{call.algorithm} {call.collective} has no rounds",
        "use its flows, or hierarchical or ring",
    )


def _ring_round(label: str, rings: npt.NDArray[np.int64], size_bytes: float, repeats: int) -> Round:
    """Rings given as rows of hosts; each row is a separate channel."""
    channel = np.repeat(np.arange(rings.shape[0]), rings.shape[1])
    return Round(
        label=label,
        source=rings.reshape(-1).astype(np.int32),
        target=np.roll(rings, -1, axis=1).reshape(-1).astype(np.int32),
        channel=channel.astype(np.int32),
        size_bytes=size_bytes,
        repeat_count=repeats,
        ring_length=rings.shape[1],
    )


def _inside(label: str, grid: HostGrid, size_bytes: float) -> Round:
    """Every host to every other of its server."""
    square = grid.hosts.reshape(grid.servers, grid.rails)
    pairs = [np.stack([square, np.roll(square, -shift, axis=1)]) for shift in range(1, grid.rails)]
    source, target = np.concatenate([pair.reshape(2, -1) for pair in pairs], axis=1).astype(
        np.int32
    )
    return Round(
        label=label,
        source=source,
        target=target,
        channel=np.zeros_like(source),
        size_bytes=size_bytes,
        repeat_count=1,
    )


def _between(grid: HostGrid, size_bytes: float, halves: int, channels: int) -> Round:
    """A ring along each rail, one for each channel."""
    columns = grid.hosts.reshape(grid.servers, grid.rails).T
    return _ring_round(
        "rails", np.tile(columns, (channels, 1)), size_bytes / channels, halves * (grid.servers - 1)
    )


def _levels(call: CollectiveCall, grid: HostGrid, halves: int) -> tuple[Round, ...]:
    part = call.size_bytes / grid.rails
    rounds: list[Round] = []
    if grid.rails > 1 and call.collective != "all-gather":
        rounds.append(_inside("reduce-scatter inside", grid, part))
    if grid.servers > 1:
        rounds.append(_between(grid, part / grid.servers, halves, call.channels))
    if grid.rails > 1 and call.collective != "reduce-scatter":
        rounds.append(_inside("all-gather inside", grid, part))
    return tuple(rounds)


def _switched(call: CollectiveCall, grid: HostGrid) -> tuple[Round, ...]:
    """The NVLink switches sum and copy; rings along the rails between servers."""
    square = grid.hosts.reshape(grid.servers, grid.rails)
    if grid.servers == 1:
        return (_ring_round("nvls", square, call.size_bytes * (grid.rails + 1) / grid.rails, 1),)
    between = _between(grid, call.size_bytes / grid.rails / grid.servers, 2, call.channels)
    return (
        _ring_round("nvls sum", square, call.size_bytes, 1),
        between,
        _ring_round("nvls copy", square, call.size_bytes, 1),
    )


def _rails(call: CollectiveCall, grid: HostGrid) -> tuple[Round | Exchange, ...]:
    """Over NVLink to the rail of the target, then along the rail."""
    square = grid.hosts.reshape(grid.servers, grid.rails)
    piece_bytes = call.size_bytes / len(grid.hosts)
    along = Exchange(
        label="rails", hosts=square, size_bytes=piece_bytes * grid.rails, same_rail=True
    )
    if grid.rails == 1:
        return (along,)
    inside = _inside("to the rail", grid, piece_bytes * grid.servers)
    return (inside, along) if grid.servers > 1 else (inside,)
