"""The serving simulation as the planner's model of a service."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.quantiles import quantiles
from gpuyard.plan.inference.load import VARIATION, ServingLoad
from gpuyard.plan.inference.replica import PrefillReplicas, Replica, ReplicaLatencies
from gpuyard.simulate.serving.load import Requests, at_rate, lognormal
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulate import ReplicaPool, Transfer, simulate

Reals = npt.NDArray[np.float64]
MAX_REPLICAS = 4  # simulated replicas; the others of a larger service behave the same
MAX_POOL_REPLICAS = 64  # of both pools of a disaggregated service
MIN_REQUESTS, MAX_REQUESTS = 1500, 5000  # of one simulation in a search
# A run has at least eight times the requests in flight, so that it reaches the steady state.
RUN_TURNOVERS = 8.0
MAX_RUN_REQUESTS = 40_000
# One per day: below, every request is served alone, and sums of the gaps lose microseconds.
MIN_REQUESTS_PER_S = 1.0 / 86_400.0
SIMULATED_S = 120.0  # simulated traffic, within MIN_REQUESTS and MAX_REQUESTS
# Queue time over end-to-end time at the end of a run; above, the queue diverges.
MAX_QUEUE_RATIO = 0.1
# Only requests between these shares of all are counted: the service starts and ends empty.
WARM_UP, COOL_DOWN = 0.2, 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Service:
    """Replicas, and the prefill pool of decode-only ones."""

    replica: Replica
    replicas: int
    prompts: PrefillReplicas | None = None

    def scaled_down(self) -> tuple[_Service, float]:
        """Return a scaled-down service of a few replicas, and its share of the load.

        Disaggregated pools shrink in proportion; the larger is rounded down, which is conservative.
        """
        if self.prompts is None:
            few = min(self.replicas, MAX_REPLICAS)
            return replace(self, replicas=few), few / self.replicas
        prefill_count, decode_count = self.prompts.replicas, self.replicas
        small, large = min(prefill_count, decode_count), max(prefill_count, decode_count)
        folds = math.gcd(small, large)
        while folds > 1 and (small + large) // folds < MAX_REPLICAS:
            folds = next(fold for fold in range(folds - 1, 0, -1) if folds % fold == 0)
        fewer, more = small // folds, large // folds
        if fewer + more > MAX_POOL_REPLICAS:
            fewer = max(1, round(small * MAX_POOL_REPLICAS / (small + large)))
            more = large * fewer // small
        sizes = (more, fewer) if prefill_count >= decode_count else (fewer, more)
        prompts = replace(self.prompts, replicas=sizes[0])
        return replace(self, replicas=sizes[1], prompts=prompts), fewer / small

    def simulate(
        self, requests: Requests, users: int, *, timeline: bool
    ) -> ServingOutcome | Infeasible:
        return simulate_requests(
            self.replica, self.replicas, self.prompts, requests, users, timeline=timeline
        )


def simulate_requests(
    replica: Replica,
    replicas: int,
    prompts: PrefillReplicas | None,
    requests: Requests,
    users: int,
    *,
    timeline: bool,
) -> ServingOutcome | Infeasible:
    """Simulate requests on replicas, with a prefill pool if there is one."""
    pool = pool_of(replica, replicas)
    if prompts is None:
        return simulate(requests, pool, users=users, router="least-outstanding", timeline=timeline)
    return simulate(
        requests,
        pool,
        prefill=pool_of(prompts.replica, prompts.replicas),
        transfer=Transfer(latency_s=prompts.transfer_setup_s, token_s=prompts.token_s),
        users=users,
        router="least-outstanding",
        timeline=timeline,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedServing:
    """The event simulation behind the planner's serving interface."""

    context_tokens: int | None = None
    trace: Requests | None = None
    seed: int = 0

    def serve(
        self,
        replica: Replica,
        replicas: int,
        load: ServingLoad,
        prefill: PrefillReplicas | None = None,
    ) -> ReplicaLatencies | Infeasible:
        """Return latencies and rates of replicas under a load, with a prefill pool if given."""
        whole = _Service(replica=replica, replicas=replicas, prompts=prefill)
        service, share = (whole, 1.0) if self.trace is not None else whole.scaled_down()
        latencies = self._served(service, share, load, 0)
        if (
            self.trace is not None
            or load.requests_per_s is None
            or isinstance(latencies, Infeasible)
        ):
            return latencies
        rate = load.requests_per_s
        in_flight = rate * latencies.e2e.mean_s * share  # of the simulated share (Little's law)
        if (
            latencies.keeps_up
            and RUN_TURNOVERS * in_flight > self.sample_requests(load, share)[0].count
        ):
            latencies = self._served(
                service, share, load, int(min(RUN_TURNOVERS * in_flight, MAX_RUN_REQUESTS))
            )
        if isinstance(latencies, Infeasible) or not latencies.keeps_up:
            return latencies
        # A stable service completes requests at the arrival rate; that of the sample is random.
        return replace(
            latencies, requests_per_s=rate, output_tokens_per_s=rate * load.output_tokens
        )

    def _served(
        self, service: _Service, share: float, load: ServingLoad, count: int
    ) -> ReplicaLatencies | Infeasible:
        """Simulate a share of the service with `count` requests; 0: choose the number."""
        requests, users = self.sample_requests(load, share, count)
        outcome = service.simulate(requests, users, timeline=False)
        if isinstance(outcome, Infeasible):
            return outcome
        return _latencies(outcome, service, 1.0 / share, whole=self.trace is not None)

    def sample_requests(
        self, load: ServingLoad, share: float, count: int = 0
    ) -> tuple[Requests, int]:
        """Return requests and users of a share of the service; 0 users: open loop."""
        if self.trace is not None:
            return (self.trace if not count else _first(self.trace, count)), 0
        rng = np.random.default_rng(self.seed)
        if load.users is not None:
            users = max(1, round(load.users * share))
            return (
                self._lengths(
                    load, count or min(max(8 * users, MIN_REQUESTS), 4 * MAX_REQUESTS), rng
                ),
                users,
            )
        rate = (load.requests_per_s or 1.0) * share
        many = count or int(min(max(SIMULATED_S * rate, MIN_REQUESTS), MAX_REQUESTS))
        return _arriving(self._lengths(load, many, rng), rate, load, rng), 0

    def _lengths(self, load: ServingLoad, count: int, rng: np.random.Generator) -> Requests:
        """Draw prompt and output lengths around their means, within the model's context."""
        longest = float(self.context_tokens or 1_000_000)
        # The context is divided between prompt and output in the ratio of their means.
        prompts = max(load.input_tokens, longest * load.input_tokens / load.total_tokens)
        return lognormal(
            count,
            load.input_tokens,
            load.output_tokens,
            VARIATION,
            rng,
            (prompts, max(longest - prompts, load.output_tokens)),
            hit_ratio=load.hit_ratio,
        )


def _first(requests: Requests, count: int) -> Requests:
    return Requests(
        arrived_s=requests.arrived_s[:count],
        prompt_tokens=requests.prompt_tokens[:count],
        output_tokens=requests.output_tokens[:count],
        cached_tokens=requests.cached_tokens[:count],
    )


def _arriving(
    requests: Requests, rate: float, load: ServingLoad, rng: np.random.Generator
) -> Requests:
    """Return the requests at a mean rate: Poisson, evenly spaced, or in a burst per second."""
    rate = max(rate, MIN_REQUESTS_PER_S)
    if load.arrivals == "poisson":
        return at_rate(requests, rate, rng)
    even = np.arange(requests.count) / rate
    return replace(requests, arrived_s=even if load.arrivals == "steady" else np.floor(even))


def pool_of(replica: Replica, replicas: int) -> ReplicaPool:
    """Return a pool of replicas; attention data-parallel ranks schedule separately."""
    return ReplicaPool(
        row=replica.row,
        kv_cache=replica.room,
        limits=replica.limits,
        engine=replica.engine,
        replicas=replicas * replica.ranks,
    )


def _latencies(
    outcome: ServingOutcome, service: _Service, scale: float, whole: bool
) -> ReplicaLatencies:
    """Return latencies without warm-up and cool-down; of the whole run for a recorded trace."""
    count = len(outcome.arrived_s)
    counted = np.ones(count, dtype=bool)
    if not whole and count >= MIN_REQUESTS:
        order = np.argsort(outcome.arrived_s, kind="stable")
        counted[:] = False
        counted[order[int(WARM_UP * count) : int(COOL_DOWN * count)]] = True
    arrived, finished = outcome.arrived_s[counted], outcome.finished_s[counted]
    several = counted & (outcome.output_tokens > 1)
    tokens = outcome.output_tokens[several] - 1
    span = (
        max(float(arrived.max() - arrived.min()), 1e-9)
        if len(arrived) > 1
        else float((finished - arrived).max())
    )
    if whole:
        span = max(float(finished.max() - arrived.min()), 1e-9)
    rate = len(arrived) / span
    disaggregated = service.prompts is not None
    began = outcome.first_token_s if disaggregated else outcome.admitted_s
    busy = float((finished - began[counted]).mean())
    return ReplicaLatencies(
        ttft=quantiles((outcome.first_token_s - outcome.arrived_s)[counted]),
        tpot=quantiles((outcome.finished_s - outcome.first_token_s)[several] / tokens),
        e2e=quantiles(finished - arrived),
        requests_per_s=rate * scale,
        output_tokens_per_s=rate * scale * float(outcome.output_tokens[counted].mean()),
        batch_count=rate * busy / (service.replicas * service.replica.ranks),
        preemptions=int(outcome.preemptions.sum()),
        queued_s=float((outcome.admitted_s - outcome.arrived_s)[counted].mean()),
        keeps_up=_keeps_up(outcome, disaggregated=disaggregated),
    )


def _keeps_up(outcome: ServingOutcome, *, disaggregated: bool) -> bool:
    """Return whether the queue stays bounded: at the end, requests spend little time in it."""
    order, fifth = np.argsort(outcome.arrived_s, kind="stable"), max(1, len(outcome.arrived_s) // 5)
    last, early = order[-fifth:], order[fifth : 2 * fifth + 1]
    waited = float((outcome.admitted_s - outcome.arrived_s)[last].mean())
    if disaggregated and len(early):  # requests may also queue for the decode pool
        waited = max(waited, float(outcome.ttft_s[last].mean() - outcome.ttft_s[early].mean()))
    return bool(waited <= MAX_QUEUE_RATIO * (outcome.finished_s - outcome.arrived_s)[last].mean())
