"""The shortlist under load: replicas are added until the simulated latencies keep every target, or taken away."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from gpuyard.errors import Infeasible
from gpuyard.perf.inference import interval
from gpuyard.perf.inference.interval import Metric
from gpuyard.plan.inference.load import Load, Targets
from gpuyard.plan.inference.pools import Pair, machines_for_pair, prompt_s
from gpuyard.plan.inference.replica import Latencies, PromptPool, Replica, ServingModel
from gpuyard.plan.inference.sizing import Sized, machines_for, replicas_on

__all__ = ["Proven", "Simulated", "broken", "doubts", "refined", "refined_pair"]

MOST_TRIES = 7
GROW = 1.12
PAIR_TRIES = 12  # a step adds to one of two pools
CLOSE = 0.03  # of the machines: nearer to the fewest than the simulation can tell
DOUBT_RATIO = 0.5  # an error bar no wider than this is taken as known
SURE = 0.95  # a 99th percentile of a thousand requests is not known better than this


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proven:
    """A number of machines and what the simulation says of it."""

    machine_count: int
    replicas: int
    latencies: Latencies
    missed: tuple[tuple[str, float, float], ...]  # target, its limit, what was reached
    prompts: PromptPool | None = None  # replicas that read for these, where they only write


def broken(latencies: Latencies, targets: Targets) -> tuple[tuple[str, float, float], ...]:
    """The targets that are not kept."""
    limits = (
        ("ttft", targets.ttft_s, latencies.ttft.mean_s),
        ("tpot", targets.tpot_s, latencies.tpot.mean_s),
        ("p99", targets.p99_s, latencies.e2e.p99_s),
    )
    late = tuple(
        (name, limit, value)
        for name, limit, value in limits
        if limit is not None and value > limit * (SURE if name == "p99" else 1.0)
    )
    if not late and not latencies.keeps_up:
        return (("queue", latencies.tpot.mean_s, latencies.ttft.mean_s),)
    return late


def doubts(
    ttft_s: float,
    tpot_s: float,
    p99_s: float,
    replica: Replica,
    targets: Targets,
    apart: bool = False,
) -> tuple[str, ...]:
    """The targets that are kept, and may be missed all the same at the far end of a wide error bar.

    apart: prompts are read by a pool of their own.
    """
    metrics: tuple[tuple[str, Metric, float, float | None], ...] = (
        ("ttft", "ttft", ttft_s, targets.ttft_s),
        ("tpot", "tpot", tpot_s, targets.tpot_s),
        ("p99", "e2e", p99_s, targets.p99_s),
    )
    found = []
    for name, metric, value_s, limit_s in metrics:
        ratio = interval(metric, replica.chip, replica.engine, apart).ratio
        if limit_s is not None and ratio > DOUBT_RATIO and value_s * (1.0 + ratio) > limit_s:
            found.append(name)
    return tuple(found)


class Simulated:
    """The seam with a memory: equal replicas on machines of several sizes are simulated once."""

    def __init__(self, model: ServingModel, load: Load) -> None:
        self.model, self.load = model, load
        self.known: dict[tuple[object, ...], Latencies | Infeasible] = {}

    def serve(self, replica: Replica, replicas: int, prompts: PromptPool | None = None) -> Latencies | Infeasible:
        """Latencies of so many replicas, with a pool that reads for them where there is one."""
        key: tuple[object, ...] = (
            replica.chip.name, replica.engine.name, replica.precision, replica.layout, replica.limits, replicas,
        )  # fmt: skip
        if prompts is not None:
            key += (prompts.replica.layout, prompts.replica.limits, prompts.replicas, prompts.token_s)
        if key not in self.known:
            self.known[key] = self.model.serve(replica, replicas, self.load, prompts)
        return self.known[key]


def refined(sized: Sized, model: Simulated, targets: Targets, most_machines: int) -> Proven | Infeasible:
    """The fewest machines at which the simulation keeps every target; else the last tried, with what it misses."""
    step = machines_for(sized.replica, sized.machine, 1)  # machines of one replica that spans several
    count = min(sized.machine_count, max(step, most_machines - most_machines % step))
    best: Proven | None = None
    last: Proven | None = None
    for _ in range(MOST_TRIES):
        replicas = replicas_on(sized.replica, sized.machine, count)
        found = model.serve(sized.replica, replicas)
        if isinstance(found, Infeasible):
            return found
        last = Proven(
            machine_count=count, replicas=replicas, latencies=found, missed=broken(found, targets)
        )  # fmt: skip
        lower = best.machine_count if best else math.inf
        if last.missed:
            if best:
                return best
            count = max(count + step, step * math.ceil(count * GROW / step))
            if count > most_machines:
                return last
        else:
            best = last if last.machine_count < lower else best
            fewer = step * math.floor(count / GROW / step)
            count = fewer if fewer < count else count - step
            if count < step:
                return last
    assert last is not None, "at least one try"
    return best or last


def refined_pair(pair: Pair, model: Simulated, targets: Targets, most_machines: int) -> Proven | None:
    """The fewest machines at which the simulation keeps every target with pools apart; None where none does.

    Grows the pool that is behind until it holds, then halves the way down to what does not.
    """
    readers, writers = pair.prompts.replicas, pair.writers
    best: Proven | None = None
    failed = 0
    for _ in range(PAIR_TRIES):
        count = machines_for_pair(pair.machine, pair.prompts.replica, readers, pair.writer, writers)
        if count > most_machines:
            return best
        prompts = replace(pair.prompts, replicas=readers)
        found = model.serve(pair.writer, writers, prompts)
        if isinstance(found, Infeasible):
            return None
        missed = broken(found, targets)
        if missed and best is None:
            more = _behind(pair, found, missed, model.load)
            readers += max(1, round(readers * (GROW - 1.0))) if more == "readers" else 0
            writers += max(1, round(writers * (GROW - 1.0))) if more == "writers" else 0
            continue
        if missed:
            failed = count
        else:
            best = Proven(machine_count=count, replicas=writers, latencies=found, missed=(), prompts=prompts)
        assert best is not None, "kept just now, or before"
        fewer = _fewer(pair, best, failed)
        if fewer is None:
            return best
        readers, writers = fewer
    return best


def _behind(
    pair: Pair, found: Latencies, missed: tuple[tuple[str, float, float], ...], load: Load
) -> Literal["readers", "writers"]:
    """Which pool is too small: the writers where tokens are late or first tokens wait for them, else the readers."""
    names = {name for name, _, _ in missed}
    if "tpot" in names:
        return "writers"
    alone_s = prompt_s(pair.prompts.replica, load) + pair.prompts.hand_over_s(load.input_tokens)
    waited_s = max(found.ttft.mean_s - alone_s, 0.0)
    if names == {"p99"} and waited_s < found.tpot.mean_s * load.output_tokens:
        return "writers"
    return "readers" if found.queued_s >= 0.5 * waited_s else "writers"


def _fewer(pair: Pair, best: Proven, failed: int) -> tuple[int, int] | None:
    """Replicas on fewer machines than the best, half-way to those that failed; taken from the larger pool."""
    assert best.prompts is not None, "of a pair"
    readers, writers = best.prompts.replicas, best.replicas
    aim = (best.machine_count + failed) // 2 if failed else math.floor(best.machine_count / GROW)
    aim = min(aim, best.machine_count - 1)
    if aim <= failed or best.machine_count - failed < CLOSE * best.machine_count:
        return None
    while readers + writers > 2:
        if readers >= writers and readers > 1:
            readers -= 1
        elif writers > 1:
            writers -= 1
        if machines_for_pair(pair.machine, pair.prompts.replica, readers, pair.writer, writers) <= aim:
            return readers, writers
    return None
