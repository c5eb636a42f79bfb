"""Ring algorithms: reduce-scatter, all-gather, all-reduce, broadcast."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpuyard.simulate.collectives.schedule import Ints, Schedule, no_waits, pipelined

Part = Literal["reduce-scatter", "all-gather", "all-reduce"]


def ring(part: Part, orders: Ints) -> Schedule:
    """One ring per row of `orders`, each on its share of the data; piece r of a share is rank r's.

    Reduce-scatter: piece q leaves q's successor and gathers the sum on its way to q. All-gather: it
    goes on from q.
    """
    channels, n = orders.shape
    scatter = n - 1 if part != "all-gather" else 0
    steps = scatter + (n - 1 if part != "reduce-scatter" else 0)
    channel, step, place = (axis.ravel() for axis in np.indices((channels, steps, n)))
    gathering = step >= scatter
    at = np.where(gathering, place - (step - scatter), place - step - 1) % n
    waits = step > 0
    number = np.arange(len(step))
    before = number - n - place + (place - 1) % n  # what came in during the step before
    index = np.zeros(len(step) + 1, dtype=np.int64)
    np.cumsum(waits, out=index[1:])
    return Schedule(
        rank_count=n,
        piece_count=n * channels,
        source=orders[channel, place],
        target=orders[channel, (place + 1) % n],
        first_piece=channel * n + _rank_place(orders)[channel, at],
        pieces=np.ones(len(step), dtype=np.int64),
        piece_stride=np.ones(len(step), dtype=np.int64),
        reduces=~gathering,
        after_index=index,
        after=before[waits],
        channel=channel,
    )


def _rank_place(orders: Ints) -> Ints:
    """The rank at each place, as a number among the ranks of the ring."""
    ranks = np.sort(orders[0])
    return np.searchsorted(ranks, orders)


def rotated_orders(ranks: Ints, channels: int = 1) -> Ints:
    """The same ring for each channel."""
    return np.tile(np.asarray(ranks, dtype=np.int64), (channels, 1))


def rail_orders(servers: int, rails: int, channels: int) -> Ints:
    """Rings that cross between servers on one rail, a different one for each channel.

    A ring enters a server on the rail on which it left the one before. Two rails take turns; with
    an odd number of servers a third one closes the ring. Where there are only two, that last
    crossing changes rails.
    """
    rows = []
    for channel in range(channels):
        entry = [(channel + server % 2) % rails for server in range(servers)]
        if servers % 2 and servers > 1:
            entry[-1] = (channel + 2) % rails
        row: list[int] = []
        for server in range(servers):
            leave = entry[(server + 1) % servers]
            inner = [(entry[server] + shift) % rails for shift in range(rails)]
            if leave != entry[server]:
                inner = [rail for rail in inner if rail != leave] + [leave]
            row += [server * rails + rail for rail in inner]
        rows.append(row)
    return np.array(rows, dtype=np.int64)


def chain_broadcast(ranks: Ints, times: int = 1, channel: int = 0) -> Schedule:
    """Broadcast from the first rank along the others, in `times` pipelined chunks."""
    n = len(ranks)
    index, _ = no_waits(n - 1)
    index[1:] = np.arange(n - 1)
    one = np.ones(n - 1, dtype=np.int64)
    once = Schedule(
        rank_count=n,
        piece_count=1,
        source=np.asarray(ranks[:-1], dtype=np.int64),
        target=np.asarray(ranks[1:], dtype=np.int64),
        first_piece=np.zeros(n - 1, dtype=np.int64),
        pieces=one,
        piece_stride=one,
        reduces=np.zeros(n - 1, dtype=np.bool_),
        after_index=index,
        after=np.arange(n - 2, dtype=np.int64),
        channel=one * channel,
    )
    return pipelined(once, times)
