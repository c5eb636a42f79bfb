"""Columns of a row of coefficients (`roofline_terms.costs_row`), and the terms of a step's time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float64]

# A GEMM has four columns. Compute: seconds per token, and a minimum (the serial loop over the inner
# dimension). Memory: seconds per token (activations), and a minimum (weights). The roofline is a
# smooth maximum of the two.
COLUMNS = (
    "qkv_compute", "qkv_chain", "qkv_activations", "qkv_weights",
    "out_compute", "out_chain", "out_activations", "out_weights",
    "up_compute", "up_chain", "up_activations", "up_weights",
    "down_compute", "down_chain", "down_activations", "down_weights",
    "head_compute", "head_chain", "head_activations", "head_weights",
    "experts", "experts_per_token",
    "expert_compute", "expert_chain", "expert_activations", "expert_weights",
    "expert_pad",  # compute of partly filled tiles if all experts are hit
    "expert_spread",  # routed tokens per token of this rank (attention data parallelism)
    "pair", "window_pair", "window_tokens",  # prefill attention: seconds per query-key pair
    "kv", "window_kv",  # decode attention: seconds per cached token
    "state",  # linear-attention layers: seconds per sequence
    "token",  # elementwise kernels: seconds per token
    "logits",  # sampling over the vocabulary: seconds per sampled sequence
    "all_reduce_floor", "all_reduce_token",  # all-reduces of a step: latency, seconds per token
    "all_reduce_ramp", "all_reduce_half",  # extra latency of large ones, tokens at half of it
    "all_to_all_floor", "all_to_all_token",  # the same of all-to-alls and pipeline sends
    "layers",  # fixed kernel time of all layers: launch, ramp-up and drain
    "eager",  # launch time of all kernels without a CUDA graph: the minimum of such a step
    "replays",  # 1: CUDA graphs replay decode steps
    "host", "host_sequence", "host_token",  # host time per step, per sequence, per prefill token
    "beams", "reread",  # per decoding sequence: tokens per step, cached tokens read in addition
    "ranks",  # attention data-parallel ranks that step in lockstep; 1: a single rank
    "stages",  # pipeline stages, which share the step's tokens as micro-batches
    "pads",  # largest CUDA graph, where decode steps are padded to the next size; 0: no padding
    "straggler", "prefill_straggler",  # slowest data-parallel rank over the mean: decode, prefill
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
    ALL_REDUCE_FLOOR, ALL_REDUCE_TOKEN,
    ALL_REDUCE_RAMP, ALL_REDUCE_HALF,
    ALL_TO_ALL_FLOOR, ALL_TO_ALL_TOKEN,
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

STEP_TERMS = (
    "matmul",
    "MoE experts",
    "prefill attention",
    "decode attention",
    "elementwise",
    "all-reduce",
    "all-to-all and pipeline sends",
    "kernel launch overhead",
    "host",
)
