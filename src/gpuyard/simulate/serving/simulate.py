"""Simulate serving iteration by iteration, aggregated or disaggregated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.columns import Row
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits
from gpuyard.perf.inference.serving_engine import ServingEngine
from gpuyard.simulate.serving import state
from gpuyard.simulate.serving.load import Requests
from gpuyard.simulate.serving.outcome import ServingOutcome, Timeline

Router = Literal["round-robin", "least-outstanding", "shortest-queue"]
ROUTERS: tuple[Router, ...] = ("round-robin", "least-outstanding", "shortest-queue")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplicaPool:
    """Identical replicas: step cost, KV-cache capacity, scheduler settings."""

    row: Row
    kv_cache: KvCacheCapacity
    limits: StepLimits
    engine: ServingEngine
    replicas: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """KV-cache transfer from a prefill replica to a decode replica: fixed, and per token."""

    latency_s: float = 0.0
    token_s: float = 0.0


def simulate(
    requests: Requests,
    pool: ReplicaPool,
    *,
    prefill: ReplicaPool | None = None,
    transfer: Transfer = Transfer(),  # noqa: B008 - frozen
    users: int = 0,
    router: Router = "round-robin",
    timeline: bool = True,
) -> ServingOutcome | Infeasible:
    """Simulate requests in an open loop, or in a closed loop of `users` concurrent users.

    With `prefill`, prompts run in that pool and `pool` decodes.
    """
    from gpuyard.simulate.serving.events import serve  # imports Numba

    pools = (
        ((state.BOTH, pool),)
        if prefill is None
        else ((state.PREFILL, prefill), (state.DECODE, pool))
    )
    infeasible = [reason for role, own in pools if (reason := _too_large(requests, own, role))]
    if infeasible:
        return infeasible[0]
    policy = np.array(
        [_policy(own, role) for role, own in pools for _ in range(own.replicas)], dtype=np.int64
    )
    rows = np.array([own.row for _, own in pools for _ in range(own.replicas)])
    count, widest = len(policy), int(policy[:, state.MAX_SEQS].max())
    req, times = _tables(requests)
    rep = np.zeros((count, state.REPLICA_INTS), dtype=np.int64)
    heads = (
        state.WAIT_HEAD,
        state.WAIT_TAIL,
        state.FILL_HEAD,
        state.FILL_TAIL,
        state.TRANSIT_HEAD,
        state.TRANSIT_TAIL,
    )
    rep[:, heads] = state.NONE
    rep[:, state.FREE] = policy[:, state.CAPACITY]
    heap = np.zeros((2, count, widest + 1), dtype=np.int64)
    phase = np.zeros((count, int(policy[:, state.BLOCK].max())), dtype=np.int64)
    tables = state.Tables(
        req=req,
        times=times,
        rep=rep,
        real=np.zeros((count, state.REPLICA_REALS)),
        policy=policy,
        keys=heap[0],
        items=heap[1],
        phase=phase,
    )
    transfer_s = np.array([transfer.latency_s, transfer.token_s])
    lines, used = serve(rows, tables, ROUTERS.index(router), users, transfer_s, timeline)
    assert (times[state.FINISHED] >= 0).all(), "a request never finished"
    return _outcome(requests, req, times, lines[: used if timeline else 0])


def _tables(requests: Requests) -> tuple[state.Ints, state.Reals]:
    req = np.zeros((state.REQUEST_INTS, requests.count), dtype=np.int64)
    req[state.PROMPT], req[state.OUTPUT] = requests.prompt_tokens, requests.output_tokens
    req[state.CACHED] = requests.cached_tokens
    times = np.full((state.REQUEST_REALS, requests.count), -1.0)
    times[state.ARRIVED] = requests.arrived_s
    return req, times


def _policy(pool: ReplicaPool, role: int) -> list[int]:
    engine, limits = pool.engine, pool.limits
    cells = {
        state.MAX_SEQS: limits.sequences,
        state.BUDGET: limits.budget_tokens,
        state.BLOCK: pool.kv_cache.block_tokens,
        state.CAPACITY: pool.kv_cache.blocks,
        state.EXTRA: pool.kv_cache.extra_blocks,
        state.MIXES: int(engine.mixes),
        state.CHUNKS: int(engine.chunks),
        state.RESERVES: int(engine.reserves),
        state.ROLE: role,
        state.LAG: 2 if engine.overlaps else 1,
        state.BEAMS: engine.beams,
    }
    return [cells[column] for column in range(state.POLICY_INTS)]


def _too_large(requests: Requests, pool: ReplicaPool, role: int) -> Infeasible | None:
    tokens = requests.prompt_tokens + (
        0 if role == state.PREFILL else pool.engine.beams * requests.output_tokens
    )
    largest = int(tokens.max())
    if pool.kv_cache.sequences(largest) >= 1 and pool.limits.sequences >= 1:
        return None
    return Infeasible(
        binding="memory",
        what=(
            f"a request of {largest} tokens exceeds the KV-cache capacity of"
            f" {pool.kv_cache.cache_tokens} tokens"
        ),
        fix="raise the tensor-parallel size, or quantise weights or KV cache",
    )


def _outcome(
    requests: Requests, req: state.Ints, times: state.Reals, lines: state.Reals
) -> ServingOutcome:
    whole = lines.astype(np.int64)
    return ServingOutcome(
        arrived_s=times[state.ARRIVED],
        admitted_s=times[state.STARTED],
        first_token_s=times[state.FIRST],
        finished_s=times[state.FINISHED],
        prompt_tokens=requests.prompt_tokens,
        output_tokens=requests.output_tokens,
        preemptions=req[state.PREEMPTIONS],
        replica=req[state.REPLICA],
        entries=req[[state.ARRIVE_ENTRY, state.FIRST_ENTRY, state.FINISH_ENTRY]],
        timeline=Timeline(
            at_s=lines[:, state.AT],
            steps=whole[:, state.STEPS],
            step_s=lines[:, state.STEP_S],
            prefill_tokens=lines[:, state.PREFILL_TOKENS],
            prefill_pairs=lines[:, state.PREFILL_PAIRS],
            decode_seqs=lines[:, state.DECODE_SEQS],
            kv_tokens=lines[:, state.KV_TOKENS],
            sampled=lines[:, state.SAMPLED],
            queue=whole[:, state.QUEUE],
            running=whole[:, state.RUNNING],
            used_blocks=whole[:, state.USED_BLOCKS],
            replica=whole[:, state.ON_REPLICA],
        ),
    )
