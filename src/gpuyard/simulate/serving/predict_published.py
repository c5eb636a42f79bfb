"""Simulate published serving runs and predict what their benchmark would print."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.calibration import ServingCalibration, read_priors
from gpuyard.perf.inference.case import BenchmarkLoad, ServingBenchmark
from gpuyard.perf.inference.closed_form import steady_state
from gpuyard.perf.inference.columns import RANKS
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits, kv_cache_capacity, limits
from gpuyard.perf.inference.roofline_terms import costs_row, request_s
from gpuyard.simulate.serving.load import Requests, at_rate, drifted, fixed, lognormal, uniform
from gpuyard.simulate.serving.mlperf_server import ServerRun, run_server
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, Transfer, simulate

SEED = 20260401
STATIC_BUDGET_TOKENS = 4096  # max batched tokens that size the buffers of a static batch
INTERACTIVE_TPOT_S = 0.05  # TPOT limits below this are of the Interactive scenario
# LoadGen sizes an offline run by this factor over what its minimum duration needs.
LOADGEN_OVERSIZE_RATIO = 1.1
# Simulated requests of one replica in an MLPerf run, at most.
MAX_OFFLINE_REQUESTS = 24000
MAX_SERVER_REQUESTS = 20000
KV_CACHE_RATIOS = (0.95, 1.0, 1.05)  # over the estimated capacity; an offline run averages them
NETWORK_BYTES_PER_S = 50e9  # unidirectional, per chip: a 400 Gbit/s NIC


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPrediction:
    """Predicted benchmark result: latencies, and throughput over all replicas."""

    output_tokens_per_s: float
    tpot_s: float
    ttft_s: float
    e2e_s: float
    ttft_p50_s: float


def pool_of(
    case: ServingBenchmark,
    layout: ReplicaLayout,
    replicas: int,
    calibration: ServingCalibration,
    kv_cache_ratio: float = 1.0,
) -> ReplicaPool:
    """Return a pool of ranks with a KV cache of `kv_cache_ratio` times the estimate."""
    arguments = (case.shape, case.chip, case.precision, layout, case.engine, calibration)
    load = case.load
    step_limits = limits(
        case.engine,
        kv_cache_capacity(*arguments),
        load.prompt_tokens,
        load.output_tokens,
        layout.pp,
    )
    if load.kind == "static":
        step_limits = StepLimits(
            sequences=max(load.slots, 1),
            budget_tokens=max(step_limits.budget_tokens, _static_budget_tokens(load)),
        )
        kv_cache = _fitting_one_sequence(
            kv_cache_capacity(*arguments, replace(step_limits, budget_tokens=STATIC_BUDGET_TOKENS)),
            load,
        )
    else:
        kv_cache = kv_cache_capacity(*arguments, step_limits)
    if load.slots and load.kind != "static":
        step_limits = replace(step_limits, sequences=load.slots)
    if load.budget_tokens:
        step_limits = replace(step_limits, budget_tokens=load.budget_tokens)
    kv_cache = replace(kv_cache, blocks=int(kv_cache.blocks * kv_cache_ratio))
    if kv_cache.sequences(_max_request_tokens(load)) < 1:
        kv_cache = _fitting_one_sequence(kv_cache, load)
    row = costs_row(*arguments)
    return ReplicaPool(
        row=row,
        kv_cache=kv_cache,
        limits=step_limits,
        engine=case.engine,
        replicas=replicas * layout.attention_dp,
    )


def _synchronous_ranks(pool: ReplicaPool, ranks: int) -> ReplicaPool:
    """Return attention data-parallel ranks that step in lockstep as one replica.

    A prefill on one rank delays all of them. Only for engines without chunked prefill: with
    chunks, the token budget would have to be tracked per rank.
    """
    row = pool.row.copy()
    row[RANKS] = ranks
    step_limits = StepLimits(
        sequences=pool.limits.sequences * ranks, budget_tokens=pool.limits.budget_tokens * ranks
    )
    return replace(
        pool,
        row=row,
        kv_cache=replace(pool.kv_cache, blocks=pool.kv_cache.blocks * ranks),
        limits=step_limits,
    )


def _static_budget_tokens(load: BenchmarkLoad) -> int:
    """Return max batched tokens with which a static batch is one prefill."""
    return int(load.prompt_tokens * load.requests) + load.requests


def _max_request_tokens(load: BenchmarkLoad) -> float:
    """Return the prompt and output tokens of the longest request."""
    spread = max(load.variation) > 0
    lengths = [
        min(longest, 8.0 * mean) if spread else mean
        for longest, mean in zip(
            load.most_tokens, (load.prompt_tokens, load.output_tokens), strict=True
        )
    ]
    return sum(lengths) + 2.0


def _fitting_one_sequence(kv_cache: KvCacheCapacity, load: BenchmarkLoad) -> KvCacheCapacity:
    """Raise the capacity to one sequence of the run.

    The published run completed, so its longest sequence fitted, whatever the memory estimate says.
    """
    needed = int(np.ceil(_max_request_tokens(load) / kv_cache.block_tokens)) + kv_cache.extra_blocks
    return replace(kv_cache, blocks=max(kv_cache.blocks, needed))


def requests_of(load: BenchmarkLoad, share: float, rng: np.random.Generator) -> Requests:
    """Return the requests of one rank, which receives that share of all requests."""
    count = max(1, round(load.requests * share))
    prompt, output = load.prompt_tokens, load.output_tokens
    if max(load.variation) > 0:
        return lognormal(
            count, prompt, output, load.variation, rng, load.most_tokens, load.hit_ratio
        )
    if load.low_ratio < 1.0:
        return uniform(count, prompt, output, load.low_ratio, rng, load.hit_ratio)
    return drifted(fixed(count, prompt, output, load.hit_ratio), load.drift_tokens, rng)


def best_layout(case: ServingBenchmark) -> tuple[ReplicaLayout, int]:
    """Return the stated layout of a row; else the one with the highest throughput that fits.

    The layout is chosen with the priors of the constants, not the fitted ones: otherwise a fit
    would change the layouts of the rows that it is fitted to.
    """
    if len(case.layouts) == 1:
        return case.layouts[0]
    rates = [_prior_tokens_per_s(case, layout, replicas) for layout, replicas in case.layouts]
    return case.layouts[int(np.argmax(rates))] if max(rates) > 0.0 else case.layouts[-1]


def _prior_tokens_per_s(case: ServingBenchmark, layout: ReplicaLayout, replicas: int) -> float:
    """Maximum output tokens per second of a layout by the priors; 0 if two requests do not fit."""
    load, arguments = (
        case.load,
        (case.shape, case.chip, case.precision, layout, case.engine, read_priors()),
    )
    seqs = min(
        kv_cache_capacity(*arguments).sequences(load.prompt_tokens + load.output_tokens),
        case.engine.sequence_count,
    )
    if seqs < 2:
        return 0.0
    lengths = np.array([load.prompt_tokens]), np.array([load.output_tokens])
    many = np.array([float(seqs)])
    steady = steady_state(
        costs_row(*arguments)[None], np.zeros(1, dtype=np.int64), many, many, *lengths
    )
    return float(steady.output_tokens_per_s[0]) * replicas * layout.attention_dp


def mlperf_requests(case: ServingBenchmark, layout: ReplicaLayout, replicas: int) -> float:
    """Return requests per rank of an MLPerf run, from its minimum duration and sample count."""
    load = case.load
    rate = _prior_tokens_per_s(case, layout, replicas) / load.output_tokens
    return max(load.requests, LOADGEN_OVERSIZE_RATIO * rate * load.run_s) / (
        replicas * layout.attention_dp
    )


def kv_cache_ratios(case: ServingBenchmark) -> tuple[float, ...]:
    """Return the KV-cache sizes to simulate, over the estimate; offline runs average several.

    Memory use is known to within a few per cent, and the duration of an offline run of few waves
    jumps where one more sequence fits.
    """
    return KV_CACHE_RATIOS if case.load.kind == "offline" and case.prefill is None else (1.0,)


def run(
    case: ServingBenchmark, calibration: ServingCalibration, kv_cache_ratio: float = 1.0
) -> tuple[ServingOutcome, float] | Infeasible:
    """Simulate one rank, or disaggregated pools; return the outcome and the number of ranks.

    MLPerf Server runs are simulated by `mlperf_server.run_server` instead.
    """
    layout, replicas = best_layout(case)
    load, rng = case.load, np.random.default_rng(SEED)
    ranks = float(replicas * layout.attention_dp)
    if case.prefill is not None:
        return _run_pools(case, calibration, layout, replicas)
    if load.kind == "offline" and load.slots:
        case = replace(case, load=replace(load, slots=max(1, round(load.slots / ranks))))
    pool = replace(pool_of(case, layout, 1, calibration, kv_cache_ratio), replicas=1)
    share = 1.0 / ranks
    if load.kind == "mlperf-offline":
        share = min(mlperf_requests(case, layout, replicas), MAX_OFFLINE_REQUESTS) / load.requests
    requests = requests_of(load, share, rng)
    users = max(1, round(load.users / ranks)) if load.kind == "closed" or load.users else 0
    if load.kind == "open" and load.rate_per_s:
        requests = at_rate(requests, load.rate_per_s / ranks, rng)
    outcome = simulate(requests, pool, users=users)
    return (outcome, ranks) if not isinstance(outcome, Infeasible) else outcome


def _run_mlperf_server(
    case: ServingBenchmark, calibration: ServingCalibration
) -> tuple[ServerRun, float] | Infeasible:
    """Run one replica of an MLPerf server; return it and the number of replicas."""
    layout, replicas = best_layout(case)
    load, synchronous = case.load, 1 if case.engine.chunks else layout.attention_dp
    replica_count = replicas * layout.attention_dp / synchronous
    pool = replace(pool_of(case, layout, 1, calibration), replicas=1)
    count = mlperf_requests(case, layout, replicas) * synchronous
    requests = requests_of(
        load, min(count, MAX_SERVER_REQUESTS) / load.requests, np.random.default_rng(SEED)
    )
    result = run_server(
        load,
        requests,
        _synchronous_ranks(pool, synchronous),
        replica_count,
        SEED,
        fitted_chip=case.chip.calibrated,
    )
    return (result, replica_count) if not isinstance(result, Infeasible) else result


def _predict_server(
    case: ServingBenchmark, calibration: ServingCalibration
) -> ServingPrediction | Infeasible:
    """Return throughput at the highest rate within the limits, latencies at the stated rate."""
    result = _run_mlperf_server(case, calibration)
    if isinstance(result, Infeasible):
        return result
    server, replica_count = result
    interactive = case.load.ceiling.tpot_s < INTERACTIVE_TPOT_S
    ratio = calibration["mlperf.interactive_ratio" if interactive else "mlperf.server_ratio"]
    completed_per_s = _completed_per_s(case.load, server, replica_count)
    outside_s = outside_engine_s(case, calibration, server.tpot_s)
    return ServingPrediction(
        output_tokens_per_s=ratio * completed_per_s * server.output_tokens * replica_count,
        tpot_s=server.tpot_s,
        ttft_s=server.ttft_s + outside_s,
        e2e_s=server.ttft_s + server.decode_s + outside_s,
        ttft_p50_s=server.ttft_p50_s + outside_s,
    )


def _run_pools(
    case: ServingBenchmark, calibration: ServingCalibration, layout: ReplicaLayout, replicas: int
) -> tuple[ServingOutcome, float] | Infeasible:
    """Simulate a disaggregated run with all replicas of both pools."""
    assert case.prefill is not None
    decode = pool_of(case, layout, replicas, calibration)
    prefill = pool_of(case, *case.prefill, calibration)
    rng = np.random.default_rng(SEED)
    transfer = Transfer(
        latency_s=calibration["transfer.latency_us"] * 1e-6,
        token_s=decode.kv_cache.token_bytes / NETWORK_BYTES_PER_S,
    )
    outcome = simulate(
        requests_of(case.load, 1.0, rng),
        decode,
        prefill=prefill,
        transfer=transfer,
        users=case.load.users,
    )
    return (outcome, 1.0) if not isinstance(outcome, Infeasible) else outcome


def outside_engine_s(
    case: ServingBenchmark, calibration: ServingCalibration, tpot_s: float
) -> float:
    """Return seconds of a request outside the engine: front end, queue polling, KV transfer."""
    load = case.load
    wait_steps = load.wait_steps
    if load.polls:
        wait_steps += calibration.engine(case.engine.name, "poll_steps")
    if load.kind == "mlperf-server":  # from LoadGen to the engine's queue and back
        trt = case.engine.family == "tensorrt-llm"
        wait_steps += calibration["mlperf.trt_wait_steps" if trt else "mlperf.http_wait_steps"]
    transfer_s = calibration["transfer.latency_us"] * 1e-6 if load.transfers else 0.0
    front_end_s = request_s(case.engine, load.prompt_tokens, calibration)
    return front_end_s + transfer_s + wait_steps * max(tpot_s, 0.0)


def _completed_per_s(load: BenchmarkLoad, server: ServerRun, replica_count: float) -> float:
    """Return completed requests per second and replica, as LoadGen reports a Server run.

    LoadGen divides by the time until the last request completes, not until the last is sent.
    """
    sending_s = max(load.requests / (server.rate_per_s * replica_count), load.run_s)
    return server.rate_per_s * sending_s / (sending_s + server.e2e_s)


def extrapolated(case: ServingBenchmark, outcome: ServingOutcome) -> tuple[float, float]:
    """Return how often the run repeats the simulated steady state, and its output tokens.

    An MLPerf Offline run has more requests than are simulated. The simulated steps until the last
    request is admitted repeat; the drain of the batch at the end happens once.
    """
    tokens = float(outcome.output_tokens.sum())
    if case.load.kind != "mlperf-offline":
        return 1.0, tokens
    line, drain = outcome.timeline, slice(int(outcome.entries[1].max()) + 1, None)
    drain_tokens = float((line.decode_seqs[drain] * line.steps[drain]).sum())
    run_tokens = tokens * max(
        mlperf_requests(case, *best_layout(case)) / len(outcome.output_tokens), 1.0
    )
    return (run_tokens - drain_tokens) / (tokens - drain_tokens), run_tokens


def _tokens_per_s(case: ServingBenchmark, outcome: ServingOutcome) -> float:
    """Return output tokens per second from the first request to the end of the last."""
    repeats, tokens = extrapolated(case, outcome)
    start_s, drain_s = float(outcome.arrived_s.min()), float(outcome.first_token_s.max())
    return tokens / (repeats * (drain_s - start_s) + float(outcome.finished_s.max()) - drain_s)


def predict(
    case: ServingBenchmark, calibration: ServingCalibration
) -> ServingPrediction | Infeasible:
    """Return the figures that the row's benchmark would report."""
    if case.load.kind == "mlperf-server":
        return _predict_server(case, calibration)
    result = run(case, calibration)
    if isinstance(result, Infeasible):
        return result
    outcome, ranks = result
    others = [run(case, calibration, ratio) for ratio in kv_cache_ratios(case) if ratio != 1.0]
    outcomes = [outcome, *(other[0] for other in others if not isinstance(other, Infeasible))]
    # The harmonic mean: durations are averaged, not rates.
    per_s = 1.0 / float(np.mean([1.0 / _tokens_per_s(case, other) for other in outcomes]))
    tpot = outcome.tpot_s
    mean_s = float(tpot.mean()) if len(tpot) else 0.0
    outside_s = outside_engine_s(case, calibration, mean_s)
    return ServingPrediction(
        output_tokens_per_s=per_s * ranks,
        tpot_s=mean_s if len(tpot) else float("nan"),
        ttft_s=float(outcome.ttft_s.mean()) + outside_s,
        e2e_s=float(outcome.e2e_s.mean()) + outside_s,
        ttft_p50_s=float(np.median(outcome.ttft_s)) + outside_s,
    )
