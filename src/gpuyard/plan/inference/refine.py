"""Size the shortlist under simulated load: add or remove replicas until every target is met."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from gpuyard.errors import Infeasible
from gpuyard.perf.inference.error_bars import Metric
from gpuyard.plan.inference.disaggregated import PrefillDecodePair, machines_for_pair, prefill_s
from gpuyard.plan.inference.load import ServingLoad, Targets
from gpuyard.plan.inference.replica import PrefillReplicas, Replica, ReplicaLatencies, ServingModel
from gpuyard.plan.inference.sizing import ReplicaSizing, machines_for, replicas_on
from gpuyard.plan.predictions import error_factor

MAX_TRIES = 7
GROWTH = 1.12
MAX_PAIR_TRIES = 12  # a try changes one of two pools
TOLERANCE = 0.03  # of the machines: below the resolution of the simulation
P99_MARGIN = 0.95  # the p99 of a thousand requests has this uncertainty


TargetName = str  # a key of the requirements, or queue: arrivals exceed the throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedTarget:
    """A latency target and the value that missed it."""

    name: TargetName
    limit_s: float
    value_s: float

    @property
    def ratio(self) -> float:
        """Value over limit."""
        return self.value_s / self.limit_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedSizing:
    """A number of machines and its simulated latencies."""

    machine_count: int
    replicas: int
    latencies: ReplicaLatencies
    missed: tuple[MissedTarget, ...]
    prefill: PrefillReplicas | None = None  # with it, the replicas only decode


def missed_targets(latencies: ReplicaLatencies, targets: Targets) -> tuple[MissedTarget, ...]:
    """Return the targets that the latencies miss."""
    limits: tuple[tuple[TargetName, float | None, float], ...] = (
        ("ttft", targets.ttft_s, latencies.ttft.mean_s),
        ("tpot", targets.tpot_s, latencies.tpot.mean_s),
        ("p99", targets.p99_s, latencies.e2e.p99_s),
        *(
            (tail.key, tail.limit_s, getattr(getattr(latencies, tail.metric), tail.field))
            for tail in targets.tails
        ),
    )
    missed = tuple(
        MissedTarget(name=name, limit_s=limit, value_s=value)
        for name, limit, value in limits
        if limit is not None and value > limit * (P99_MARGIN if name.endswith("p99") else 1.0)
    )
    if not missed and not latencies.keeps_up:
        return (
            MissedTarget(
                name="queue", limit_s=latencies.tpot.mean_s, value_s=latencies.ttft.mean_s
            ),
        )
    return missed


def confident_targets(
    targets: Targets, replica: Replica, confidence: float, disaggregated: bool = False
) -> Targets:
    """Return the nominal latencies that meet the targets with the confidence."""

    def nominal(metric: Metric, limit_s: float) -> float:
        known = replica.interval(metric, disaggregated)
        return limit_s / error_factor(known.ratio, confidence)

    return Targets(
        ttft_s=None if targets.ttft_s is None else nominal("ttft", targets.ttft_s),
        tpot_s=None if targets.tpot_s is None else nominal("tpot", targets.tpot_s),
        p99_s=None if targets.p99_s is None else nominal("e2e", targets.p99_s),
        tails=tuple(
            replace(tail, limit_s=nominal(tail.metric, tail.limit_s)) for tail in targets.tails
        ),
    )


SimulationCache = dict[tuple[object, ...], ReplicaLatencies | Infeasible]


class CachedServingModel:
    """A serving model that simulates equal replicas once, also for several plans of a model."""

    def __init__(
        self, model: ServingModel, load: ServingLoad, cache: SimulationCache | None = None
    ) -> None:
        self.model = model
        self.load = load
        self.cache: SimulationCache = {} if cache is None else cache

    def serve(
        self, replica: Replica, replicas: int, prefill: PrefillReplicas | None = None
    ) -> ReplicaLatencies | Infeasible:
        """Return the latencies of the replicas, optionally with a prefill pool."""
        key: tuple[object, ...] = (
            replica.chip.name,
            replica.engine.name,
            replica.precision,
            replica.layout,
            replica.limits,
            replicas,
            self.load,
        )
        if prefill is not None:
            key += (
                prefill.replica.layout,
                prefill.replica.limits,
                prefill.replicas,
                prefill.token_s,
            )
        if key not in self.cache:
            self.cache[key] = self.model.serve(replica, replicas, self.load, prefill)
        return self.cache[key]


def size_under_load(
    sized: ReplicaSizing, model: CachedServingModel, most_machines: int
) -> SimulatedSizing | Infeasible:
    """Return the fewest machines that meet every target in simulation, or the last tried."""
    # Grow by 12 % until the targets are met, then shrink by 12 % until they are not.
    step = machines_for(sized.replica, sized.machine, 1)  # machines that one replica spans
    count = min(sized.machine_count, max(step, most_machines - most_machines % step))
    best: SimulatedSizing | None = None
    last: SimulatedSizing | None = None
    for _ in range(MAX_TRIES):
        replicas = replicas_on(sized.replica, sized.machine, count)
        latencies = model.serve(sized.replica, replicas)
        if isinstance(latencies, Infeasible):
            return latencies
        last = SimulatedSizing(
            machine_count=count,
            replicas=replicas,
            latencies=latencies,
            missed=missed_targets(latencies, sized.targets),
        )
        lower = best.machine_count if best else math.inf
        if last.missed:
            if best:
                return best
            count = max(count + step, step * math.ceil(count * GROWTH / step))
            if count > most_machines:
                return last
        else:
            best = last if last.machine_count < lower else best
            fewer = step * math.floor(count / GROWTH / step)
            count = fewer if fewer < count else count - step
            if count < step:
                return last
    assert last is not None, "MAX_TRIES is positive"
    return best or last


def size_pair_under_load(
    pair: PrefillDecodePair, model: CachedServingModel, targets: Targets, most_machines: int
) -> SimulatedSizing | None:
    """Return the fewest machines that meet every target with disaggregated pools, or None."""
    # Grow the bottleneck pool until the targets are met, then bisect down to the last failure.
    prefill_replicas = pair.prefill.replicas
    decode_replicas = pair.decode_replicas
    best: SimulatedSizing | None = None
    failed = 0
    for _ in range(MAX_PAIR_TRIES):
        count = machines_for_pair(
            pair.machine, pair.prefill.replica, prefill_replicas, pair.decode, decode_replicas
        )
        if count > most_machines:
            return best
        prefill = replace(pair.prefill, replicas=prefill_replicas)
        latencies = model.serve(pair.decode, decode_replicas, prefill)
        if isinstance(latencies, Infeasible):
            return None
        missed = missed_targets(latencies, targets)
        if missed and best is None:
            if _bottleneck(pair, latencies, missed, model.load) == "prefill":
                prefill_replicas += max(1, round(prefill_replicas * (GROWTH - 1.0)))
            else:
                decode_replicas += max(1, round(decode_replicas * (GROWTH - 1.0)))
            continue
        if missed:
            failed = count
        else:
            best = SimulatedSizing(
                machine_count=count,
                replicas=decode_replicas,
                latencies=latencies,
                missed=(),
                prefill=prefill,
            )
        assert best is not None, "a failure after growing has a best before it"
        fewer = _fewer(pair, best, failed)
        if fewer is None:
            return best
        prefill_replicas, decode_replicas = fewer
    return best


def _bottleneck(
    pair: PrefillDecodePair,
    latencies: ReplicaLatencies,
    missed: tuple[MissedTarget, ...],
    load: ServingLoad,
) -> Literal["prefill", "decode"]:
    """The pool that is too small: decode if TPOT is missed or prompts wait for a decode slot."""
    names = {target.name for target in missed}
    if any(name.startswith("tpot") for name in names):
        return "decode"
    transfer_s = pair.prefill.kv_transfer_s(load.input_tokens)
    unloaded_s = prefill_s(pair.prefill.replica, load) + transfer_s
    waited_s = max(latencies.ttft.mean_s - unloaded_s, 0.0)
    if names == {"p99"} and waited_s < latencies.tpot.mean_s * load.output_tokens:
        return "decode"
    return "prefill" if latencies.queued_s >= 0.5 * waited_s else "decode"


def _fewer(pair: PrefillDecodePair, best: SimulatedSizing, failed: int) -> tuple[int, int] | None:
    """Replicas halfway between the best and the last failure, removed from the larger pool."""
    assert best.prefill is not None, "best is the sizing of a pair"
    prefill = best.prefill.replicas
    decode = best.replicas
    aim = (best.machine_count + failed) // 2 if failed else math.floor(best.machine_count / GROWTH)
    aim = min(aim, best.machine_count - 1)
    if aim <= failed or best.machine_count - failed < TOLERANCE * best.machine_count:
        return None
    while prefill + decode > 2:
        if prefill >= decode and prefill > 1:
            prefill -= 1
        elif decode > 1:
            decode -= 1
        count = machines_for_pair(pair.machine, pair.prefill.replica, prefill, pair.decode, decode)
        if count <= aim:
            return prefill, decode
    return None
