"""Pools and plain simulations to compare with: what the tests of the serving engine share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuyard.perf.inference.columns import COLUMNS
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits
from gpuyard.perf.inference.serving_engine import find_engine
from gpuyard.simulate.serving.load import Requests
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, simulate

DECODE_S, KV_S, PREFILL_S = 0.01, 1e-7, 1e-5  # a step, a cached token, a prompt token


def pool(
    blocks: int = 10_000,
    sequences: int = 64,
    budget: int = 2048,
    block: int = 16,
    replicas: int = 1,
    **engine: bool | int,
) -> ReplicaPool:
    """A pool whose step is linear, so that its times can be added up by hand."""
    row = np.zeros(len(COLUMNS))
    for name, value in (
        ("host", DECODE_S),
        ("kv", KV_S),
        ("host_token", PREFILL_S),
        ("beams", 1.0),
        ("ranks", 1.0),
        ("stages", 1.0),
        ("straggler", 1.0),
    ):
        row[COLUMNS.index(name)] = value
    row[COLUMNS.index("prefill_straggler")] = 1.0
    room = KvCacheCapacity(
        weight_bytes=1e9,
        spare_bytes=1e9,
        reserve_bytes=1e9,
        cache_bytes=1e9,
        token_bytes=1.0,
        sequence_bytes=0.0,
        block_tokens=block,
        blocks=blocks,
    )
    own = replace(find_engine("vllm-v1"), **engine)
    return ReplicaPool(
        row=row,
        kv_cache=room,
        limits=StepLimits(sequences=sequences, budget_tokens=budget),
        engine=own,
        replicas=replicas,
    )


def requests(
    prompts: list[int], outputs: list[int], arrived: list[float] | None = None
) -> Requests:
    """Requests by their lengths."""
    return Requests(
        arrived_s=np.array(arrived or [0.0] * len(prompts)),
        prompt_tokens=np.array(prompts, dtype=np.int64),
        output_tokens=np.array(outputs, dtype=np.int64),
        cached_tokens=np.zeros(len(prompts), dtype=np.int64),
    )


def run(load: Requests, own: ReplicaPool, users: int = 0) -> ServingOutcome:
    """The outcome, which there must be."""
    found = simulate(load, own, users=users)
    assert isinstance(found, ServingOutcome)
    return found


@dataclass(slots=True)
class _Sequence:
    index: int
    left: int
    done: int = 0
    given: int = 0


def plain(load: Requests, own: ReplicaPool) -> tuple[list[float], list[float]]:
    """First tokens and finishes of requests there at the start, one step at a time, with room for all. Reserves."""
    clock, first, finish = 0.0, [-1.0] * load.count, [-1.0] * load.count
    waiting = [_Sequence(i, int(p)) for i, p in enumerate(load.prompt_tokens)]
    filling: list[_Sequence] = []
    decoding: list[_Sequence] = []
    while waiting or filling or decoding:
        budget, tokens = own.limits.budget_tokens - len(decoding), 0
        for sequence in list(filling):
            take = min(sequence.left - sequence.done, budget)
            sequence.done, budget, tokens = sequence.done + take, budget - take, tokens + take
        while waiting and budget > 0 and len(decoding) + len(filling) < own.limits.sequences:
            sequence = waiting.pop(0)
            take = min(sequence.left, budget)
            sequence.done, budget, tokens = take, budget - take, tokens + take
            filling.append(sequence)
        cached = sum(s.left + s.given for s in decoding)  # with the token that the step adds
        clock += DECODE_S + PREFILL_S * tokens + KV_S * cached
        for sequence in decoding:
            sequence.given += 1
        for sequence in [s for s in filling if s.done == s.left]:
            filling.remove(sequence)
            first[sequence.index], sequence.given = clock, 1
            decoding.append(sequence)
        for sequence in [s for s in decoding if s.given >= load.output_tokens[s.index]]:
            decoding.remove(sequence)
            finish[sequence.index] = clock
    return first, finish
