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
MOST_REPLICAS = 4  # simulated at once; the rest of a larger service see the same
MOST_POOLED = 64  # of two pools together
LEAST_REQUESTS, MOST_REQUESTS = 1500, 5000  # of one simulation in a search
LIVES, LONGEST_REQUESTS = (
    8.0,
    40_000,
)  # as many as eight times those that are there at once, so that it settles
LEAST_PER_S = (
    1.0 / 86_400.0
)  # one a day: each finds the service idle, and sums of longer gaps lose the microseconds
LOOK_S = 120.0  # of traffic, where that is within the bounds above
WAIT = 0.1  # share of a request's time in the queue at the end of a run: above, it diverges
WARM_UP, COOL_DOWN = (
    0.2,
    0.9,
)  # requests between these shares of all are counted: the service starts and ends empty


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Service:
    """Replicas, and the prefill pool of decode-only ones."""

    replica: Replica
    replicas: int
    prompts: PrefillReplicas | None = None

    def part(self) -> tuple[_Service, float]:
        """A part that stands for the whole, and its share of the load: a few replicas.

        Disaggregated pools shrink in proportion; the larger is rounded down, which is conservative.
        """
        if self.prompts is None:
            few = min(self.replicas, MOST_REPLICAS)
            return replace(self, replicas=few), few / self.replicas
        readers, writers = self.prompts.replicas, self.replicas
        small, large = min(readers, writers), max(readers, writers)
        folds = math.gcd(small, large)
        while folds > 1 and (small + large) // folds < MOST_REPLICAS:
            folds = next(less for less in range(folds - 1, 0, -1) if folds % less == 0)
        least, most = small // folds, large // folds
        if least + most > MOST_POOLED:
            least = max(1, round(small * MOST_POOLED / (small + large)))
            most = large * least // small
        chosen = (most, least) if readers >= writers else (least, most)
        fewer = replace(self.prompts, replicas=chosen[0])
        return replace(self, replicas=chosen[1], prompts=fewer), least / small

    def played(
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
    """The event simulation as the planner's seam."""

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
        shown, share = (whole, 1.0) if self.trace is not None else whole.part()
        latencies = self._served(shown, share, load, 0)
        if (
            self.trace is not None
            or load.requests_per_s is None
            or isinstance(latencies, Infeasible)
        ):
            return latencies
        rate = load.requests_per_s
        present = rate * latencies.e2e.mean_s * share  # requests in what is simulated (Little)
        if latencies.keeps_up and LIVES * present > self.drawn(load, share)[0].count:
            latencies = self._served(
                shown, share, load, int(min(LIVES * present, LONGEST_REQUESTS))
            )
        if isinstance(latencies, Infeasible) or not latencies.keeps_up:
            return latencies
        # what comes is answered: the draw's own rate is chance
        return replace(
            latencies, requests_per_s=rate, output_tokens_per_s=rate * load.output_tokens
        )

    def _served(
        self, shown: _Service, share: float, load: ServingLoad, count: int
    ) -> ReplicaLatencies | Infeasible:
        """Simulate a share of the service with `count` requests; 0: a sufficient number."""
        requests, users = self.drawn(load, share, count)
        outcome = shown.played(requests, users, timeline=False)
        if isinstance(outcome, Infeasible):
            return outcome
        return _latencies(outcome, shown, 1.0 / share, whole=self.trace is not None)

    def drawn(self, load: ServingLoad, share: float, count: int = 0) -> tuple[Requests, int]:
        """Return the requests of a share of the service and its users (0: open loop)."""
        if self.trace is not None:
            return (self.trace if not count else _first(self.trace, count)), 0
        rng = np.random.default_rng(self.seed)
        if load.users is not None:
            users = max(1, round(load.users * share))
            return (
                self._lengths(
                    load, count or min(max(8 * users, LEAST_REQUESTS), 4 * MOST_REQUESTS), rng
                ),
                users,
            )
        rate = (load.requests_per_s or 1.0) * share
        many = count or int(min(max(LOOK_S * rate, LEAST_REQUESTS), MOST_REQUESTS))
        return _arriving(self._lengths(load, many, rng), rate, load, rng), 0

    def _lengths(self, load: ServingLoad, count: int, rng: np.random.Generator) -> Requests:
        """Prompts and answers about their means, within the model's context."""
        longest = float(self.context_tokens or 1_000_000)
        prompts = max(
            load.input_tokens, longest * load.input_tokens / load.total_tokens
        )  # the context, shared out
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
    """The requests at a mean rate: at random, evenly, or each second's together at its start."""
    rate = max(rate, LEAST_PER_S)
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
    outcome: ServingOutcome, shown: _Service, scale: float, whole: bool
) -> ReplicaLatencies:
    """Latencies of the steady middle of a run; of all of it for a recorded trace."""
    count = len(outcome.arrived_s)
    counted = np.ones(count, dtype=bool)
    if not whole and count >= LEAST_REQUESTS:
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
    apart = shown.prompts is not None
    began = outcome.first_token_s if apart else outcome.admitted_s
    busy = float((finished - began[counted]).mean())
    return ReplicaLatencies(
        ttft=quantiles((outcome.first_token_s - outcome.arrived_s)[counted]),
        tpot=quantiles((outcome.finished_s - outcome.first_token_s)[several] / tokens),
        e2e=quantiles(finished - arrived),
        requests_per_s=rate * scale,
        output_tokens_per_s=rate * scale * float(outcome.output_tokens[counted].mean()),
        batch_count=rate * busy / (shown.replicas * shown.replica.ranks),
        preemptions=int(outcome.preemptions.sum()),
        queued_s=float((outcome.admitted_s - outcome.arrived_s)[counted].mean()),
        keeps_up=_keeps_up(outcome, apart=apart),
    )


def _keeps_up(outcome: ServingOutcome, *, apart: bool) -> bool:
    """Whether the queue stays bounded: at the end it is a small part of a request's time."""
    order, fifth = np.argsort(outcome.arrived_s, kind="stable"), max(1, len(outcome.arrived_s) // 5)
    last, early = order[-fifth:], order[fifth : 2 * fifth + 1]
    waited = float((outcome.admitted_s - outcome.arrived_s)[last].mean())
    if apart and len(early):  # the queue may also be before the decode pool
        waited = max(waited, float(outcome.ttft_s[last].mean() - outcome.ttft_s[early].mean()))
    return bool(waited <= WAIT * (outcome.finished_s - outcome.arrived_s)[last].mean())
