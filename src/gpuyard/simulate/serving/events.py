"""Event loop over replicas: arrivals, routing, iterations, KV-cache transfers.

Idea. Every replica has its own clock. The replica with work and the earliest clock runs next, one
iteration of continuous batching at a time; decode iterations that only extend context lengths are
aggregated (`decode_run`). Arrivals and transferred requests are routed before any
replica passes their time.

Invariant. Events of one replica are handled in order of time, and the blocks of running requests
plus the free blocks of a replica are its KV-cache capacity.
"""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
from gpuyard.perf.inference.step import step_time_s
from gpuyard.simulate.serving import state
from gpuyard.simulate.serving.queues import admit_arrived, push_in_transit, push_waiting
from gpuyard.simulate.serving.replica import (
    allocated_blocks,
    begin_decode,
    decode_run,
    end_decode,
    grown_blocks,
    preempt,
    schedule_prefill,
)
from gpuyard.simulate.serving.state import Ints, Reals, Tables

ROUND_ROBIN, LEAST_OUTSTANDING, SHORTEST_QUEUE = 0, 1, 2
INITIAL_ENTRIES = 4096  # of the timeline, which grows
UNLIMITED = 1 << 60  # steps
SENT, FINISHED, PENDING = 0, 1, 2  # of requests, in a tally


@jit
def _route(rep: Ints, policy: Ints, role: int, router: int, turn: int) -> int:
    """Return the replica of a role for the next request; `turn` breaks ties and rotates."""
    count = rep.shape[0]
    best, lowest = state.NONE, np.inf
    for step in range(count):
        r = (turn + step) % count
        if policy[r, state.ROLE] != role:
            continue
        if router == ROUND_ROBIN:
            return int(r)
        load = rep[r, state.WAITING] + 1e-3 * (rep[r, state.FILLING] + rep[r, state.DECODING])
        if router == LEAST_OUTSTANDING:
            load = float(rep[r, state.WAITING] + rep[r, state.FILLING] + rep[r, state.DECODING])
        if load < lowest:
            best, lowest = r, load
    return int(best)


@jit
def _join(
    req: Ints, rep: Ints, real: Reals, r: int, i: int, now: float, entry: int, ahead: int
) -> None:
    """Put a request that arrives `now` into a replica's queue.

    `ahead`: steps after the current one that a busy replica has already scheduled without it.
    """
    idle = (
        rep[r, state.WAITING]
        + rep[r, state.FILLING]
        + rep[r, state.DECODING]
        + rep[r, state.TRANSIT]
        == 0
    )
    if idle and real[r, state.CLOCK] < now:
        real[r, state.CLOCK] = now
    req[state.REPLICA, i] = r
    if req[state.GENERATED, i] == 0:
        req[state.ARRIVE_ENTRY, i] = entry
    if idle or ahead == 0:
        push_waiting(req, rep, r, i)
    else:
        push_in_transit(req, rep, r, i, ahead)


@jit(allocates=False)
def _run_iteration(row: Reals, tables: Tables, r: int, until: float, entry: Reals) -> int:
    """Run the next iteration of a replica, or several equal ones; return their number."""
    req, rep, real = tables.req, tables.rep, tables.real
    policy, phase = tables.policy, tables.phase
    admit_arrived(req, rep, r)
    mixes, optimistic = policy[r, state.MIXES] == 1, policy[r, state.RESERVES] == 0
    if optimistic:
        while (
            rep[r, state.DECODING] + rep[r, state.FILLING] > 1
            and grown_blocks(phase, policy, rep, r, 1) > rep[r, state.FREE]
        ):
            preempt(tables, r)
    ahead = grown_blocks(phase, policy, rep, r, 1) if mixes else 0
    rep[r, state.FREE] -= ahead
    tokens, pairs = schedule_prefill(tables, r)
    rep[r, state.FREE] += ahead
    seqs = rep[r, state.DECODING] if mixes or tokens == 0.0 else 0
    grown = float(seqs * policy[r, state.BEAMS])
    entry[state.AT], entry[state.PREFILL_TOKENS], entry[state.PREFILL_PAIRS] = (
        real[r, state.CLOCK],
        tokens,
        pairs,
    )
    entry[state.DECODE_SEQS], entry[state.QUEUE], entry[state.ON_REPLICA] = (
        seqs,
        rep[r, state.WAITING],
        r,
    )
    entry[state.RUNNING] = rep[r, state.DECODING] + rep[r, state.FILLING]
    entry[state.USED_BLOCKS] = policy[r, state.CAPACITY] - rep[r, state.FREE]
    steps = 1
    if tokens == 0.0:
        if seqs == 0:
            return 0
        max_steps = (
            req[state.DUE, rep[r, state.TRANSIT_HEAD]] - rep[r, state.STEP_COUNT]
            if rep[r, state.TRANSIT] > 0
            else UNLIMITED
        )
        steps, step_s = decode_run(row, rep, real, tables.keys, policy, r, until, max_steps)
        entry[state.KV_TOKENS] = real[r, state.CONTEXT] + grown * 0.5 * (steps + 1)
        entry[state.SAMPLED] = seqs
    else:
        done = 0
        i = rep[r, state.FILL_HEAD]
        while i != state.NONE and req[state.DONE, i] >= req[state.TARGET, i]:
            done += 1
            i = req[state.NEXT, i]
        entry[state.KV_TOKENS] = real[r, state.CONTEXT] + grown if seqs > 0 else 0.0
        entry[state.SAMPLED] = seqs + done
        step_s = step_time_s(
            row, tokens, pairs, float(seqs), entry[state.KV_TOKENS], float(seqs + done)
        )
    entry[state.STEPS], entry[state.STEP_S] = steps, step_s
    if seqs > 0:
        rep[r, state.FREE] -= grown_blocks(phase, policy, rep, r, steps)
        rep[r, state.ITERATION] += steps
        real[r, state.CONTEXT] += grown * steps
    real[r, state.CLOCK] += steps * step_s
    rep[r, state.STEP_COUNT] += steps
    return int(steps)


@jit(allocates=False)
def _complete(tables: Tables, r: int, entry: int, left: Ints) -> int:
    """Handle first tokens and completions after an iteration; return how many requests left."""
    req, times, rep = tables.req, tables.times, tables.rep
    real, policy, keys = tables.real, tables.policy, tables.keys
    count, now = 0, real[r, state.CLOCK]
    while rep[r, state.DECODING] > 0 and keys[r, 0] <= rep[r, state.ITERATION]:
        i = end_decode(tables, r, 0)
        rep[r, state.FREE] += allocated_blocks(req, policy, r, i)
        left[count] = i
        count += 1
    while rep[r, state.FILL_HEAD] != state.NONE:
        i = rep[r, state.FILL_HEAD]
        if req[state.DONE, i] < req[state.TARGET, i]:
            break
        rep[r, state.FILL_HEAD] = req[state.NEXT, i]
        if rep[r, state.FILL_HEAD] == state.NONE:
            rep[r, state.FILL_TAIL] = state.NONE
        rep[r, state.FILLING] -= 1
        last = req[state.GENERATED, i] + 1 >= req[state.OUTPUT, i]
        if times[state.FIRST, i] < 0.0 and (last or policy[r, state.ROLE] != state.PREFILL):
            times[state.FIRST, i] = now  # else the decode pool emits it after the KV transfer
            req[state.FIRST_ENTRY, i] = entry
        req[state.GENERATED, i] += 1
        if (
            req[state.GENERATED, i] >= req[state.OUTPUT, i]
            or policy[r, state.ROLE] == state.PREFILL
        ):
            rep[r, state.FREE] += req[state.BLOCKS, i]
            left[count] = i
            count += 1
        else:
            begin_decode(tables, r, i)
    return count


@jit
def _next_replica(rep: Ints, real: Reals) -> tuple[int, float]:
    """Return the replica with work and the earliest clock, and the earliest clock of the others."""
    best, first, second = state.NONE, np.inf, np.inf
    for r in range(rep.shape[0]):
        if (
            rep[r, state.WAITING]
            + rep[r, state.FILLING]
            + rep[r, state.DECODING]
            + rep[r, state.TRANSIT]
            == 0
        ):
            continue
        if real[r, state.CLOCK] < first:
            best, first, second = r, real[r, state.CLOCK], first
        elif real[r, state.CLOCK] < second:
            second = real[r, state.CLOCK]
    return int(best), second


@jit
def _insert(queue: Ints, count: int, times: Reals, i: int) -> None:
    """Insert a request into the pending list, which is sorted by state.READY, latest first."""
    at = count
    while at > 0 and times[state.READY, queue[at - 1]] < times[state.READY, i]:
        queue[at] = queue[at - 1]
        at -= 1
    queue[at] = i


@jit
def _grown(entries: Reals, used: int) -> Reals:
    if used < entries.shape[0]:
        return entries
    more = np.empty((2 * used, state.LINE_REALS))
    for row in range(used):
        for column in range(state.LINE_REALS):
            more[row, column] = entries[row, column]
    return more


@jit(allocates=False)
def _leave(
    tables: Tables,
    r: int,
    used: int,
    left: Ints,
    queue: Ints,
    users: int,
    transfer: Reals,
    tally: Ints,
) -> None:
    """Move requests to the decode pool or complete them; a user then sends the next one.

    `tally` counts requests: sent, finished, pending between pools.
    """
    req, times, rep = tables.req, tables.times, tables.rep
    real, policy = tables.real, tables.policy
    now, pools = real[r, state.CLOCK], policy[0, state.ROLE] != state.BOTH
    for i in left:
        if (
            policy[r, state.ROLE] == state.PREFILL
            and req[state.GENERATED, i] < req[state.OUTPUT, i]
        ):
            times[state.READY, i] = now + transfer[0] + transfer[1] * req[state.PROMPT, i]
            _insert(queue, tally[PENDING], times, i)
            tally[PENDING] += 1
            continue
        times[state.FINISHED, i] = now
        req[state.FINISH_ENTRY, i] = used
        tally[FINISHED] += 1
        following = tally[SENT]
        if users == 0 or following == req.shape[1]:
            continue
        tally[SENT] += 1
        times[state.ARRIVED, following] = now
        if pools:
            times[state.READY, following] = now
            _insert(queue, tally[PENDING], times, following)
            tally[PENDING] += 1
        else:
            req[state.REPLICA, following], req[state.ARRIVE_ENTRY, following] = r, used + 1
            push_in_transit(req, rep, r, following, policy[r, state.LAG])


@jit
def _burst(
    req: Ints, times: Reals, rep: Ints, real: Reals, policy: Ints, users: int, role: int
) -> int:
    """Send the first request of every user at once; return the number of requests."""
    turn = 0
    count = int(min(users, req.shape[1]))
    for i in range(count):
        times[state.ARRIVED, i] = 0.0
        r = _route(rep, policy, role, ROUND_ROBIN, turn)
        _join(req, rep, real, r, i, 0.0, 0, 0)
        turn = r + 1
    return count


@jit
def serve(
    rows: Reals, tables: Tables, router: int, users: int, transfer: Reals, keep: bool
) -> tuple[Reals, int]:
    """Serve all requests; return the timeline and the number of its entries.

    Args:
        rows: coefficients of the step-time model, one row per replica.
        tables: requests and replicas.
        router: the routing policy.
        users: 0 for open-loop arrivals in the order of state.ARRIVED; otherwise the number of
            concurrent users, each of which sends a request when its last one completes.
        transfer: seconds of a KV-cache transfer between pools: fixed, and per token.
        keep: record the timeline.
    """
    req, times, rep = tables.req, tables.times, tables.rep
    real, policy = tables.real, tables.policy
    total, pools = req.shape[1], policy[0, state.ROLE] != state.BOTH
    first = state.PREFILL if pools else state.BOTH
    entries = np.empty((INITIAL_ENTRIES if keep else 1, state.LINE_REALS))
    queue, left = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    tally, turns, used = (
        np.zeros(3, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        0,
    )  # turns: of each role
    tally[SENT] = _burst(req, times, rep, real, policy, users, first)
    while tally[FINISHED] < total:
        r, other = _next_replica(rep, real)
        sent, pending = tally[SENT], tally[PENDING]
        arrival = times[state.ARRIVED, sent] if users == 0 and sent < total else np.inf
        ready = times[state.READY, queue[pending - 1]] if pending > 0 else np.inf
        soonest = min(arrival, ready)
        if r == state.NONE or soonest <= real[r, state.CLOCK]:
            if soonest == np.inf:
                break  # deadlock: a request fits no replica
            i = sent if arrival <= ready else queue[pending - 1]
            tally[SENT if arrival <= ready else PENDING] += 1 if arrival <= ready else -1
            role = state.DECODE if req[state.GENERATED, i] > 0 else first
            r = _route(rep, policy, role, router, turns[role])
            turns[role] = r + 1
            ahead = policy[r, state.LAG] - 1 if role != state.DECODE else 0
            _join(req, rep, real, r, i, soonest, used, ahead)
            continue
        if keep:
            entries = _grown(entries, used)
        until = min(soonest, other) if pools else soonest
        entry = entries[used if keep else 0]
        steps = _run_iteration(rows[r], tables, r, until, entry)
        count = _complete(tables, r, used, left)
        if steps == 0 and count == 0:
            break
        _leave(tables, r, used, left[:count], queue, users, transfer, tally)
        used += 1
    return entries, used
