"""Messages of a collective between ranks with their dependencies, and as flows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.simulate.traffic import FlowSet

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedule:
    """Messages in an order in which none waits for a later one. The data is cut in equal pieces."""

    rank_count: int
    piece_count: int
    source: Ints
    target: Ints
    first_piece: Ints
    pieces: Ints  # carried by each message
    piece_stride: Ints  # between one piece of a message and its next
    reduces: npt.NDArray[np.bool_]  # added to what the target has, instead of replacing it
    after_index: Ints
    after: Ints
    channel: Ints

    def __len__(self) -> int:
        return len(self.source)


def no_waits(messages: int) -> tuple[Ints, Ints]:
    """The waits of messages that wait for nothing."""
    return np.zeros(messages + 1, dtype=np.int64), np.zeros(0, dtype=np.int64)


def joined(waits: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Waits as an index and one array."""
    index = np.zeros(len(waits) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in waits], out=index[1:])
    return index, np.array([item for row in waits for item in row], dtype=np.int64)


def to_traffic(
    schedule: Schedule, whole_bytes: float, hosts: Ints, delay_s: float = 0.0
) -> FlowSet:
    """Return the flows of a schedule over hosts (one per rank) for data of `whole_bytes`.

    Each message starts `delay_s` after those it waits for.
    """
    cut = schedule.piece_count
    first, last = schedule.first_piece, schedule.first_piece + schedule.pieces
    exact = np.floor(last * whole_bytes / cut) - np.floor(
        first * whole_bytes / cut
    )  # pieces add up to the whole
    spread = np.round(schedule.pieces * whole_bytes / cut)
    size = np.where(schedule.piece_stride == 1, exact, spread).astype(np.int64)
    return FlowSet(
        source=np.asarray(hosts)[schedule.source].astype(np.int32),
        target=np.asarray(hosts)[schedule.target].astype(np.int32),
        size_bytes=np.maximum(size, 1),
        start_s=np.full(len(schedule), delay_s),
        after_index=schedule.after_index,
        after=schedule.after.astype(np.int32),
        channel=schedule.channel.astype(np.int32),
    )


def in_parallel(parts: Sequence[Schedule], share_pieces: bool = False) -> Schedule:
    """Run schedules concurrently, each on separate pieces or all on the same ones."""
    base = np.cumsum([0, *(len(part) for part in parts)])
    cut = np.cumsum([0, *(0 if share_pieces else part.piece_count for part in parts)])
    steps = [np.diff(part.after_index) for part in parts]
    index = np.zeros(int(base[-1]) + 1, dtype=np.int64)
    np.cumsum(np.concatenate(steps), out=index[1:])
    return Schedule(
        rank_count=max(part.rank_count for part in parts),
        piece_count=parts[0].piece_count if share_pieces else int(cut[-1]),
        source=np.concatenate([part.source for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        first_piece=np.concatenate(
            [part.first_piece + at for part, at in zip(parts, cut, strict=False)]
        ),
        pieces=np.concatenate([part.pieces for part in parts]),
        piece_stride=np.concatenate([part.piece_stride for part in parts]),
        reduces=np.concatenate([part.reduces for part in parts]),
        after_index=index,
        after=np.concatenate([part.after + at for part, at in zip(parts, base, strict=False)]),
        channel=np.concatenate([part.channel for part in parts]),
    )


def in_sequence(first: Schedule, second: Schedule) -> Schedule:
    """Run two schedules on the same pieces, one after the other.

    A message of `second` that is not only forwarded waits for all that `first` sent its sender.
    """
    assert first.piece_count == second.piece_count, "both cut the data alike"
    into: dict[int, Ints] = {
        int(rank): np.flatnonzero(first.target == rank) for rank in np.unique(first.target)
    }
    both = in_parallel((first, second), share_pieces=True)
    nothing = np.zeros(0, dtype=np.int64)
    waits: list[Ints] = []
    own = np.flatnonzero(~_passed_on(second))
    for number in own:
        came = into.get(int(second.source[number]), nothing)
        waits.append(came[_overlaps(first, came, second, int(number))])
    return _with_waits(both, own + len(first), waits)


def _passed_on(schedule: Schedule) -> npt.NDArray[np.bool_]:
    """Messages that only forward copies: their senders contribute no data."""
    owner = np.repeat(np.arange(len(schedule)), np.diff(schedule.after_index))
    sums = np.bincount(owner, schedule.reduces[schedule.after], minlength=len(schedule)) > 0
    return ~schedule.reduces & ~sums & (np.diff(schedule.after_index) > 0)


def _overlaps(first: Schedule, came: Ints, second: Schedule, number: int) -> npt.NDArray[np.bool_]:
    """Which of the messages carry a piece that the message does too; strided ones are taken to."""
    low, count = second.first_piece[number], second.pieces[number]
    meet = (first.first_piece[came] < low + count) & (
        low < first.first_piece[came] + first.pieces[came]
    )
    strided = (first.piece_stride[came] != 1) | (second.piece_stride[number] != 1)
    return np.asarray(meet | strided, dtype=np.bool_)


def _with_waits(schedule: Schedule, messages: Ints, waits: Sequence[Ints]) -> Schedule:
    """The schedule where some messages wait for more."""
    counts = np.diff(schedule.after_index)
    more = np.zeros(len(schedule), dtype=np.int64)
    more[messages] = [len(row) for row in waits]
    owner = np.concatenate(
        [np.repeat(np.arange(len(schedule)), counts), np.repeat(messages, more[messages])]
    )
    after = np.concatenate([schedule.after, *waits]) if len(waits) else schedule.after
    index = np.zeros(len(schedule) + 1, dtype=np.int64)
    np.cumsum(counts + more, out=index[1:])
    return replace(schedule, after_index=index, after=after[np.argsort(owner, kind="stable")])


def pipelined(schedule: Schedule, times: int) -> Schedule:
    """Pipeline a schedule in `times` chunks: a message waits for itself in the previous chunk."""
    if times == 1:
        return schedule
    parts = in_parallel([schedule] * times)
    count = len(schedule)
    messages = np.arange(count, count * times)
    return _with_waits(parts, messages, list((messages - count).reshape(-1, 1)))


def embedded(
    schedule: Schedule, ranks: Ints, first_piece: int, piece_count: int, scale: int = 1
) -> Schedule:
    """Embed a schedule in more ranks and pieces; each of its pieces becomes `scale` of them."""
    chosen = np.asarray(ranks, dtype=np.int64)
    return replace(
        schedule,
        rank_count=int(chosen.max()) + 1,
        piece_count=piece_count,
        source=chosen[schedule.source],
        target=chosen[schedule.target],
        first_piece=schedule.first_piece * scale + first_piece,
        pieces=schedule.pieces * scale,
        piece_stride=schedule.piece_stride,
    )
