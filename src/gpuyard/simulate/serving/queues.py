"""Kernels on the tables of `state`: queues as linked lists, a heap of completions."""

from __future__ import annotations

from gpuyard.jit import jit
from gpuyard.simulate.serving.state import (
    DECODING,
    DUE,
    FILL_HEAD,
    FILL_TAIL,
    FILLING,
    NEXT,
    NONE,
    STEP_COUNT,
    TRANSIT,
    TRANSIT_HEAD,
    TRANSIT_TAIL,
    WAIT_HEAD,
    WAIT_TAIL,
    WAITING,
    Ints,
)


@jit(forceinline=True)
def _append(req: Ints, rep: Ints, r: int, i: int, head: int, tail: int, count: int) -> None:
    """Append a request to the queue of a replica with these columns."""
    req[NEXT, i] = NONE
    if rep[r, head] == NONE:
        rep[r, head] = i
    else:
        req[NEXT, rep[r, tail]] = i
    rep[r, tail] = i
    rep[r, count] += 1


@jit
def push_waiting(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Append a request to a replica's queue."""
    _append(req, rep, r, i, WAIT_HEAD, WAIT_TAIL, WAITING)


@jit
def push_wait_front(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Insert a request at the head of a replica's queue."""
    req[NEXT, i] = rep[r, WAIT_HEAD]
    if rep[r, WAIT_HEAD] == NONE:
        rep[r, WAIT_TAIL] = i
    rep[r, WAIT_HEAD] = i
    rep[r, WAITING] += 1


@jit
def pop_wait(req: Ints, rep: Ints, r: int) -> int:
    """Remove the head of a replica's queue."""
    i = rep[r, WAIT_HEAD]
    rep[r, WAIT_HEAD] = req[NEXT, i]
    if rep[r, WAIT_HEAD] == NONE:
        rep[r, WAIT_TAIL] = NONE
    rep[r, WAITING] -= 1
    return int(i)


@jit
def push_in_transit(req: Ints, rep: Ints, r: int, i: int, lag: int) -> None:
    """Send a request to a replica: it arrives when `lag` more iterations have started."""
    req[DUE, i] = rep[r, STEP_COUNT] + lag
    _append(req, rep, r, i, TRANSIT_HEAD, TRANSIT_TAIL, TRANSIT)


@jit
def admit_arrived(req: Ints, rep: Ints, r: int) -> None:
    """Queue the requests that have arrived; all of them if the replica is idle."""
    idle = rep[r, WAITING] + rep[r, FILLING] + rep[r, DECODING] == 0
    while rep[r, TRANSIT] > 0 and (idle or req[DUE, rep[r, TRANSIT_HEAD]] <= rep[r, STEP_COUNT]):
        i = rep[r, TRANSIT_HEAD]
        rep[r, TRANSIT_HEAD] = req[NEXT, i]
        rep[r, TRANSIT] -= 1
        push_waiting(req, rep, r, i)


@jit
def push_prefilling(req: Ints, rep: Ints, r: int, i: int) -> None:
    """Append an admitted request to the prompts in progress."""
    _append(req, rep, r, i, FILL_HEAD, FILL_TAIL, FILLING)


@jit
def pop_fill_last(req: Ints, rep: Ints, r: int) -> int:
    """Remove the prompt in progress that was admitted last."""
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


@jit
def heap_push(keys: Ints, items: Ints, size: int, key: int, item: int) -> None:
    """Add to a binary heap of `size` items, smallest key first."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if keys[up] <= key:
            break
        keys[at], items[at] = keys[up], items[up]
        at = up
    keys[at], items[at] = key, item


@jit
def heap_remove(keys: Ints, items: Ints, size: int, at: int) -> None:
    """Remove the item at a position of a heap of `size` items."""
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
