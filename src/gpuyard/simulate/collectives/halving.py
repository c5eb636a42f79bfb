"""Recursive halving and doubling (Rabenseifner 2004)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gpuyard.simulate.collectives.schedule import Ints, Schedule, joined

Part = Literal["reduce-scatter", "all-gather", "all-reduce"]
Row = tuple[
    int, int, int, int, bool, tuple[int, ...]
]  # source, target, first piece, pieces, reduces, waits


def halving_doubling(part: Part, ranks: Ints, channel: int = 0) -> Schedule:
    """The collective over any number of ranks for all-reduce, over a power of two for its halves.

    Ranks beyond a power of two hand their data to a neighbour first and get the result at the end.
    """
    n = len(ranks)
    power = 1 << (n.bit_length() - 1)
    extra = n - power
    assert part == "all-reduce" or not extra, "reduce-scatter and all-gather need a power of two"
    core = [
        2 * i if i < extra else i + extra for i in range(power)
    ]  # the ranks that take part in the exchanges
    rows: list[Row] = []
    came: dict[int, list[int]] = {rank: [] for rank in range(n)}
    for i in range(extra):
        _add(rows, came, (2 * i + 1, 2 * i, 0, power, True, ()))
    if part != "all-gather":
        _halve(rows, came, core)
    if part != "reduce-scatter":
        _double(rows, came, core)
    for i in range(extra):
        _add(rows, came, (2 * i, 2 * i + 1, 0, power, False, tuple(came[2 * i])))
    return _schedule(rows, ranks, power, channel)


def _add(rows: list[Row], came: dict[int, list[int]], row: Row) -> None:
    rows.append(row)
    came[row[1]].append(len(rows) - 1)


def _halve(rows: list[Row], came: dict[int, list[int]], core: list[int]) -> None:
    """Each sends the half of its range that is not its own to the rank in it, then halves again."""
    half = len(core) // 2
    while half:
        waits = [tuple(came[rank]) for rank in core]
        for place, rank in enumerate(core):
            other = place ^ half
            _add(rows, came, (rank, core[other], other // half * half, half, True, waits[place]))
        half //= 2


def _double(rows: list[Row], came: dict[int, list[int]], core: list[int]) -> None:
    """Each rank sends its range to its neighbour, then twice as far."""
    reach = 1
    while reach < len(core):
        waits = [tuple(came[rank]) for rank in core]
        for place, rank in enumerate(core):
            _add(
                rows,
                came,
                (rank, core[place ^ reach], place // reach * reach, reach, False, waits[place]),
            )
        reach *= 2


def _schedule(rows: list[Row], ranks: Ints, pieces: int, channel: int) -> Schedule:
    index, after = joined([row[5] for row in rows])
    table = np.array([row[:4] for row in rows], dtype=np.int64).reshape(-1, 4)
    order = np.asarray(ranks, dtype=np.int64)
    return Schedule(
        rank_count=len(ranks),
        piece_count=pieces,
        source=order[table[:, 0]],
        target=order[table[:, 1]],
        first_piece=table[:, 2],
        pieces=table[:, 3],
        piece_stride=np.ones(len(rows), dtype=np.int64),
        reduces=np.array([row[4] for row in rows], dtype=np.bool_),
        after_index=index,
        after=after,
        channel=np.full(len(rows), channel, dtype=np.int64),
    )
