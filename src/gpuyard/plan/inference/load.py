"""Load of a service and its latency targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import InputError
from gpuyard.workload.requirements import MetricName, Requirements, TailLimit
from gpuyard.workload.workload import Workload

# Coefficients of variation of prompt and output lengths in Azure's conversation trace of 2023,
# 19,366 requests (microsoft/vidur, data/processed_traces/splitwise_conv.csv). A workload file has
# means only.
VARIATION = (0.96, 0.77)
# Percentile / mean of a latency, below what the event simulation finds for lengths that vary as in
# that trace (TTFT: p90 2, p99 4.5; TPOT: p95 1.3; end to end: p90 1.9), so that screening in closed
# form drops nothing that the simulation would accept.
TAIL_RATIOS: dict[MetricName, dict[int, float]] = {
    "ttft": {50: 0.5, 90: 1.3, 95: 1.8, 99: 2.5},
    "tpot": {50: 0.7, 90: 1.05, 95: 1.1, 99: 1.2},
    "e2e": {50: 0.5, 90: 1.4, 95: 1.7},
}
ARRIVALS = Literal["poisson", "steady", "burst", "trace"]
PREFIX_ROUTER = (
    "a prefix-cache hit ratio of {ratio:.0%} over several replicas needs a prefix-aware router "
    "(GKE Inference Gateway, vLLM production stack, SGLang router); round robin divides it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingLoad:
    """Open-loop arrival rate, or closed-loop load with N concurrent users."""

    requests_per_s: float | None
    users: int | None
    input_tokens: float
    output_tokens: float
    long_output_tokens: float  # 99th percentile
    hit_ratio: float = 0.0
    arrivals: ARRIVALS = "poisson"
    notes: tuple[str, ...] = ()

    @property
    def new_tokens(self) -> float:
        """Prompt tokens without a prefix-cache hit."""
        return max(1.0, self.input_tokens * (1.0 - self.hit_ratio))

    @property
    def total_tokens(self) -> float:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Latency targets; None: no target."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    p99_s: float | None = None
    tails: tuple[TailLimit, ...] = ()

    @property
    def limits_decode(self) -> bool:
        """Return True if a target depends on the time per output token."""
        limits = (self.tpot_s, self.p99_s, *(t.limit_s for t in self.tails if t.metric != "ttft"))
        return any(limit is not None for limit in limits)

    def mean_limit_s(self, metric: MetricName) -> float:
        """Return a loose limit on the mean that the targets imply; infinite without one."""
        own = {"ttft": self.ttft_s, "tpot": self.tpot_s, "e2e": None}[metric]
        tails = (
            tail.limit_s / TAIL_RATIOS[metric][tail.percent]
            for tail in self.tails
            if tail.metric == metric
        )
        return min([math.inf if own is None else own, *tails])


def targets_of(requirements: Requirements) -> Targets:
    """Return the latency targets of a workload."""
    return Targets(
        ttft_s=requirements.ttft_s,
        tpot_s=requirements.tpot_s,
        p99_s=requirements.p99_s,
        tails=requirements.tails,
    )


def load_of(workload: Workload) -> ServingLoad:
    """Return the load of a workload without a trace."""
    traffic, requirements = workload.traffic, workload.requirements
    assert traffic is not None, "the workload checks require traffic"
    if traffic.trace is not None:
        raise InputError.one(
            "traffic.trace", "a trace needs a workload file", "plan the workload from a file"
        )
    rate, users = requirements.requests_per_s, traffic.concurrency_count
    notes = [f"lengths vary as in Azure's conversation trace: {_variation_text()}"]
    if traffic.arrivals == "burst" and rate is not None:
        notes.append("burst: all requests of a second arrive at its start")
    if rate is not None and users is not None:
        notes.append(f"the load is {rate:g} requests/s; concurrency {users} does not limit it")
    if traffic.prefix_hit_ratio > 0.0:
        notes.append(PREFIX_ROUTER.format(ratio=traffic.prefix_hit_ratio))
    output = max(traffic.output_tokens or 1.0, 1.0)
    return ServingLoad(
        requests_per_s=rate,
        users=None if rate is not None else users,
        input_tokens=traffic.input_tokens or 1.0,
        output_tokens=output,
        long_output_tokens=output * _tail(VARIATION[1]),
        hit_ratio=min(traffic.prefix_hit_ratio, 1.0),
        arrivals=traffic.arrivals,
        notes=tuple(notes),
    )


def _variation_text() -> str:
    return f"standard deviations of {VARIATION[0]:.0%} and {VARIATION[1]:.0%}"


def _tail(variation: float) -> float:
    """p99 / mean of a lognormal distribution with that coefficient of variation."""
    sigma = math.sqrt(math.log1p(variation**2))
    return math.exp(2.326 * sigma - sigma**2 / 2.0)
