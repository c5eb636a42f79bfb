"""`gpuyard simulate serving`: simulate a service request by request."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuyard.app.inference import events_of
from gpuyard.app.workspace import Workspace
from gpuyard.catalog.load import Catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference.error_bars import Interval, Metric, interval
from gpuyard.plan.inference.load import ServingLoad, Targets, targets_of
from gpuyard.plan.inference.replica import PrefillReplicas, Replica
from gpuyard.plan.inference.replica_config import (
    ReplicaConfig,
    config_of_option,
    configure_prefill,
    configure_replica,
)
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.inference.service_option import latency_stats
from gpuyard.plan.inference.serving_run import LatencyCdf, Limit, ServingRun, Track
from gpuyard.plan.option import Option
from gpuyard.simulate.serving.load_traces import PEAK_REQUESTS, busiest, read_load
from gpuyard.simulate.serving.outcome import ServingOutcome
from gpuyard.simulate.serving.simulated_serving import (
    MIN_REQUESTS_PER_S,
    Reals,
    SimulatedServing,
    simulate_requests,
)
from gpuyard.workload.requirements import MetricName
from gpuyard.workload.workload import Workload

CURVE_POINTS, TRACK_POINTS = 101, 240
RUN_REQUESTS, MOST_REQUESTS = (
    2000,
    20_000,
)  # of a simulation that is looked at, where nothing else is asked for
METRICS: tuple[Metric, ...] = ("throughput", "tpot", "ttft", "e2e")
CACHE = 2  # the row of it among the tracks
LIVES = 5.0  # times as many requests as are there at once, so that the service settles


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSimOptions:
    """Options of the command line: traffic, and the configuration if one is named."""

    named: ReplicaConfig | None = None
    trace: Path | None = None
    requests_per_s: float | None = None
    requests_count: int | None = None
    seed: int = 0


def simulate_serving(workspace: Workspace, options: ServingSimOptions) -> ServingRun | Infeasible:
    """Simulate the named configuration, or the best option, under the workload's traffic."""
    workload, catalog = workspace.workload, workspace.catalog
    _check(workload)
    if options.trace is not None and not options.trace.is_file():
        what = (
            f"{options.trace} is a folder"
            if options.trace.is_dir()
            else f"no such file: {options.trace}"
        )
        raise InputError.one(
            "--trace",
            what,
            "give the CSV file inside it" if options.trace.is_dir() else "check the path",
        )
    load, trace = read_load(workload, options.trace or workspace.folder)
    if (
        options.requests_per_s or load.requests_per_s or math.inf
    ) < MIN_REQUESTS_PER_S and trace is None:
        what, fix = (
            "fewer than one request per day: every request is served alone",
            "give a higher rate, such as 1/h",
        )
        raise InputError.one(
            "--rate" if options.requests_per_s else "requirements.requests", what, fix
        )
    if options.requests_per_s is not None:
        load, trace = (
            replace(load, requests_per_s=options.requests_per_s, users=None, arrivals="poisson"),
            None,
        )
    model = events_of(workload, trace, options.seed)
    named = options.named
    if named is None:
        peak = busiest(trace, PEAK_REQUESTS) if trace is not None else None
        plan = plan_inference(workload, catalog, load, events_of(workload, peak, options.seed))
        if isinstance(plan, Infeasible):
            return plan
        named = config_of_option(plan.options[0])
    return _run(workload, catalog, load, model, named, options.requests_count or 0)


def simulate_option(workspace: Workspace, option: Option) -> ServingRun | Infeasible:
    """Simulate an option of a plan under the workload's traffic."""
    workload, catalog = workspace.workload, workspace.catalog
    load, trace = read_load(workload, workspace.folder)
    return _run(workload, catalog, load, events_of(workload, trace, 0), config_of_option(option), 0)


def _check(workload: Workload) -> None:
    if workload.task != "inference":
        raise InputError.one(
            "task", f"{workload.task} serves no requests", "use a file with task: inference"
        )
    if (
        workload.model is None
        or workload.model.kind != "decoder"
        or workload.model.transformer is None
    ):
        raise InputError.one(
            "model",
            "only models that write tokens are simulated",
            "`gpuyard plan` gives the latency of the others",
        )


def _run(
    workload: Workload,
    catalog: Catalog,
    load: ServingLoad,
    model: SimulatedServing,
    named: ReplicaConfig,
    count: int,
) -> ServingRun | Infeasible:
    assert workload.model is not None, "checked before"
    replicas = configure_replica(named, workload.model, load, catalog)
    if isinstance(replicas, Infeasible):
        return replicas
    _, replica = replicas
    prompts = configure_prefill(named, replica, workload.model, load, catalog)
    if isinstance(prompts, Infeasible):
        return prompts
    outcome = _simulated(replica, named.replicas, prompts, load, model, count)
    if isinstance(outcome, Infeasible):
        return outcome
    present = (load.requests_per_s or 0.0) * float(outcome.e2e_s.mean())  # at once, by Little
    if not count and model.trace is None and LIVES * present > RUN_REQUESTS:
        outcome = _simulated(
            replica, named.replicas, prompts, load, model, int(min(LIVES * present, MOST_REQUESTS))
        )
        if isinstance(outcome, Infeasible):
            return outcome
    return _serving_run(workload, replica, named, outcome, load, model.seed)


def _simulated(
    replica: Replica,
    replicas: int,
    prompts: PrefillReplicas | None,
    load: ServingLoad,
    model: SimulatedServing,
    count: int,
) -> ServingOutcome | Infeasible:
    """Simulate `count` requests; 0: enough to settle, or the whole trace."""
    requests, users = model.sample_requests(
        load, 1.0, count or (0 if model.trace is not None else RUN_REQUESTS)
    )
    return simulate_requests(replica, replicas, prompts, requests, users, timeline=True)


def _serving_run(
    workload: Workload,
    replica: Replica,
    named: ReplicaConfig,
    outcome: ServingOutcome,
    load: ServingLoad,
    seed: int,
) -> ServingRun:
    summary, lay = outcome.summary(), replica.layout
    bars = {metric: _bar(metric, replica, named) for metric in METRICS}
    return ServingRun(
        workload=workload.name,
        machine=named.machine,
        replicas=named.replicas,
        chips_per_replica=lay.chips,
        tp=lay.tp,
        pp=lay.pp,
        ep=lay.ep,
        attention_dp=lay.attention_dp,
        prefill=named.prefill,
        weights=replica.precision.weights,
        kv=replica.precision.kv,
        engine=replica.engine.name,
        seed=seed,
        requests=summary.requests,
        duration_s=summary.duration_s,
        requests_per_s=summary.requests_per_s,
        output_tokens_per_s=summary.output_tokens_per_s,
        total_tokens_per_s=summary.total_tokens_per_s,
        ttft=latency_stats(summary.ttft, bars["ttft"].ratio),
        tpot=latency_stats(summary.tpot, bars["tpot"].ratio),
        itl=latency_stats(summary.itl, bars["tpot"].ratio),
        e2e=latency_stats(summary.e2e, bars["e2e"].ratio),
        queued=summary.queued,
        preemptions=summary.preemptions,
        rate_error_ratio=bars["throughput"].ratio,
        targets=_limits(targets_of(workload.requirements)),
        broken=_broken(outcome, targets_of(workload.requirements)),
        notes=(
            *load.notes,
            *dict.fromkeys(f"wide error bars: {bar.note}" for bar in bars.values() if bar.note),
        ),
        curves=tuple(
            _curve(name, values)
            for name, values in (
                ("first token", outcome.ttft_s),
                ("each further token", outcome.tpot_s),
                ("end to end", outcome.e2e_s),
            )
        ),
        tracks=_tracks(outcome, replica, named.replicas * replica.ranks),
    )


def _bar(metric: Metric, replica: Replica, named: ReplicaConfig) -> Interval:
    """Error bar of a metric, wider for disaggregated serving."""
    return interval(metric, replica.chip, replica.engine, named.prefill is not None)


def _limits(targets: Targets) -> tuple[Limit, ...]:
    targets_s = (
        ("ttft", targets.ttft_s),
        ("tpot", targets.tpot_s),
        ("p99", targets.p99_s),
        *((tail.key, tail.limit_s) for tail in targets.tails),
    )
    return tuple(
        Limit(name=name, seconds=seconds) for name, seconds in targets_s if seconds is not None
    )


def _broken(outcome: ServingOutcome, targets: Targets) -> tuple[str, ...]:
    """Targets of the workload that the run misses."""
    reached = (
        ("ttft", targets.ttft_s, float(outcome.ttft_s.mean())),
        ("tpot", targets.tpot_s, float(outcome.tpot_s.mean()) if len(outcome.tpot_s) else 0.0),
        ("p99", targets.p99_s, float(np.quantile(outcome.e2e_s, 0.99))),
        *(
            (tail.key, tail.limit_s, _percentile(outcome, tail.metric, tail.percent))
            for tail in targets.tails
        ),
    )
    return tuple(name for name, limit, value in reached if limit is not None and value > limit)


def _percentile(outcome: ServingOutcome, metric: MetricName, percent: int) -> float:
    values = {"ttft": outcome.ttft_s, "tpot": outcome.tpot_s, "e2e": outcome.e2e_s}[metric]
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _curve(name: str, values: Reals) -> LatencyCdf:
    shares = np.linspace(0.0, 1.0, CURVE_POINTS)
    seconds = np.quantile(values, shares) if len(values) else np.zeros(CURVE_POINTS)
    return LatencyCdf(name=name, seconds=tuple(seconds.tolist()), shares=tuple(shares.tolist()))


def _tracks(outcome: ServingOutcome, replica: Replica, writers: int) -> tuple[Track, ...]:
    """Queue, running sequences and KV-cache use over time, over all replicas.

    Prefill replicas come first in an outcome; the KV cache is that of the decode replicas.
    """
    line = outcome.timeline
    if not len(line.at_s):
        return ()
    at = np.linspace(0.0, float(outcome.finished_s.max()), TRACK_POINTS)
    ranks = np.unique(line.replica)
    sums = np.zeros((3, TRACK_POINTS))
    for rank in ranks:
        own = line.replica == rank
        index = np.searchsorted(line.at_s[own], at, side="right") - 1
        writes = rank > int(ranks.max()) - writers
        for row, values in enumerate((line.queue, line.running, line.used_blocks)):
            if writes or row < CACHE:
                sums[row] += np.where(index >= 0, values[own][np.maximum(index, 0)], 0.0)
    sums[CACHE] /= max(writers * replica.room.blocks, 1)
    names = ("waiting", "running", "cache used")
    seconds = tuple(at.tolist())
    return tuple(
        Track(name=name, at_s=seconds, values=tuple(values.tolist()))
        for name, values in zip(names, sums, strict=True)
    )
