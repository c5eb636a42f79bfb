"""Simulate published serving runs and predict what their benchmark would print."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.calibration import ServingCalibration, read_priors
from gpuyard.perf.inference.case import BenchmarkLoad, ServingBenchmark
from gpuyard.perf.inference.closed_form import steady_state
from gpuyard.perf.inference.columns import RANKS
from gpuyard.perf.inference.costs import costs_row, request_s
from gpuyard.perf.inference.layout import ReplicaLayout
from gpuyard.perf.inference.memory import KvCacheCapacity, StepLimits, kv_cache_capacity, limits
from gpuyard.simulate.serving.load import Requests, at_rate, drifted, fixed, lognormal, uniform
from gpuyard.simulate.serving.mlperf_server import ServerRun, run_server
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, Transfer, simulate

SEED = 20260401
STATIC_TOKENS = 4096  # of prompts in one pass of a static batch, for its buffers
SHORT_S = 0.05  # limits of a token below this are of the interactive scenario
ASKED_RATIO = 1.1  # LoadGen sizes an offline run this much larger than its minimum duration needs
MOST_REQUESTS, MOST_SERVED = (
    24000,
    20000,
)  # of one replica that are simulated, of MLPerf: offline, served
CACHE_RATIOS = (0.95, 1.0, 1.05)  # of the estimate, in an offline run
NETWORK_BYTES_PER_S = 50e9  # of one chip: a port of 400 Gbit/s


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPrediction:
    """What the benchmark would print; seconds and tokens a second over all replicas."""

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
    cache_ratio: float = 1.0,
) -> ReplicaPool:
    """Return a pool of ranks with a KV cache of `cache_ratio` times the estimate."""
    parts = (case.shape, case.chip, case.precision, layout, case.engine, calibration)
    load = case.load
    allowed = limits(
        case.engine, kv_cache_capacity(*parts), load.prompt_tokens, load.output_tokens, layout.pp
    )
    if load.kind == "static":
        allowed = StepLimits(
            sequences=max(load.slots, 1), budget_tokens=max(allowed.budget_tokens, _budget(load))
        )
        held = _at_least(
            kv_cache_capacity(*parts, replace(allowed, budget_tokens=STATIC_TOKENS)), load
        )
    else:
        held = kv_cache_capacity(*parts, allowed)
    if load.slots and load.kind != "static":
        allowed = replace(allowed, sequences=load.slots)
    if load.budget_tokens:
        allowed = replace(allowed, budget_tokens=load.budget_tokens)
    held = replace(held, blocks=int(held.blocks * cache_ratio))
    if held.sequences(_longest(load)) < 1:
        held = _at_least(held, load)
    row = costs_row(*parts)
    return ReplicaPool(
        row=row,
        room=held,
        limits=allowed,
        engine=case.engine,
        replicas=replicas * layout.attention_dp,
    )


def _together(pool: ReplicaPool, ranks: int) -> ReplicaPool:
    """Ranks that make every step together, as one replica: a prompt of one of them holds up all.

    Prompts are taken whole; where they are cut, a rank's budget would have to be counted for each.
    """
    row = pool.row.copy()
    row[RANKS] = ranks
    allowed = StepLimits(
        sequences=pool.limits.sequences * ranks, budget_tokens=pool.limits.budget_tokens * ranks
    )
    return replace(
        pool, row=row, room=replace(pool.room, blocks=pool.room.blocks * ranks), limits=allowed
    )


def _budget(load: BenchmarkLoad) -> int:
    return int(load.prompt_tokens * load.requests) + load.requests


def _longest(load: BenchmarkLoad) -> float:
    spread = max(load.variation) > 0
    most = [
        min(most, 8.0 * mean) if spread else mean
        for most, mean in zip(
            load.most_tokens, (load.prompt_tokens, load.output_tokens), strict=True
        )
    ]
    return sum(most) + 2.0


def _at_least(held: KvCacheCapacity, load: BenchmarkLoad) -> KvCacheCapacity:
    """The run was made, so one sequence of it fitted; the estimate of memory gives way."""
    needed = int(np.ceil(_longest(load) / held.block_tokens)) + held.extra_blocks
    return replace(held, blocks=max(held.blocks, needed))


def requests_of(load: BenchmarkLoad, share: float, rng: np.random.Generator) -> Requests:
    """The requests of one rank, which has that share of all."""
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
    """The layout that the row states; else the one of most throughput that fits.

    Priors choose, not a fit: what a run was must not change with the constants that are fitted to
    it.
    """
    if len(case.layouts) == 1:
        return case.layouts[0]
    rates = [_prior_tokens_per_s(case, layout, replicas) for layout, replicas in case.layouts]
    return case.layouts[int(np.argmax(rates))] if max(rates) > 0.0 else case.layouts[-1]


def _prior_tokens_per_s(case: ServingBenchmark, layout: ReplicaLayout, replicas: int) -> float:
    """Maximum output tokens per second of a layout by the priors; 0 if two requests do not fit."""
    load, parts = (
        case.load,
        (case.shape, case.chip, case.precision, layout, case.engine, read_priors()),
    )
    seqs = min(
        kv_cache_capacity(*parts).sequences(load.prompt_tokens + load.output_tokens),
        case.engine.sequence_count,
    )
    if seqs < 2:
        return 0.0
    lengths = np.array([load.prompt_tokens]), np.array([load.output_tokens])
    many = np.array([float(seqs)])
    steady = steady_state(
        costs_row(*parts)[None], np.zeros(1, dtype=np.int64), many, many, *lengths
    )
    return float(steady.output_tokens_per_s[0]) * replicas * layout.attention_dp


def mlperf_requests(case: ServingBenchmark, layout: ReplicaLayout, replicas: int) -> float:
    """Requests of one rank in an MLPerf run, by its minimum duration and minimum number."""
    load = case.load
    rate = _prior_tokens_per_s(case, layout, replicas) / load.output_tokens
    return max(load.requests, ASKED_RATIO * rate * load.run_s) / (replicas * layout.attention_dp)


def cache_ratios(case: ServingBenchmark) -> tuple[float, ...]:
    """KV-cache sizes to simulate, over the estimate: an offline run is the mean of several.

    Memory is known to a few per cent, and a run of few waves jumps where one sequence more or less
    fits.
    """
    return CACHE_RATIOS if case.load.kind == "offline" and case.prefill is None else (1.0,)


def run(
    case: ServingBenchmark, calibration: ServingCalibration, cache_ratio: float = 1.0
) -> tuple[ServingOutcome, float] | Infeasible:
    """Return the outcome of one rank or of pools, and the number of ranks; not MLPerf servers."""
    layout, replicas = best_layout(case)
    load, rng = case.load, np.random.default_rng(SEED)
    ranks = float(replicas * layout.attention_dp)
    if case.prefill is not None:
        return _run_pools(case, calibration, layout, replicas)
    if load.kind == "offline" and load.slots:
        case = replace(case, load=replace(load, slots=max(1, round(load.slots / ranks))))
    pool = replace(pool_of(case, layout, 1, calibration, cache_ratio), replicas=1)
    share = 1.0 / ranks
    if load.kind == "mlperf-offline":
        share = min(mlperf_requests(case, layout, replicas), MOST_REQUESTS) / load.requests
    requests = requests_of(load, share, rng)
    users = max(1, round(load.users / ranks)) if load.kind == "closed" or load.users else 0
    if load.kind == "open" and load.rate_per_s:
        requests = at_rate(requests, load.rate_per_s / ranks, rng)
    outcome = simulate(requests, pool, users=users)
    return (outcome, ranks) if not isinstance(outcome, Infeasible) else outcome


def _server(
    case: ServingBenchmark, calibration: ServingCalibration
) -> tuple[ServerRun, float] | Infeasible:
    """Run one replica of an MLPerf server; return it and the number of replicas."""
    layout, replicas = best_layout(case)
    load, together = case.load, 1 if case.engine.chunks else layout.attention_dp
    parts = replicas * layout.attention_dp / together
    pool = replace(pool_of(case, layout, 1, calibration), replicas=1)
    count = mlperf_requests(case, layout, replicas) * together
    requests = requests_of(
        load, min(count, MOST_SERVED) / load.requests, np.random.default_rng(SEED)
    )
    result = run_server(
        load,
        requests,
        _together(pool, together),
        parts,
        SEED,
        fitted_chip=case.chip.calibrated,
    )
    return (result, parts) if not isinstance(result, Infeasible) else result


def _predict_server(
    case: ServingBenchmark, calibration: ServingCalibration
) -> ServingPrediction | Infeasible:
    """Throughput at the highest rate, latencies at the stated one."""
    result = _server(case, calibration)
    if isinstance(result, Infeasible):
        return result
    server, parts = result
    short = case.load.ceiling.tpot_s < SHORT_S
    ratio = calibration["mlperf.interactive_ratio" if short else "mlperf.server_ratio"]
    completed = _completed(case.load, server, parts)
    outside_s = entry_s(case, calibration, server.tpot_s)
    return ServingPrediction(
        output_tokens_per_s=ratio * completed * server.output_tokens * parts,
        tpot_s=server.tpot_s,
        ttft_s=server.ttft_s + outside_s,
        e2e_s=server.ttft_s + server.decode_s + outside_s,
        ttft_p50_s=server.ttft_p50_s + outside_s,
    )


def _run_pools(
    case: ServingBenchmark, calibration: ServingCalibration, layout: ReplicaLayout, replicas: int
) -> tuple[ServingOutcome, float] | Infeasible:
    """A disaggregated run, its pools cut down together where they are many."""
    assert case.prefill is not None
    decode = pool_of(case, layout, replicas, calibration)
    prefill = pool_of(case, *case.prefill, calibration)
    rng = np.random.default_rng(SEED)
    move = Transfer(
        latency_s=calibration["transfer.latency_us"] * 1e-6,
        token_s=decode.room.token_bytes / NETWORK_BYTES_PER_S,
    )
    outcome = simulate(
        requests_of(case.load, 1.0, rng),
        decode,
        prefill=prefill,
        transfer=move,
        users=case.load.users,
    )
    return (outcome, 1.0) if not isinstance(outcome, Infeasible) else outcome


def entry_s(case: ServingBenchmark, calibration: ServingCalibration, tpot_s: float) -> float:
    """Return the seconds of a request outside the engine, with the steps until it is polled."""
    load = case.load
    looks = load.wait_steps
    if load.polls:
        looks += calibration.engine(case.engine.name, "poll_steps")
    if load.kind == "mlperf-server":  # from LoadGen to the engine's queue and back
        trt = case.engine.family == "tensorrt-llm"
        looks += calibration["mlperf.trt_wait_steps" if trt else "mlperf.http_wait_steps"]
    moved_s = calibration["transfer.latency_us"] * 1e-6 if load.transfers else 0.0
    outside_s = request_s(case.engine, load.prompt_tokens, calibration)
    return outside_s + moved_s + looks * max(tpot_s, 0.0)


def _completed(load: BenchmarkLoad, server: ServerRun, parts: float) -> float:
    """Requests a second until the last one asked for is done, as LoadGen counts a server's."""
    asked_s = max(load.requests / (server.rate_per_s * parts), load.run_s)
    return server.rate_per_s * asked_s / (asked_s + server.e2e_s)


def repeated(case: ServingBenchmark, outcome: ServingOutcome) -> tuple[float, float]:
    """Return how often the run repeats the simulated one, and its output tokens.

    An offline run of MLPerf has more requests than are simulated; it ends only once.
    """
    tokens = float(outcome.output_tokens.sum())
    if case.load.kind != "mlperf-offline":
        return 1.0, tokens
    line, after = outcome.timeline, slice(int(outcome.entries[1].max()) + 1, None)
    late = float((line.decode_seqs[after] * line.steps[after]).sum())
    whole = tokens * max(
        mlperf_requests(case, *best_layout(case)) / len(outcome.output_tokens), 1.0
    )
    return (whole - late) / (tokens - late), whole


def _tokens_per_s(case: ServingBenchmark, outcome: ServingOutcome) -> float:
    """Output tokens a second from the first request to the end of the last."""
    often, tokens = repeated(case, outcome)
    start_s, last_s = float(outcome.arrived_s.min()), float(outcome.first_token_s.max())
    return tokens / (often * (last_s - start_s) + float(outcome.finished_s.max()) - last_s)


def predict(
    case: ServingBenchmark, calibration: ServingCalibration
) -> ServingPrediction | Infeasible:
    """The figures that the row's benchmark would print."""
    if case.load.kind == "mlperf-server":
        return _predict_server(case, calibration)
    result = run(case, calibration)
    if isinstance(result, Infeasible):
        return result
    outcome, ranks = result
    others = [run(case, calibration, ratio) for ratio in cache_ratios(case) if ratio != 1.0]
    outcomes = [outcome, *(other[0] for other in others if not isinstance(other, Infeasible))]
    per_s = 1.0 / float(
        np.mean([1.0 / _tokens_per_s(case, other) for other in outcomes])
    )  # the mean time
    tpot = outcome.tpot_s
    mean_s = float(tpot.mean()) if len(tpot) else 0.0
    outside_s = entry_s(case, calibration, mean_s)
    return ServingPrediction(
        output_tokens_per_s=per_s * ranks,
        tpot_s=mean_s if len(tpot) else float("nan"),
        ttft_s=float(outcome.ttft_s.mean()) + outside_s,
        e2e_s=float(outcome.e2e_s.mean()) + outside_s,
        ttft_p50_s=float(np.median(outcome.ttft_s)) + outside_s,
    )
