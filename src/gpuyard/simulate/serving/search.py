"""Highest request rate that meets a service level, by bisection."""

from __future__ import annotations

import numpy as np

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.case import Ceiling
from gpuyard.simulate.serving.load import Requests, at_rate
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, Router, simulate

QUANTILE = 0.99
ABOVE = 1.25  # times the rate of requests that come at once: that run includes ramp-up
STEPS = 10  # halvings: the rate is found to 0.13 % of the highest that the replicas could serve


def highest_rate(
    requests: Requests,
    pool: ReplicaPool,
    ceiling: Ceiling,
    rng: np.random.Generator,
    router: Router = "least-outstanding",
    burstiness: float = 1.0,
) -> tuple[float, ServingOutcome] | Infeasible:
    """Requests a second at which 99 % of latencies stay below their limits, and that run.

    burstiness: of gaps between arrivals, as of `at_rate`.
    """
    everything = simulate(requests, pool, router=router, timeline=False)
    if isinstance(everything, Infeasible):
        return everything
    gaps = at_rate(requests, 1.0, rng, burstiness)
    most = ABOVE * requests.count / float(everything.finished_s.max())
    low, high, best = 0.0, most, everything
    for _ in range(STEPS):
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
    """Requests drawn at one a second, at another rate."""
    return Requests(
        arrived_s=requests.arrived_s / rate,
        prompt_tokens=requests.prompt_tokens,
        output_tokens=requests.output_tokens,
        cached_tokens=requests.cached_tokens,
    )


def meets(outcome: ServingOutcome, ceiling: Ceiling) -> bool:
    """Whether the 99th percentiles are within the limits."""
    pairs = (
        (outcome.ttft_s, ceiling.ttft_s),
        (outcome.tpot_s, ceiling.tpot_s),
        (outcome.e2e_s, ceiling.e2e_s),
    )
    return all(
        not len(times) or float(np.quantile(times, QUANTILE)) <= most for times, most in pairs
    )
