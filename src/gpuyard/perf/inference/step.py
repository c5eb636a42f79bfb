"""Time of one scheduler iteration, compiled; shared by the event simulation and the closed form.

A row of coefficients (`roofline_terms.costs_row`) describes everything about a replica that is
constant over steps, in seconds. Layers and ranks are folded into the coefficients.
Idea: a GEMM is a roofline with a smooth maximum of compute and memory; terms add up to the step.
Invariant: the terms of `step_terms_s` add up to `step_time_s`.
"""

from __future__ import annotations

import numpy as np

from gpuyard.jit import jit
from gpuyard.perf.inference.columns import (
    ALL_REDUCE_FLOOR,
    ALL_REDUCE_HALF,
    ALL_REDUCE_RAMP,
    ALL_REDUCE_TOKEN,
    ALL_TO_ALL_FLOOR,
    ALL_TO_ALL_TOKEN,
    BEAMS,
    DOWN,
    EAGER,
    EXPERT,
    EXPERT_PAD,
    EXPERT_SPREAD,
    EXPERTS,
    EXPERTS_PER_TOKEN,
    HEAD,
    HOST,
    HOST_SEQUENCE,
    HOST_TOKEN,
    KV,
    LAYERS,
    LOGITS,
    OUT,
    PADS,
    PAIR,
    PREFILL_STRAGGLER,
    QKV,
    RANKS,
    REPLAYS,
    REREAD,
    STAGES,
    STATE,
    STRAGGLER,
    TOKEN,
    UP,
    WINDOW_KV,
    WINDOW_PAIR,
    WINDOW_TOKENS,
    Row,
)

THIRD = 1.0 / 3.0
# Prefill through a linear-attention layer reads and writes the state once per chunk.
STATE_CHUNK_TOKENS = 64.0


@jit
def smooth_max(compute: float, memory: float) -> float:
    """Return the cube root of the sum of cubes: the roofline that measured GEMMs follow."""
    return float((compute * compute * compute + memory * memory * memory) ** THIRD)


@jit
def _gemm_s(row: Row, first: int, tokens: float) -> float:
    return smooth_max(
        row[first] * tokens + row[first + 1], row[first + 2] * tokens + row[first + 3]
    )


@jit
def padded(seqs: float, largest: float) -> float:
    """Return the next CUDA graph size: powers of two, 384, and the largest."""
    if seqs > largest:
        return seqs
    if 256.0 < seqs <= 384.0:
        return min(384.0, largest)
    size = 1.0
    while size < seqs:
        size *= 2.0
    return min(size, largest)


@jit
def replayed(row: Row, prefill_tokens: float, seqs: float) -> bool:
    """Return whether a CUDA graph replays such a step."""
    return bool(
        prefill_tokens == 0.0 and row[REPLAYS] > 0.0 and (row[PADS] == 0.0 or seqs <= row[PADS])
    )


@jit
def _experts_s(row: Row, tokens: float) -> float:
    """Return the time of routed experts: weights of the distinct experts hit, mean rank's FLOPs."""
    experts = float(row[EXPERTS])
    if experts <= 0.0 or tokens <= 0.0:
        return 0.0
    routed = tokens * row[EXPERT_SPREAD]
    hit = 1.0 - (1.0 - row[EXPERTS_PER_TOKEN] / experts) ** routed  # share of experts hit
    permute_s = float(row[EXPERT + 2] * tokens)
    compute = row[EXPERT] * tokens + row[EXPERT + 1] + row[EXPERT_PAD] * hit
    return smooth_max(compute, row[EXPERT + 3] * hit) + permute_s


@jit
def _max_rank_share(row: Row, decode_seqs: float, sampled: float) -> float:
    """Return the share of a step's prompts on the rank with the most prompts."""
    prompts, ranks = max(sampled - decode_seqs, 1.0), row[RANKS]
    return float(np.ceil(prompts / ranks) / prompts) if ranks > 1.0 else 1.0


StepTerms = tuple[float, float, float, float, float, float, float, float, float]


@jit
def step_terms_s(
    row: Row,
    prefill_tokens: float,
    prefill_pairs: float,
    decode_seqs: float,
    kv_tokens: float,
    sampled: float,
) -> StepTerms:
    """Return the terms of a step of one replica in seconds, in the order of STEP_TERMS.

    With attention data parallelism, arguments are sums over ranks: ranks share the sequences and
    step in lockstep with the one that has the most prompts. Pipeline stages share layers and,
    as micro-batches, tokens.

    Args:
        row: coefficients of the replica.
        prefill_tokens: new prompt tokens.
        prefill_pairs: query-key pairs that they attend to.
        decode_seqs: sequences that decode one token.
        kv_tokens: cached tokens that those read.
        sampled: sequences that sample a token.
    """
    stages, ranks, beams = row[STAGES], row[RANKS], row[BEAMS]
    share = _max_rank_share(row, decode_seqs, sampled)
    mean_tokens = (prefill_tokens / ranks) / stages
    prefill_tokens, prefill_pairs = prefill_tokens * share, prefill_pairs * share
    sampled = (sampled - decode_seqs) * share + beams * decode_seqs / ranks
    decode_seqs, kv_tokens = decode_seqs / ranks, kv_tokens / ranks
    seqs = max(decode_seqs / stages, 1.0) if decode_seqs > 0.0 else 0.0
    if row[PADS] > 0.0 and prefill_tokens == 0.0:
        seqs = padded(seqs, row[PADS])
    tokens = prefill_tokens / stages + beams * seqs
    gemms = (
        _gemm_s(row, QKV, tokens)
        + _gemm_s(row, OUT, tokens)
        + _gemm_s(row, UP, tokens)
        + _gemm_s(row, DOWN, tokens)
    )
    if sampled > 0.0:
        gemms += _gemm_s(row, HEAD, max(sampled / stages, 1.0))
    experts = _experts_s(row, mean_tokens + beams * seqs)
    near_pairs = min(prefill_pairs, prefill_tokens * row[WINDOW_TOKENS])
    prefill = (row[PAIR] * prefill_pairs + row[WINDOW_PAIR] * near_pairs) / stages
    kv_tokens += row[REREAD] * decode_seqs
    near = min(kv_tokens, decode_seqs * row[WINDOW_TOKENS])
    decode = (row[KV] * kv_tokens + row[WINDOW_KV] * near) / stages * row[STRAGGLER]
    elementwise = row[LOGITS] * sampled / stages
    elementwise += (
        row[TOKEN] * tokens
        + row[STATE] * (decode_seqs + prefill_tokens / STATE_CHUNK_TOKENS) / stages
    )
    all_reduce = (
        row[ALL_REDUCE_FLOOR]
        + row[ALL_REDUCE_TOKEN] * tokens
        + row[ALL_REDUCE_RAMP] * tokens / (tokens + row[ALL_REDUCE_HALF])
    )
    all_to_all = row[ALL_TO_ALL_FLOOR] + row[ALL_TO_ALL_TOKEN] * tokens
    launch = row[LAYERS]
    if prefill_tokens > 0.0:  # ranks step in lockstep with the one that has the most prompt tokens
        gemms *= row[PREFILL_STRAGGLER]
        experts *= row[PREFILL_STRAGGLER]
        prefill *= row[PREFILL_STRAGGLER]
    if not replayed(row, prefill_tokens, seqs):
        device = gemms + experts + prefill + decode + elementwise + all_reduce + all_to_all + launch
        launch += smooth_max(device, row[EAGER]) - device
    # Host time is per micro-batch.
    host = stages * row[HOST] + row[HOST_SEQUENCE] * sampled + row[HOST_TOKEN] * prefill_tokens
    return gemms, experts, prefill, decode, elementwise, all_reduce, all_to_all, launch, host


@jit
def step_time_s(
    row: Row,
    prefill_tokens: float,
    prefill_pairs: float,
    decode_seqs: float,
    kv_tokens: float,
    sampled: float,
) -> float:
    """Return the seconds of one step of a replica; arguments as in `step_terms_s`."""
    a, b, c, d, e, f, g, h, i = step_terms_s(
        row, prefill_tokens, prefill_pairs, decode_seqs, kv_tokens, sampled
    )
    return a + b + c + d + e + f + g + h + i
