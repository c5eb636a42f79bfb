"""The shortlist under load: replicas are added until the simulated latencies keep every target, or taken away."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpuyard.errors import Infeasible
from gpuyard.perf.inference import interval
from gpuyard.perf.inference.interval import Metric
from gpuyard.plan.inference.load import Load, Targets
from gpuyard.plan.inference.replica import Latencies, Replica, ServingModel
from gpuyard.plan.inference.sizing import Sized, machines_for, replicas_on

__all__ = ["Proven", "broken", "doubts", "refined"]

MOST_TRIES = 7
GROW = 1.12
DOUBT_RATIO = 0.5  # an error bar no wider than this is taken as known
SURE = 0.95  # a 99th percentile of a thousand requests is not known better than this


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Proven:
    """A number of machines and what the simulation says of it."""

    machine_count: int
    replicas: int
    latencies: Latencies
    missed: tuple[tuple[str, float, float], ...]  # target, its limit, what was reached


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


def doubts(ttft_s: float, tpot_s: float, p99_s: float, replica: Replica, targets: Targets) -> tuple[str, ...]:
    """The targets that are kept, and may be missed all the same at the far end of a wide error bar."""
    metrics: tuple[tuple[str, Metric, float, float | None], ...] = (
        ("ttft", "ttft", ttft_s, targets.ttft_s),
        ("tpot", "tpot", tpot_s, targets.tpot_s),
        ("p99", "e2e", p99_s, targets.p99_s),
    )
    found = []
    for name, metric, value_s, limit_s in metrics:
        ratio = interval(metric, replica.chip, replica.engine).ratio
        if limit_s is not None and ratio > DOUBT_RATIO and value_s * (1.0 + ratio) > limit_s:
            found.append(name)
    return tuple(found)


class Simulated:
    """The seam with a memory: equal replicas on machines of several sizes are simulated once."""

    def __init__(self, model: ServingModel, load: Load) -> None:
        self.model, self.load = model, load
        self.known: dict[tuple[object, ...], Latencies | Infeasible] = {}

    def serve(self, replica: Replica, replicas: int) -> Latencies | Infeasible:
        """Latencies of so many replicas."""
        key = (
            replica.chip.name, replica.engine.name, replica.precision, replica.layout, replica.limits, replicas,
        )  # fmt: skip
        if key not in self.known:
            self.known[key] = self.model.serve(replica, replicas, self.load)
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
