"""MLPerf Server runs: the highest rate within the limits, and latencies at the rate that was sent.

LoadGen sends requests at a stated rate and times them from the moment they were due. Submissions
run close to the highest rate that keeps the 99th percentiles within the limits, and there latency
rises steeply: a capacity that is 5 % off moves the time per token by a third. Two operating points
are therefore simulated, the stated rate on the modelled capacity and the highest rate within the
limits; the time per token is their weighted geometric mean. A chip without fitted runs has a
capacity that is known to a third, which makes the stated rate worthless: then the highest rate
counts alone. A prompt waits as at the quieter of the two: the run was valid, not overloaded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.case import BenchmarkLoad
from gpuyard.simulate.serving.load import Requests, at_rate
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.search import highest_rate
from gpuyard.simulate.serving.simulate import ReplicaPool, simulate

QUIET = 0.7  # share of the capacity that stands for a run which no rate keeps within its limits
STATED_WEIGHT = 0.5  # of the stated rate in the time per token, on a chip with fitted runs
STABLE = 0.95  # most of the highest rate, at which the queue of a long run still grows now and then


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServerRun:
    """One replica: its highest rate within the limits, and latencies inside the engine."""

    rate_per_s: float
    tpot_s: float
    ttft_s: float
    ttft_p50_s: float
    decode_s: float  # from the first token to the last
    output_tokens: float  # mean of a request
    e2e_s: float  # at the highest rate


def run_server(
    load: BenchmarkLoad,
    requests: Requests,
    pool: ReplicaPool,
    parts: float,
    seed: int,
    *,
    fitted_chip: bool = True,
) -> ServerRun | Infeasible:
    """Run one of `parts` replicas that take requests in turn: gaps are sums of that many gaps."""
    turns = np.random.default_rng(seed)
    result = highest_rate(requests, pool, load.ceiling, turns, burstiness=parts)
    if isinstance(result, Infeasible):
        return result
    rate, highest = result
    if not rate:  # `highest` has all requests at once
        rate = QUIET * requests.count / float(highest.finished_s.max())
        highest = _at(rate, requests, pool, parts, seed)
    stated = load.rate_per_s / parts
    sent = _at(min(stated, STABLE * rate), requests, pool, parts, seed) if stated else highest
    weight = STATED_WEIGHT if fitted_chip else 0.0
    return ServerRun(
        rate_per_s=rate,
        tpot_s=_between(float(highest.tpot_s.mean()), float(sent.tpot_s.mean()), weight),
        ttft_s=min(float(highest.ttft_s.mean()), float(sent.ttft_s.mean())),
        ttft_p50_s=min(float(np.median(highest.ttft_s)), float(np.median(sent.ttft_s))),
        decode_s=_between(_decode_s(highest), _decode_s(sent), weight),
        output_tokens=float(highest.output_tokens.mean()),
        e2e_s=float(highest.e2e_s.mean()),
    )


def _between(one: float, other: float, weight: float) -> float:
    return float(one ** (1.0 - weight) * other**weight)


def _decode_s(outcome: ServingOutcome) -> float:
    return float((outcome.finished_s - outcome.first_token_s).mean())


def _at(
    rate: float, requests: Requests, pool: ReplicaPool, parts: float, seed: int
) -> ServingOutcome:
    timed = at_rate(requests, rate, np.random.default_rng(seed), parts)
    outcome = simulate(timed, pool, router="least-outstanding", timeline=False)
    assert isinstance(outcome, ServingOutcome)  # as at the highest rate
    return outcome
