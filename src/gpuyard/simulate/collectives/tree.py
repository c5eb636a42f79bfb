"""Tree algorithms: NCCL's double binary tree (Sanders, Speck, Träff 2009), and broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyard.simulate.collectives.schedule import Ints, Schedule, in_parallel, joined, pipelined

Message = tuple[int, int, bool, tuple[int, ...]]  # source, target, reduces, waits


def parents(n: int) -> tuple[int, ...]:
    """Return each rank's parent in the binary tree with even leaves; -1 for the root, rank 0."""
    result = [-1]
    for rank in range(1, n):
        bit = rank & -rank
        up = (rank ^ bit) | (bit << 1)
        result.append(up if up < n else rank ^ bit)
    return tuple(result)


def second_parents(n: int) -> tuple[int, ...]:
    """Return the complementary tree: mirrored if n is even, shifted if it is odd."""
    first = parents(n)
    if n % 2 == 0:
        return tuple(n - 1 - up if (up := first[n - 1 - rank]) >= 0 else -1 for rank in range(n))
    return tuple((up + 1) % n if (up := first[(rank - 1) % n]) >= 0 else -1 for rank in range(n))


def double_tree(ranks: Ints, times: int = 1, channels: int = 1) -> Schedule:
    """All-reduce: two trees each take half of the data up and down, in `times` pipelined chunks."""
    n = len(ranks)
    trees = [
        pipelined(_up_down(parent, ranks, 2 * channel + number), times)
        for channel in range(channels)
        for number, parent in enumerate((parents(n), second_parents(n)))
    ]
    return in_parallel(trees)


def tree_broadcast(ranks: Ints, times: int = 1, channel: int = 0) -> Schedule:
    """From the first rank down a binary tree."""
    tree = parents(len(ranks))
    messages: list[Message] = []
    _down(tree, 0, (), messages)
    return pipelined(_schedule(messages, ranks, channel), times)


def _up_down(parent: Sequence[int], ranks: Ints, channel: int) -> Schedule:
    """One piece up the tree to its root, and down again."""
    root = parent.index(-1)
    messages: list[Message] = []
    arrived = _up(parent, root, messages)
    _down(parent, root, arrived, messages)
    return _schedule(messages, ranks, channel)


def _up(parent: Sequence[int], node: int, messages: list[Message]) -> tuple[int, ...]:
    """Sends the sums below a node to it; gives the messages that it then has."""
    arrived = []
    for child in (rank for rank, up in enumerate(parent) if up == node):
        below = _up(parent, child, messages)
        messages.append((child, node, True, below))
        arrived.append(len(messages) - 1)
    return tuple(arrived)


def _down(
    parent: Sequence[int], node: int, waits: tuple[int, ...], messages: list[Message]
) -> None:
    """Sends what a node has to all below it."""
    for child in (rank for rank, up in enumerate(parent) if up == node):
        messages.append((node, child, False, waits))
        _down(parent, child, (len(messages) - 1,), messages)


def _schedule(messages: Sequence[Message], ranks: Ints, channel: int) -> Schedule:
    index, after = joined([message[3] for message in messages])
    one = np.ones(len(messages), dtype=np.int64)
    return Schedule(
        rank_count=len(ranks),
        piece_count=1,
        source=np.asarray(ranks)[[message[0] for message in messages]].astype(np.int64),
        target=np.asarray(ranks)[[message[1] for message in messages]].astype(np.int64),
        first_piece=0 * one,
        pieces=one,
        piece_stride=one,
        reduces=np.array([message[2] for message in messages], dtype=np.bool_),
        after_index=index,
        after=after,
        channel=one * channel,
    )
