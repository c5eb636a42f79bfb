"""What the compiled engine keeps: columns of its integer and real tables, queues as linked lists, a heap of finishes.

Tables are plain arrays so that compiled code can hold them; a column has a name here and nowhere else.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled, compiled_within

__all__ = ["Ints", "Reals"]

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# Of a request (first index of `req`)
(
    PROMPT, OUTPUT, CACHED,  # tokens of prompt and output; prompt tokens that are in the cache already
    NEXT,  # the request behind it in its queue
    TARGET, DONE,  # tokens to prefill now, and prefilled so far
    GIVEN,  # output tokens so far
    BLOCKS,  # held
    ORDER,  # of admission
    PREEMPTIONS,
    REPLICA,
    ARRIVE_ENTRY, FIRST_ENTRY, FINISH_ENTRY,  # timeline entries
    DUE,  # steps of its replica after which it is there
    REQUEST_INTS,
) = range(16)  # fmt: skip
ARRIVED, STARTED, FIRST, FINISHED, READY, REQUEST_REALS = range(6)  # of a request (first index of `times`)

# Of a replica (second index of `rep`)
(
    WAIT_HEAD, WAIT_TAIL, WAITING,  # queue of requests
    FILL_HEAD, FILL_TAIL, FILLING,  # prompts in progress
    DECODING, ITERATION,  # sequences that decode; decode steps so far
    FREE,  # cache blocks
    ADMITTED,  # sequences so far
    LATE_HEAD, LATE_TAIL, LATE,  # requests on their way from users
    MADE,  # steps so far
    REPLICA_INTS,
) = range(15)  # fmt: skip
CLOCK, CONTEXT, REPLICA_REALS = range(3)  # of a replica: time, cached tokens of its decoding sequences

# Of a replica's policy (second index of `policy`)
(
    MAX_SEQS, BUDGET, BLOCK, CAPACITY, EXTRA, MIXES, CHUNKS, RESERVES, ROLE,
    LAG,  # steps that begin before a user's next request is there
    BEAMS,  # tokens that a step adds to a sequence's cache; divides BLOCK
    POLICY_INTS,
) = range(12)  # fmt: skip
BOTH, PREFILL, DECODE = 0, 1, 2  # roles

# Of a timeline entry (second index of `line`)
(
    AT, STEPS, STEP_S, PREFILL_TOKENS, PREFILL_PAIRS, DECODE_SEQS, KV_TOKENS, SAMPLED, QUEUE, RUNNING, USED_BLOCKS,
    ON_REPLICA, LINE_REALS,
) = range(13)  # fmt: skip

NONE = -1


@compiled_within
def _append(req: Ints, rep: Ints, r: int, i: int, head: int, tail: int, count: int) -> None:
    """Puts a request at the end of one of a replica's queues, which its columns name."""
    req[NEXT, i] = NONE
    if rep[r, head] == NONE:
        rep[r, head] = i
    else:
        req[NEXT, rep[r, tail]] = i
    rep[r, tail] = i
    rep[r, count] += 1


@compiled
def push_wait(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Puts a request at the end of a replica's queue."""
    _append(req, rep, r, i, WAIT_HEAD, WAIT_TAIL, WAITING)


@compiled
def push_wait_front(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Puts a request at the head of a replica's queue."""
    req[NEXT, i] = rep[r, WAIT_HEAD]
    if rep[r, WAIT_HEAD] == NONE:
        rep[r, WAIT_TAIL] = i
    rep[r, WAIT_HEAD] = i
    rep[r, WAITING] += 1


@compiled
def pop_wait(req: Ints, rep: Ints, r: int) -> int:
    """Takes the head of a replica's queue."""
    i = rep[r, WAIT_HEAD]
    rep[r, WAIT_HEAD] = req[NEXT, i]
    if rep[r, WAIT_HEAD] == NONE:
        rep[r, WAIT_TAIL] = NONE
    rep[r, WAITING] -= 1
    return int(i)


@compiled
def push_late(req: Ints, rep: Ints, r: int, i: int, lag: int) -> None:
    """Puts a request on its way to a replica: it is there when `lag` more steps have begun."""
    req[DUE, i] = rep[r, MADE] + lag
    _append(req, rep, r, i, LATE_HEAD, LATE_TAIL, LATE)


@compiled
def land(req: Ints, rep: Ints, r: int) -> None:
    """Puts requests that are there by now into the queue; all of them where a replica has nothing else to do."""
    idle = rep[r, WAITING] + rep[r, FILLING] + rep[r, DECODING] == 0
    while rep[r, LATE] > 0 and (idle or req[DUE, rep[r, LATE_HEAD]] <= rep[r, MADE]):
        i = rep[r, LATE_HEAD]
        rep[r, LATE_HEAD] = req[NEXT, i]
        rep[r, LATE] -= 1
        push_wait(req, rep, r, i)


@compiled
def push_fill(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Puts an admitted request at the end of the prompts in progress."""
    _append(req, rep, r, i, FILL_HEAD, FILL_TAIL, FILLING)


@compiled
def pop_fill_last(req: Ints, rep: Ints, r: int) -> int:
    """Takes the prompt in progress that was admitted last."""
    i, before = rep[r, FILL_TAIL], rep[r, FILL_HEAD]
    if before == i:
        rep[r, FILL_HEAD], rep[r, FILL_TAIL] = NONE, NONE
    else:
        while req[NEXT, before] != i:
            before = req[NEXT, before]
        req[NEXT, before] = NONE
        rep[r, FILL_TAIL] = before
    rep[r, FILLING] -= 1
    return int(i)


@compiled
def heap_push(keys: Ints, items: Ints, size: int, key: int, item: int) -> None:
    """Adds to a binary heap of `size` items, smallest key first."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if keys[up] <= key:
            break
        keys[at], items[at] = keys[up], items[up]
        at = up
    keys[at], items[at] = key, item


@compiled
def heap_remove(keys: Ints, items: Ints, size: int, at: int) -> None:
    """Takes out the item at a place of a heap of `size` items."""
    last = size - 1
    key, item = keys[last], items[last]
    while at > 0 and keys[(at - 1) // 2] > key:
        up = (at - 1) // 2
        keys[at], items[at] = keys[up], items[up]
        at = up
    while True:
        down = 2 * at + 1
        if down >= last:
            break
        if down + 1 < last and keys[down + 1] < keys[down]:
            down += 1
        if keys[down] >= key:
            break
        keys[at], items[at] = keys[down], items[down]
        at = down
    keys[at], items[at] = key, item
