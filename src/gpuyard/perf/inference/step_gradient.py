"""Time of one scheduler iteration with its gradient with respect to the coefficients.

Invariant: the time equals `step_time_s` of a replica without attention data parallelism.
"""

from __future__ import annotations

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
from gpuyard.perf.inference.step import STATE_CHUNK_TOKENS, padded, replayed, smooth_max


@jit
def _gemm(row: Row, first: int, tokens: float, scale: float, slope: Row) -> float:
    """Return the seconds of a GEMM; add its slopes, times `scale`."""
    compute, memory = row[first] * tokens + row[first + 1], row[first + 2] * tokens + row[first + 3]
    time_s = smooth_max(compute, memory)
    if time_s > 0.0:
        by_compute, by_memory = scale * (compute / time_s) ** 2, scale * (memory / time_s) ** 2
        slope[first] += by_compute * tokens
        slope[first + 1] += by_compute
        slope[first + 2] += by_memory * tokens
        slope[first + 3] += by_memory
    return time_s


@jit
def _experts(row: Row, tokens: float, scale: float, slope: Row) -> float:
    """Return the seconds of routed experts; add their slopes, times `scale`."""
    experts = row[EXPERTS]
    if experts <= 0.0 or tokens <= 0.0:
        return 0.0
    hit = 1.0 - (1.0 - row[EXPERTS_PER_TOKEN] / experts) ** (tokens * row[EXPERT_SPREAD])
    compute = row[EXPERT] * tokens + row[EXPERT + 1] + row[EXPERT_PAD] * hit
    memory = row[EXPERT + 3] * hit
    time_s = smooth_max(compute, memory)
    if time_s > 0.0:
        by_compute, by_memory = scale * (compute / time_s) ** 2, scale * (memory / time_s) ** 2
        slope[EXPERT] += by_compute * tokens
        slope[EXPERT + 1] += by_compute
        slope[EXPERT_PAD] += by_compute * hit
        slope[EXPERT + 3] += by_memory * hit
    slope[EXPERT + 2] += scale * tokens
    return time_s + float(row[EXPERT + 2] * tokens)


@jit
def step_slopes(
    row: Row,
    prefill_tokens: float,
    prefill_pairs: float,
    decode_seqs: float,
    kv_tokens: float,
    sampled: float,
    slope: Row,
) -> float:
    """Return the step time of one rank; fill `slope` with d step / d coefficient."""
    slope[:] = 0.0
    stages = row[STAGES]
    seqs = max(decode_seqs / stages, 1.0) if decode_seqs > 0.0 else 0.0
    if row[PADS] > 0.0 and prefill_tokens == 0.0:
        seqs = padded(seqs, row[PADS])
    tokens = prefill_tokens / stages + row[BEAMS] * seqs
    sampled += (row[BEAMS] - 1.0) * decode_seqs
    scale = row[PREFILL_STRAGGLER] if prefill_tokens > 0.0 else 1.0
    gemms_s = _experts(row, tokens, scale, slope)
    for first in (QKV, OUT, UP, DOWN):
        gemms_s += _gemm(row, first, tokens, scale, slope)
    if sampled > 0.0:
        gemms_s += _gemm(row, HEAD, max(sampled / stages, 1.0), scale, slope)
    slope[PAIR] = prefill_pairs / stages * scale
    slope[WINDOW_PAIR] = min(prefill_pairs, prefill_tokens * row[WINDOW_TOKENS]) / stages * scale
    gemms_s += (row[PAIR] * slope[PAIR] + row[WINDOW_PAIR] * slope[WINDOW_PAIR]) / scale
    if prefill_tokens > 0.0:
        slope[PREFILL_STRAGGLER] = gemms_s
    kv_tokens += row[REREAD] * decode_seqs
    slope[KV] = kv_tokens / stages * row[STRAGGLER]
    slope[WINDOW_KV] = min(kv_tokens, decode_seqs * row[WINDOW_TOKENS]) / stages * row[STRAGGLER]
    decode = row[KV] * slope[KV] + row[WINDOW_KV] * slope[WINDOW_KV]
    slope[STRAGGLER] = decode / row[STRAGGLER]
    slope[TOKEN] = tokens
    slope[STATE] = (decode_seqs + prefill_tokens / STATE_CHUNK_TOKENS) / stages
    slope[LOGITS] = sampled / stages
    slope[ALL_REDUCE_FLOOR], slope[ALL_REDUCE_TOKEN] = 1.0, tokens
    slope[ALL_REDUCE_RAMP] = tokens / (tokens + row[ALL_REDUCE_HALF])
    slope[ALL_TO_ALL_FLOOR], slope[ALL_TO_ALL_TOKEN], slope[LAYERS] = 1.0, tokens, 1.0
    device = gemms_s * scale + decode + row[LAYERS]
    for cell in (
        TOKEN,
        LOGITS,
        STATE,
        ALL_REDUCE_FLOOR,
        ALL_REDUCE_TOKEN,
        ALL_REDUCE_RAMP,
        ALL_TO_ALL_FLOOR,
        ALL_TO_ALL_TOKEN,
    ):
        device += row[cell] * slope[cell]
    if not replayed(row, prefill_tokens, seqs):  # the host launches every kernel
        eager_s = smooth_max(device, row[EAGER])
        slope *= (device / eager_s) ** 2
        slope[EAGER], device = (row[EAGER] / eager_s) ** 2, eager_s
    slope[HOST], slope[HOST_SEQUENCE], slope[HOST_TOKEN] = stages, sampled, prefill_tokens
    return float(
        device
        + stages * row[HOST]
        + row[HOST_SEQUENCE] * sampled
        + row[HOST_TOKEN] * prefill_tokens
    )
