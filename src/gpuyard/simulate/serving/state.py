"""State of the serving simulation: tables, queues and a heap of completions.

Tables are plain arrays for compiled code; the names of their columns are defined here only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# Of a request (first index of `req`)
(
    PROMPT,
    OUTPUT,
    CACHED,  # tokens of prompt and output; prompt tokens of a prefix-cache hit
    NEXT,  # the next request in its queue
    TARGET,
    DONE,  # tokens to prefill now, and prefilled so far
    GENERATED,  # output tokens so far
    BLOCKS,  # allocated KV-cache blocks
    ORDER,  # of admission
    PREEMPTIONS,
    REPLICA,
    ARRIVE_ENTRY,
    FIRST_ENTRY,
    FINISH_ENTRY,  # timeline entries
    DUE,  # step of its replica at which it arrives
    REQUEST_INTS,
) = range(16)
ARRIVED, STARTED, FIRST, FINISHED, READY, REQUEST_REALS = range(
    6
)  # of a request (first index of `times`)

# Of a replica (second index of `rep`)
(
    WAIT_HEAD, WAIT_TAIL, WAITING,  # queue of requests
    FILL_HEAD, FILL_TAIL, FILLING,  # prompts in progress
    DECODING, ITERATION,  # sequences that decode; decode steps so far
    FREE,  # free KV-cache blocks
    ADMITTED,  # sequences so far
    TRANSIT_HEAD, TRANSIT_TAIL, TRANSIT,  # requests in transit from users
    STEP_COUNT,  # steps so far
    REPLICA_INTS,
) = range(15)  # fmt: skip
CLOCK, CONTEXT, REPLICA_REALS = range(
    3
)  # of a replica: time, cached tokens of its decoding sequences

# Of a replica's policy (second index of `policy`)
(
    MAX_SEQS, BUDGET, BLOCK, CAPACITY, EXTRA, MIXES, CHUNKS, RESERVES, ROLE,
    LAG,  # steps that start before a user's next request arrives; one less for other arrivals
    BEAMS,  # tokens that a step adds to a sequence's cache; divides BLOCK
    POLICY_INTS,
) = range(12)  # fmt: skip
BOTH, PREFILL, DECODE = 0, 1, 2  # roles

# Of a timeline entry (second index of `line`)
(
    AT, STEPS, STEP_S, PREFILL_TOKENS, PREFILL_PAIRS, DECODE_SEQS, KV_TOKENS, SAMPLED, QUEUE,
    RUNNING, USED_BLOCKS, ON_REPLICA, LINE_REALS,
) = range(13)  # fmt: skip

NONE = -1


class Tables(NamedTuple):
    """The tables of a simulation, passed to compiled functions as one argument."""

    req: Ints  # requests
    times: Reals
    rep: Ints  # replicas
    real: Reals
    policy: Ints
    keys: Ints  # heap of each replica: the iteration at which a sequence is done
    items: Ints  # and its request
    phase: Ints  # of each replica: sequences by the iteration at which they need a block
