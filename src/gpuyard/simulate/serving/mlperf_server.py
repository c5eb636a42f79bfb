"""MLPerf Server runs: the highest rate within the latency limits, latencies at the stated rate.

LoadGen sends requests at a stated rate and times them from their scheduled arrival. Submissions
run close to the highest rate that keeps p99 latencies within the limits. Latency rises steeply
there: an error of 5 % in the predicted capacity changes TPOT by a third. Two operating points are
therefore simulated, the stated rate and the highest rate within the limits; TPOT is their weighted
geometric mean. On a chip without fitted runs the capacity is known to a third only, so the stated
rate says nothing about the load, and TPOT is that at the highest rate. TTFT is the lower of the
two: a valid submission was not overloaded.
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

FALLBACK_LOAD_RATIO = 0.7  # of the capacity, where no rate is within the limits
STATED_WEIGHT = 0.5  # of the stated rate in TPOT, on a chip with fitted runs
MAX_LOAD_RATIO = 0.95  # of the highest rate: closer to it, the queue of a long run grows


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
    replica_count: float,
    seed: int,
    *,
    fitted_chip: bool = True,
) -> ServerRun | Infeasible:
    """Simulate one of `replica_count` replicas behind a round-robin router.

    The gap between two arrivals at a replica is the sum of `replica_count` Poisson gaps.
    """
    rng = np.random.default_rng(seed)
    result = highest_rate(requests, pool, load.ceiling, rng, burstiness=replica_count)
    if isinstance(result, Infeasible):
        return result
    rate, highest = result
    if not rate:  # `highest` is the run in which all requests arrive at once
        rate = FALLBACK_LOAD_RATIO * requests.count / float(highest.finished_s.max())
        highest = _at(rate, requests, pool, replica_count, seed)
    stated = load.rate_per_s / replica_count
    sent = (
        _at(min(stated, MAX_LOAD_RATIO * rate), requests, pool, replica_count, seed)
        if stated
        else highest
    )
    weight = STATED_WEIGHT if fitted_chip else 0.0
    return ServerRun(
        rate_per_s=rate,
        tpot_s=_geometric_mean(float(highest.tpot_s.mean()), float(sent.tpot_s.mean()), weight),
        ttft_s=min(float(highest.ttft_s.mean()), float(sent.ttft_s.mean())),
        ttft_p50_s=min(float(np.median(highest.ttft_s)), float(np.median(sent.ttft_s))),
        decode_s=_geometric_mean(_decode_s(highest), _decode_s(sent), weight),
        output_tokens=float(highest.output_tokens.mean()),
        e2e_s=float(highest.e2e_s.mean()),
    )


def _geometric_mean(one: float, other: float, weight: float) -> float:
    return float(one ** (1.0 - weight) * other**weight)


def _decode_s(outcome: ServingOutcome) -> float:
    return float((outcome.finished_s - outcome.first_token_s).mean())


def _at(
    rate: float, requests: Requests, pool: ReplicaPool, replica_count: float, seed: int
) -> ServingOutcome:
    timed = at_rate(requests, rate, np.random.default_rng(seed), replica_count)
    outcome = simulate(timed, pool, router="least-outstanding", timeline=False)
    assert isinstance(outcome, ServingOutcome)  # as at the highest rate
    return outcome
