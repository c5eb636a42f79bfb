"""The load of a service and what its answers have to keep: rates, lengths, targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from gpuyard.errors import InputError
from gpuyard.workload import Requirements, Workload

__all__ = ["VARIATION", "Load", "Targets", "load_of", "targets_of"]

# Coefficients of variation of prompts and answers: those of Azure's conversation trace of 2023, 19,366 requests
# (microsoft/vidur, data/processed_traces/splitwise_conv.csv). A workload file gives means only.
VARIATION = (0.96, 0.77)
ARRIVALS = Literal["poisson", "steady", "burst", "trace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What arrives: a rate of requests, or so many users who each send the next request when they have an answer."""

    requests_per_s: float | None
    users: int | None
    input_tokens: float
    output_tokens: float
    long_output_tokens: float  # 99 of 100 answers are no longer
    hit_ratio: float = 0.0
    arrivals: ARRIVALS = "poisson"
    notes: tuple[str, ...] = ()

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt that are not in the cache yet."""
        return max(1.0, self.input_tokens * (1.0 - self.hit_ratio))

    @property
    def total_tokens(self) -> float:
        """Tokens of a request."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """The latencies to keep; None: not limited."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    p99_s: float | None = None


def targets_of(requirements: Requirements) -> Targets:
    """The latencies that a file asks for."""
    return Targets(ttft_s=requirements.ttft_s, tpot_s=requirements.tpot_s, p99_s=requirements.p99_s)


def load_of(workload: Workload) -> Load:
    """The load of a file that gives it in numbers; a trace is summed up by who reads it."""
    traffic, asked = workload.traffic, workload.requirements
    assert traffic is not None, "the checks of an inference workload ask for it"
    if traffic.trace is not None:
        raise InputError.one("traffic.trace", "the trace was not read", "plan the file, not its text")
    rate, users = asked.requests_per_s, traffic.concurrency_count
    notes = [f"lengths vary about their means as in Azure's conversation trace: {_words()}"]
    if traffic.arrivals == "burst" and rate is not None:
        notes.append("a burst: every request of a second comes at its start")
    if rate is not None and users is not None:
        notes.append(f"the load is {rate:g} requests/s; concurrency of {users} is not a limit on it")
    output = max(traffic.output_tokens or 1.0, 1.0)
    return Load(
        requests_per_s=rate,
        users=None if rate is not None else users,
        input_tokens=traffic.input_tokens or 1.0,
        output_tokens=output,
        long_output_tokens=output * _tail(VARIATION[1]),
        hit_ratio=min(traffic.prefix_hit_ratio, 1.0),
        arrivals=traffic.arrivals,
        notes=tuple(notes),
    )


def _words() -> str:
    """The variation in words."""
    return f"standard deviations of {VARIATION[0]:.0%} and {VARIATION[1]:.0%}"


def _tail(variation: float) -> float:
    """The 99th percentile over the mean of a lognormal with that coefficient of variation."""
    sigma = math.sqrt(math.log1p(variation**2))
    return math.exp(2.326 * sigma - sigma**2 / 2.0)
