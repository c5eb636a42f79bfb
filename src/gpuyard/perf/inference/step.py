"""The time of one engine step, compiled: the event engine and the closed form call the same function.

A row of coefficients (`costs.costs_row`) holds everything about a replica that does not change from step to step,
in seconds. Products scale together, so layers and ranks are already folded into each coefficient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gpuyard.compiled import compiled

__all__ = ["COLUMNS", "Row", "step_parts_s", "step_time_s"]

Row = npt.NDArray[np.float64]

# One column a line: what it is. A product has four: arithmetic, seconds a token and at least; memory, seconds a token
# (activations) and at least (weights). The two meet in a smooth maximum.
COLUMNS = (
    "qkv_compute", "qkv_chain", "qkv_activations", "qkv_weights",
    "out_compute", "out_chain", "out_activations", "out_weights",
    "up_compute", "up_chain", "up_activations", "up_weights",
    "down_compute", "down_chain", "down_activations", "down_weights",
    "head_compute", "head_chain", "head_activations", "head_weights",
    "experts", "experts_per_token",
    "expert_compute", "expert_chain", "expert_activations", "expert_weights",
    "expert_pad",  # arithmetic of tiles that the tokens of the experts hit do not fill, if all are hit
    "expert_spread",  # tokens that reach the experts for each token of this rank (attention data parallel)
    "pair", "window_pair", "window_tokens",  # prefill attention: seconds a query-key pair
    "kv", "window_kv",  # decode attention: seconds a cached token
    "state",  # linear-attention layers: seconds a sequence
    "token",  # element-wise passes: seconds a token
    "logits",  # passes over the vocabulary: seconds a sampled sequence
    "reduce_floor", "reduce_token",  # all-reduces of a step: latency, seconds a token
    "reduce_ramp", "reduce_half",  # more latency of large ones, and the tokens that have half of it
    "exchange_floor", "exchange_token",  # all-to-alls of a step
    "layers",  # fixed seconds of all layers' kernels in a step
    "eager",  # least seconds of a step that no graph replays: one with a prefill, or any
    "replays",  # 1 where decode steps are replayed
    "host", "host_sequence", "host_token",  # outside the device: a step, a sequence in it, a prefill token
    "beams", "reread",  # of a decoding sequence: tokens in a step, and cached tokens that it reads beside all once
    "ranks",  # of attention data parallelism that make every step together; 1: this is the row of one
    "stages",  # pipeline stages, which share the step's tokens as micro-batches
    "pads",  # the largest size of a graph, where decode steps are filled up to the next; 0: they are not
    "straggler", "prefill_straggler",  # the slowest of data-parallel ranks over the mean: cached tokens, prompts
)  # fmt: skip

(
    QKV, _q1, _q2, _q3,
    OUT, _o1, _o2, _o3,
    UP, _u1, _u2, _u3,
    DOWN, _d1, _d2, _d3,
    HEAD, _h1, _h2, _h3,
    EXPERTS, EXPERTS_PER_TOKEN,
    EXPERT, _e1, _e2, _e3,
    EXPERT_PAD,
    EXPERT_SPREAD,
    PAIR, WINDOW_PAIR, WINDOW_TOKENS,
    KV, WINDOW_KV,
    STATE,
    TOKEN,
    LOGITS,
    REDUCE_FLOOR, REDUCE_TOKEN,
    REDUCE_RAMP, REDUCE_HALF,
    EXCHANGE_FLOOR, EXCHANGE_TOKEN,
    LAYERS,
    EAGER,
    REPLAYS,
    HOST, HOST_SEQUENCE, HOST_TOKEN,
    BEAMS, REREAD,
    RANKS,
    STAGES,
    PADS,
    STRAGGLER, PREFILL_STRAGGLER,
) = range(len(COLUMNS))  # fmt: skip

THIRD = 1.0 / 3.0
STATE_CHUNK_TOKENS = 64.0  # prompts pass a linear-attention layer in chunks, each reading and writing the state once
PARTS = ("products", "experts", "prefill_attention", "decode_attention", "passes", "reduce", "exchange", "fixed",
         "host")  # fmt: skip


@compiled
def _meet(compute: float, memory: float) -> float:
    """A smooth maximum: the cube root of the sum of cubes, which measured products follow."""
    return float((compute * compute * compute + memory * memory * memory) ** THIRD)


@compiled
def _product_s(row: Row, first: int, tokens: float) -> float:
    """A matrix product over `tokens`."""
    return _meet(row[first] * tokens + row[first + 1], row[first + 2] * tokens + row[first + 3])


def largest_listed(most: int) -> int:
    """The largest of the sizes that `padded` knows, up to so many sequences."""
    return 384 if 384 <= most < 512 else 2 ** (most.bit_length() - 1)


@compiled
def padded(seqs: float, most: float) -> float:
    """The next size of a captured graph: powers of two, 384, and the largest; beyond that there is none."""
    if seqs > most:
        return seqs
    if 256.0 < seqs <= 384.0:
        return min(384.0, most)
    size = 1.0
    while size < seqs:
        size *= 2.0
    return min(size, most)


@compiled
def replayed(row: Row, prefill_tokens: float, seqs: float) -> bool:
    """Whether a graph replays such a step."""
    return bool(prefill_tokens == 0.0 and row[REPLAYS] > 0.0 and (row[PADS] == 0.0 or seqs <= row[PADS]))


@compiled
def _experts_s(row: Row, tokens: float) -> float:
    """The routed experts: weights of the distinct experts hit, arithmetic of the mean rank."""
    experts = float(row[EXPERTS])
    if experts <= 0.0 or tokens <= 0.0:
        return 0.0
    routed = tokens * row[EXPERT_SPREAD]
    hit = 1.0 - (1.0 - row[EXPERTS_PER_TOKEN] / experts) ** routed  # share of experts with a token
    moved = float(row[EXPERT + 2] * tokens)  # tokens in and out of the experts' order
    compute = row[EXPERT] * tokens + row[EXPERT + 1] + row[EXPERT_PAD] * hit
    return _meet(compute, row[EXPERT + 3] * hit) + moved


@compiled
def _busiest(row: Row, decode_seqs: float, sampled: float) -> float:
    """The share of a step's prompts that the busiest of its ranks has."""
    prompts, ranks = max(sampled - decode_seqs, 1.0), row[RANKS]
    return float(np.ceil(prompts / ranks) / prompts) if ranks > 1.0 else 1.0


Parts = tuple[float, float, float, float, float, float, float, float, float]


@compiled
def step_parts_s(
    row: Row, prefill_tokens: float, prefill_pairs: float, decode_seqs: float, kv_tokens: float, sampled: float
) -> Parts:
    """Seconds of one step of a replica by part (see PARTS); they add up to the step.

    prefill_tokens: new prompt tokens; prefill_pairs: query-key pairs that they attend to; decode_seqs: sequences
    that add one token; kv_tokens: cached tokens that those read; sampled: sequences that give a token.
    Of ranks that step together, all are sums: they share out the sequences, and wait for the one with the most prompts.
    Pipeline stages each take their share of the layers and, as micro-batches, of the tokens.
    """
    stages, ranks, beams = row[STAGES], row[RANKS], row[BEAMS]
    share = _busiest(row, decode_seqs, sampled)
    mean_tokens = (prefill_tokens / ranks) / stages
    prefill_tokens, prefill_pairs = prefill_tokens * share, prefill_pairs * share
    sampled = (sampled - decode_seqs) * share + beams * decode_seqs / ranks
    decode_seqs, kv_tokens = decode_seqs / ranks, kv_tokens / ranks
    seqs = max(decode_seqs / stages, 1.0) if decode_seqs > 0.0 else 0.0
    if row[PADS] > 0.0 and prefill_tokens == 0.0:
        seqs = padded(seqs, row[PADS])
    tokens = prefill_tokens / stages + beams * seqs
    products = (
        _product_s(row, QKV, tokens)
        + _product_s(row, OUT, tokens)
        + _product_s(row, UP, tokens)
        + _product_s(row, DOWN, tokens)
    )
    if sampled > 0.0:
        products += _product_s(row, HEAD, max(sampled / stages, 1.0))
    experts = _experts_s(row, mean_tokens + beams * seqs)
    near_pairs = min(prefill_pairs, prefill_tokens * row[WINDOW_TOKENS])
    prefill = (row[PAIR] * prefill_pairs + row[WINDOW_PAIR] * near_pairs) / stages
    kv_tokens += row[REREAD] * decode_seqs
    near = min(kv_tokens, decode_seqs * row[WINDOW_TOKENS])
    decode = (row[KV] * kv_tokens + row[WINDOW_KV] * near) / stages * row[STRAGGLER]
    passes = row[LOGITS] * sampled / stages
    passes += row[TOKEN] * tokens + row[STATE] * (decode_seqs + prefill_tokens / STATE_CHUNK_TOKENS) / stages
    reduce = row[REDUCE_FLOOR] + row[REDUCE_TOKEN] * tokens + row[REDUCE_RAMP] * tokens / (tokens + row[REDUCE_HALF])
    exchange = row[EXCHANGE_FLOOR] + row[EXCHANGE_TOKEN] * tokens
    fixed = row[LAYERS]
    if prefill_tokens > 0.0:  # ranks wait for the one with the most prompt tokens
        products *= row[PREFILL_STRAGGLER]
        experts *= row[PREFILL_STRAGGLER]
        prefill *= row[PREFILL_STRAGGLER]
    if not replayed(row, prefill_tokens, seqs):
        device = products + experts + prefill + decode + passes + reduce + exchange + fixed
        fixed += _meet(device, row[EAGER]) - device
    host = stages * row[HOST] + row[HOST_SEQUENCE] * sampled + row[HOST_TOKEN] * prefill_tokens  # once a micro-batch
    return products, experts, prefill, decode, passes, reduce, exchange, fixed, host


@compiled
def step_time_s(
    row: Row, prefill_tokens: float, prefill_pairs: float, decode_seqs: float, kv_tokens: float, sampled: float
) -> float:
    """Seconds of one step of a replica; the arguments are those of `step_parts_s`."""
    a, b, c, d, e, f, g, h, i = step_parts_s(row, prefill_tokens, prefill_pairs, decode_seqs, kv_tokens, sampled)
    return a + b + c + d + e + f + g + h + i
