"""`gpuyard simulate serving`: the plan's best service, or one that is named, request by request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpuyard.app.events import LEAST_PER_S, EventModel, Reals, played
from gpuyard.app.inference import events_of
from gpuyard.app.traces import STRETCH, busiest, read_load
from gpuyard.catalog import Catalog, load_catalog
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.inference import Interval, interval
from gpuyard.perf.inference.interval import Metric
from gpuyard.plan.inference import Load, PromptPool, Replica, Targets, targets_of
from gpuyard.plan.inference.configured import Named, configured, named_of, read_apart
from gpuyard.plan.inference.describe import spread_of
from gpuyard.plan.inference.run import Curve, Limit, ServingRun, Track
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.option import Option
from gpuyard.simulate.serving import Outcome
from gpuyard.workload import Workload, own_catalogs, read_workload

__all__ = ["Asked", "simulate_file", "simulate_option"]

CURVE_POINTS, TRACK_POINTS = 101, 240
RUN_REQUESTS, MOST_REQUESTS = 2000, 20_000  # of a simulation that is looked at, where nothing else is asked for
METRICS: tuple[Metric, ...] = ("throughput", "tpot", "ttft", "e2e")
CACHE = 2  # the row of it among the tracks
LIVES = 5.0  # times as many requests as are there at once, so that the service settles


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line changes: the traffic, and the configuration where one is named."""

    named: Named | None = None
    trace: Path | None = None
    requests_per_s: float | None = None
    requests_count: int | None = None
    seed: int = 0


def simulate_file(path: Path, asked: Asked, layers: Sequence[Path] = ()) -> ServingRun | Infeasible:
    """The service of a workload file under its traffic: the one that is named, or the best of the plan."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    workload = read_workload(path, catalog)
    _check(workload)
    if asked.trace is not None and not asked.trace.is_file():
        what = f"{asked.trace} is a folder" if asked.trace.is_dir() else f"no such file: {asked.trace}"
        raise InputError.one(
            "--trace", what, "give the CSV file inside it" if asked.trace.is_dir() else "check the path"
        )
    load, trace = read_load(workload, asked.trace or path.parent)
    if (asked.requests_per_s or load.requests_per_s or math.inf) < LEAST_PER_S and trace is None:
        what, fix = "fewer than one request in a day: each finds the service idle", "give a higher rate, such as 1/h"
        raise InputError.one("--rate" if asked.requests_per_s else "requirements.requests", what, fix)
    if asked.requests_per_s is not None:
        load, trace = replace(load, requests_per_s=asked.requests_per_s, users=None, arrivals="poisson"), None
    model = events_of(workload, trace, asked.seed)
    named = asked.named
    if named is None:
        stretch = busiest(trace, STRETCH) if trace is not None else None
        found = plan_inference(workload, catalog, load, events_of(workload, stretch, asked.seed))
        if isinstance(found, Infeasible):
            return found
        named = named_of(found.options[0])
    return _run(workload, catalog, load, model, named, asked.requests_count or 0)


def simulate_option(path: Path, option: Option, layers: Sequence[Path] = ()) -> ServingRun | Infeasible:
    """An option of a plan under the traffic of its file."""
    catalog = load_catalog((*layers, *own_catalogs(path)))
    workload = read_workload(path, catalog)
    load, trace = read_load(workload, path.parent)
    return _run(workload, catalog, load, events_of(workload, trace, 0), named_of(option), 0)


def _check(workload: Workload) -> None:
    """Only language models are simulated token by token."""
    if workload.task != "inference":
        raise InputError.one("task", f"{workload.task} serves no requests", "use a file with task: inference")
    if workload.model is None or workload.model.kind != "decoder" or workload.model.transformer is None:
        raise InputError.one(
            "model", "only models that write tokens are simulated", "`gpuyard plan` gives the latency of the others"
        )


def _run(
    workload: Workload, catalog: Catalog, load: Load, model: EventModel, named: Named, count: int
) -> ServingRun | Infeasible:
    """A configuration under the load, with its curves and tracks."""
    assert workload.model is not None, "checked before"
    found = configured(named, workload.model, load, catalog)
    if isinstance(found, Infeasible):
        return found
    _, replica = found
    prompts = read_apart(named, replica, workload.model, load, catalog)
    if isinstance(prompts, Infeasible):
        return prompts
    outcome = _played(replica, named.replicas, prompts, load, model, count)
    if isinstance(outcome, Infeasible):
        return outcome
    present = (load.requests_per_s or 0.0) * float(outcome.e2e_s.mean())  # at once, by Little
    if not count and model.trace is None and LIVES * present > RUN_REQUESTS:
        outcome = _played(replica, named.replicas, prompts, load, model, int(min(LIVES * present, MOST_REQUESTS)))
        if isinstance(outcome, Infeasible):
            return outcome
    return _told(workload, replica, named, outcome, load, model.seed)


def _played(
    replica: Replica, replicas: int, prompts: PromptPool | None, load: Load, model: EventModel, count: int
) -> Outcome | Infeasible:
    """So many requests through the replicas; 0: as many as look enough, or the whole trace."""
    requests, users = model.drawn(load, 1.0, count or (0 if model.trace is not None else RUN_REQUESTS))
    return played(replica, replicas, prompts, requests, users, timeline=True)


def _told(workload: Workload, replica: Replica, named: Named, outcome: Outcome, load: Load, seed: int) -> ServingRun:
    """The outcome as a value to print, plot and save."""
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
        prefill=named.readers,
        weights=replica.precision.weights,
        kv=replica.precision.kv,
        engine=replica.engine.name,
        seed=seed,
        requests=summary.requests,
        duration_s=summary.duration_s,
        requests_per_s=summary.requests_per_s,
        output_tokens_per_s=summary.output_tokens_per_s,
        total_tokens_per_s=summary.total_tokens_per_s,
        ttft=spread_of(summary.ttft, bars["ttft"].ratio),
        tpot=spread_of(summary.tpot, bars["tpot"].ratio),
        itl=spread_of(summary.itl, bars["tpot"].ratio),
        e2e=spread_of(summary.e2e, bars["e2e"].ratio),
        queued=summary.queued,
        preemptions=summary.preemptions,
        rate_error_ratio=bars["throughput"].ratio,
        targets=_limits(targets_of(workload.requirements)),
        broken=_broken(outcome, targets_of(workload.requirements)),
        notes=(*load.notes, *dict.fromkeys(f"wide error bars: {bar.note}" for bar in bars.values() if bar.note)),
        curves=tuple(
            _curve(name, values)
            for name, values in (
                ("first token", outcome.ttft_s),
                ("each further token", outcome.tpot_s),
                ("whole answer", outcome.e2e_s),
            )
        ),
        tracks=_tracks(outcome, replica, named.replicas * replica.ranks),
    )


def _bar(metric: Metric, replica: Replica, named: Named) -> Interval:
    """The error bar of a figure, wider where prompts are read apart."""
    return interval(metric, replica.chip, replica.engine, named.readers is not None)


def _limits(targets: Targets) -> tuple[Limit, ...]:
    """The file's targets by name."""
    asked = (("ttft", targets.ttft_s), ("tpot", targets.tpot_s), ("p99", targets.p99_s))
    return tuple(Limit(name=name, seconds=seconds) for name, seconds in asked if seconds is not None)


def _broken(outcome: Outcome, targets: Targets) -> tuple[str, ...]:
    """The file's targets that the run does not keep."""
    reached = (
        ("ttft", targets.ttft_s, float(outcome.ttft_s.mean())),
        ("tpot", targets.tpot_s, float(outcome.tpot_s.mean()) if len(outcome.tpot_s) else 0.0),
        ("p99", targets.p99_s, float(np.quantile(outcome.e2e_s, 0.99))),
    )
    return tuple(name for name, limit, value in reached if limit is not None and value > limit)


def _curve(name: str, values: Reals) -> Curve:
    """The distribution at even shares."""
    shares = np.linspace(0.0, 1.0, CURVE_POINTS)
    seconds = np.quantile(values, shares) if len(values) else np.zeros(CURVE_POINTS)
    return Curve(name=name, seconds=tuple(seconds.tolist()), shares=tuple(shares.tolist()))


def _tracks(outcome: Outcome, replica: Replica, writers: int) -> tuple[Track, ...]:
    """Queue, sequences at work and the cache's fill over time, summed (or averaged) over replicas.

    Those that only read prompts come first in a run; the cache is that of the last ones, which write.
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
        Track(name=name, at_s=seconds, values=tuple(values.tolist())) for name, values in zip(names, sums, strict=True)
    )
