"""Highest request rate that meets a service level, by bisection."""

from __future__ import annotations

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.case import Ceiling
from gpuyard.simulate.serving.load import Requests, at_rate
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, Router, simulate

QUANTILE = 0.99
# Upper bound of the search over the throughput when all requests arrive at once, a run that
# includes ramp-up and drain.
UPPER_BOUND_RATIO = 1.25
HALVINGS = 10  # resolution: 0.13 % of the upper bound


def highest_rate(
    requests: Requests,
    pool: ReplicaPool,
    ceiling: Ceiling,
    rng: np.random.Generator,
    router: Router = "least-outstanding",
    burstiness: float = 1.0,
) -> tuple[float, ServingOutcome] | Infeasible:
    """Return the highest rate per second with p99 latencies within the limits, and that run.

    burstiness: of the gaps between arrivals, as in `at_rate`.
    """
    at_once = simulate(requests, pool, router=router, timeline=False)
    if isinstance(at_once, Infeasible):
        return at_once
    gaps = at_rate(requests, 1.0, rng, burstiness)
    upper_bound = UPPER_BOUND_RATIO * requests.count / float(at_once.finished_s.max())
    low, high, best = 0.0, upper_bound, at_once
    for _ in range(HALVINGS):
        rate = 0.5 * (low + high)
        trial = _timed(gaps, rate)
        outcome = simulate(trial, pool, router=router, timeline=False)
        assert isinstance(outcome, ServingOutcome)
        if meets(outcome, ceiling):
            low, best = rate, outcome
        else:
            high = rate
    return low, best


def _timed(requests: Requests, rate: float) -> Requests:
    """Scale arrivals at one request per second to another rate."""
    return Requests(
        arrived_s=requests.arrived_s / rate,
        prompt_tokens=requests.prompt_tokens,
        output_tokens=requests.output_tokens,
        cached_tokens=requests.cached_tokens,
    )


def meets(outcome: ServingOutcome, ceiling: Ceiling) -> bool:
    """Return whether p99 latencies are within the limits."""
    pairs = (
        (outcome.ttft_s, ceiling.ttft_s),
        (outcome.tpot_s, ceiling.tpot_s),
        (outcome.e2e_s, ceiling.e2e_s),
    )
    return all(
        not len(times) or float(np.quantile(times, QUANTILE)) <= limit for times, limit in pairs
    )
