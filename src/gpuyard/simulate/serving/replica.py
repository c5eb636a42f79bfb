"""One replica: paged KV-cache admission, batching, decode, preemption. Compiled."""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
from gpuyard.perf.inference.step import step_time_s
from gpuyard.simulate.serving import state
from gpuyard.simulate.serving.queues import (
    heap_push,
    heap_remove,
    pop_fill_last,
    pop_wait,
    push_prefilling,
    push_wait_front,
)
from gpuyard.simulate.serving.state import Ints, Reals, Tables


@jit
def context_tokens(req: Ints, policy: Ints, r: int, i: int) -> int:
    """Return the cached tokens of a request: prompt and all but the last output, per beam."""
    return int(req[state.PROMPT, i] + policy[r, state.BEAMS] * max(req[state.GENERATED, i] - 1, 0))


@jit
def phase_of(policy: Ints, r: int, now: int, context: int) -> int:
    """Return the iteration, modulo those of a block, at which a sequence needs a new block."""
    beams = policy[r, state.BEAMS]
    return int((now - (context + beams - 1) // beams) % (policy[r, state.BLOCK] // beams))


@jit
def has_transferred_kv(req: Ints, policy: Ints, r: int, i: int) -> bool:
    """Return whether a waiting request arrives with its KV cache, from the prefill pool."""
    return bool(
        policy[r, state.ROLE] == state.DECODE
        and req[state.GENERATED, i] > 0
        and req[state.PREEMPTIONS, i] == 0
    )


@jit
def prompt_tokens(req: Ints, policy: Ints, r: int, i: int) -> int:
    """Return the tokens to prefill: the prompt, and after a preemption the output so far."""
    return int(req[state.PROMPT, i] + policy[r, state.BEAMS] * req[state.GENERATED, i])


@jit
def blocks_of(req: Ints, policy: Ints, r: int, i: int, tokens: int) -> int:
    """Return the blocks of `tokens` cached tokens, without those of a shared prefix."""
    block = policy[r, state.BLOCK]
    return int(
        (tokens + block - 1) // block - req[state.CACHED, i] // block + policy[r, state.EXTRA]
    )


@jit
def needed_blocks(req: Ints, policy: Ints, r: int, i: int) -> int:
    """Return the free blocks that admitting a request needs."""
    if policy[r, state.RESERVES] == 1 and policy[r, state.ROLE] != state.PREFILL:
        tokens = req[state.PROMPT, i] + policy[r, state.BEAMS] * req[state.OUTPUT, i]
    elif has_transferred_kv(req, policy, r, i):
        tokens = context_tokens(req, policy, r, i)
    else:
        tokens = prompt_tokens(req, policy, r, i)
    return blocks_of(req, policy, r, i, tokens)


@jit(allocates=False)
def begin_decode(tables: Tables, r: int, i: int) -> None:
    """Start decoding a request whose prompt is cached."""
    req, rep, policy = tables.req, tables.rep, tables.policy
    context = context_tokens(req, policy, r, i)
    now = rep[r, state.ITERATION]
    heap_push(
        tables.keys[r],
        tables.items[r],
        rep[r, state.DECODING],
        now + req[state.OUTPUT, i] - req[state.GENERATED, i],
        i,
    )
    rep[r, state.DECODING] += 1
    tables.real[r, state.CONTEXT] += context
    tables.phase[r, phase_of(policy, r, now, context)] += 1


@jit(allocates=False)
def end_decode(tables: Tables, r: int, at: int) -> int:
    """Remove the sequence at a heap position; return its request."""
    req, rep, policy = tables.req, tables.rep, tables.policy
    keys, items = tables.keys, tables.items
    i = items[r, at]
    left = keys[r, at] - rep[r, state.ITERATION]
    req[state.GENERATED, i] = req[state.OUTPUT, i] - left
    context = context_tokens(req, policy, r, i)
    heap_remove(keys[r], items[r], rep[r, state.DECODING], at)
    rep[r, state.DECODING] -= 1
    tables.real[r, state.CONTEXT] -= context
    tables.phase[r, phase_of(policy, r, rep[r, state.ITERATION], context)] -= 1
    return int(i)


@jit
def allocated_blocks(req: Ints, policy: Ints, r: int, i: int) -> int:
    """Return the blocks allocated to a decoding request."""
    if policy[r, state.RESERVES] == 1:
        return int(req[state.BLOCKS, i])
    return blocks_of(req, policy, r, i, context_tokens(req, policy, r, i))


@jit(allocates=False)
def preempt(tables: Tables, r: int) -> None:
    """Preempt the sequence admitted last: it returns to the queue and is recomputed.

    Prompts in progress were admitted after all decoding sequences, so they are preempted first.
    """
    req, rep, items = tables.req, tables.rep, tables.items
    if rep[r, state.FILLING] > 0:
        i = pop_fill_last(req, rep, r)
        rep[r, state.FREE] += req[state.BLOCKS, i]
        push_wait_front(req, rep, r, i)
        return
    last = 0
    for at in range(rep[r, state.DECODING]):
        if req[state.ORDER, items[r, at]] > req[state.ORDER, items[r, last]]:
            last = at
    i = end_decode(tables, r, last)
    rep[r, state.FREE] += allocated_blocks(req, tables.policy, r, i)
    req[state.PREEMPTIONS, i] += 1
    push_wait_front(req, rep, r, i)


@jit
def _admit(
    req: Ints, times: Reals, rep: Ints, policy: Ints, r: int, need: int, clock: float
) -> int:
    i = pop_wait(req, rep, r)
    rep[r, state.FREE] -= need
    req[state.BLOCKS, i] = need
    req[state.ORDER, i] = rep[r, state.ADMITTED]
    rep[r, state.ADMITTED] += 1
    if times[state.STARTED, i] < 0.0:
        times[state.STARTED, i] = clock
    again = req[state.PREEMPTIONS, i] > 0
    req[state.TARGET, i] = prompt_tokens(req, policy, r, i)
    req[state.DONE, i] = 0 if again else min(req[state.CACHED, i], req[state.PROMPT, i] - 1)
    return i


@jit(allocates=False)
def schedule_prefill(tables: Tables, r: int) -> tuple[float, float]:
    """Choose the prompt tokens of the next iteration: prompts in progress, then the queue.

    Return tokens and query-key pairs; a decode-only replica only admits.
    """
    req, times, rep = tables.req, tables.times, tables.rep
    real, policy = tables.real, tables.policy
    decoded = policy[r, state.BEAMS] * rep[r, state.DECODING] if policy[r, state.MIXES] == 1 else 0
    full = policy[r, state.BUDGET] - decoded
    budget, tokens, pairs = full, 0.0, 0.0
    i = rep[r, state.FILL_HEAD]
    while i != state.NONE and budget > 0:
        take = min(req[state.TARGET, i] - req[state.DONE, i], budget)
        pairs += take * (req[state.DONE, i] + 0.5 * (take + 1))
        req[state.DONE, i] += take
        budget -= take
        tokens += take
        i = req[state.NEXT, i]
    while (
        rep[r, state.WAITING] > 0
        and rep[r, state.DECODING] + rep[r, state.FILLING] < policy[r, state.MAX_SEQS]
    ):
        i = rep[r, state.WAIT_HEAD]
        need = needed_blocks(req, policy, r, i)
        ahead = (
            0 if policy[r, state.RESERVES] == 1 else rep[r, state.DECODING]
        )  # one block per growing sequence
        if need + ahead > rep[r, state.FREE]:
            break
        if has_transferred_kv(req, policy, r, i):
            _admit(req, times, rep, policy, r, need, real[r, state.CLOCK])
            times[state.FIRST, i] = real[r, state.CLOCK]
            begin_decode(tables, r, i)
            continue
        left = prompt_tokens(req, policy, r, i)
        if req[state.PREEMPTIONS, i] == 0:
            left -= min(req[state.CACHED, i], req[state.PROMPT, i] - 1)
        whole = left <= budget or (
            budget == full and tokens == 0.0 and full > 0
        )  # longer than the budget: prefilled alone
        if budget <= 0 or (policy[r, state.CHUNKS] == 0 and not whole):
            break
        _admit(req, times, rep, policy, r, need, real[r, state.CLOCK])
        take = min(left, budget) if policy[r, state.CHUNKS] == 1 else left
        pairs += take * (req[state.DONE, i] + 0.5 * (take + 1))
        req[state.DONE, i] += take
        budget -= take
        tokens += take
        push_prefilling(req, rep, r, i)
    return tokens, pairs


@jit
def decode_run(
    row: Reals,
    rep: Ints,
    real: Reals,
    keys: Ints,
    policy: Ints,
    r: int,
    until: float,
    max_steps: int,
) -> tuple[int, float]:
    """Return how many decode iterations only extend contexts, and the mean seconds of one.

    Stops at the first completion, before blocks may run out, after `max_steps`, and at `until`;
    runs at least one step.
    """
    seqs, kv = rep[r, state.DECODING], real[r, state.CONTEXT]
    steps = min(keys[r, 0] - rep[r, state.ITERATION], max_steps)
    if policy[r, state.RESERVES] == 0:
        steps = min(
            steps,
            max(
                1, (rep[r, state.FREE] // seqs) * (policy[r, state.BLOCK] // policy[r, state.BEAMS])
            ),
        )
    count, grown = float(seqs), float(seqs * policy[r, state.BEAMS])
    first_s = step_time_s(row, 0.0, 0.0, count, kv + grown, count)
    if until < np.inf and steps > 1:
        last_s = step_time_s(row, 0.0, 0.0, count, kv + grown * steps, count)
        slope = (last_s - first_s) / (steps - 1)
        span = max(until - real[r, state.CLOCK], 0.0)
        fitting = span / first_s
        if slope > 0.0:
            flat = first_s - 0.5 * slope
            fitting = (np.sqrt(flat * flat + 2.0 * slope * span) - flat) / slope
        steps = min(steps, int(fitting) + 1)
    if steps <= 1:
        return 1, first_s
    return int(steps), step_time_s(row, 0.0, 0.0, count, kv + grown * 0.5 * (steps + 1), count)


@jit
def grown_blocks(phase: Ints, policy: Ints, rep: Ints, r: int, steps: int) -> int:
    """Return the blocks that decoding sequences allocate over some iterations."""
    if policy[r, state.RESERVES] == 1:
        return 0
    block = policy[r, state.BLOCK] // policy[r, state.BEAMS]
    total = (steps // block) * rep[r, state.DECODING]
    for j in range(steps % block):
        total += phase[r, (rep[r, state.ITERATION] + j) % block]
    return int(total)
