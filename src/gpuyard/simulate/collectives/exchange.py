"""All-to-all, direct and along rails (PXN), and point-to-point messages."""

from __future__ import annotations

import numpy as np

from gpuyard.simulate.collectives.schedule import Ints, Schedule, joined, no_waits


def all_to_all(n: int, channels: int = 1) -> Schedule:
    """All-to-all at once; piece = target x n + source (times channels)."""
    channel, shift, source = (axis.ravel() for axis in np.indices((channels, n - 1, n)))
    target = (source + shift + 1) % n
    index, after = no_waits(len(source))
    one = np.ones(len(source), dtype=np.int64)
    return Schedule(
        rank_count=n,
        piece_count=n * n * channels,
        source=source,
        target=target,
        first_piece=channel * n * n + target * n + source,
        pieces=one,
        piece_stride=one,
        reduces=np.zeros(len(source), dtype=np.bool_),
        after_index=index,
        after=after,
        channel=channel,
    )


def rail_all_to_all(servers: int, rails: int) -> Schedule:
    """All-to-all in which no message changes rails in the network (PXN).

    A rank hands what is for rail j to its server's rank on rail j over NVLink; that one sends, for
    all its server, one message to each rank of its rail.
    """
    n = servers * rails
    rows: list[tuple[int, int, int, int, int]] = []
    waits: list[tuple[int, ...]] = []
    came: dict[int, list[int]] = {rank: [] for rank in range(n)}
    for source in range(n):
        for rail in range(rails):
            agent = source // rails * rails + rail
            if agent != source:
                came[agent].append(len(rows))
                rows.append((source, agent, rail * n + source, servers, rails * n))
                waits.append(())
    for agent in range(n):
        server, rail = divmod(agent, rails)
        for shift in range(1, servers):
            target = (server + shift) % servers * rails + rail
            rows.append((agent, target, target * n + server * rails, rails, 1))
            waits.append(tuple(came[agent]))
    index, after = joined(waits)
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    return Schedule(
        rank_count=n,
        piece_count=n * n,
        source=table[:, 0],
        target=table[:, 1],
        first_piece=table[:, 2],
        pieces=table[:, 3],
        piece_stride=table[:, 4],
        reduces=np.zeros(len(rows), dtype=np.bool_),
        after_index=index,
        after=after,
        channel=np.zeros(len(rows), dtype=np.int64),
    )


def send(source: int, target: int, rank_count: int, channels: int = 1) -> Schedule:
    """One rank's data to another, a share on each channel."""
    index, after = no_waits(channels)
    one = np.ones(channels, dtype=np.int64)
    number: Ints = np.arange(channels, dtype=np.int64)
    return Schedule(
        rank_count=rank_count,
        piece_count=channels,
        source=source * one,
        target=target * one,
        first_piece=number,
        pieces=one,
        piece_stride=one,
        reduces=np.zeros(channels, dtype=np.bool_),
        after_index=index,
        after=after,
        channel=number,
    )
