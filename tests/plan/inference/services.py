"""Workloads to serve, and a serving model that is its own closed form: no constant that is fitted decides a test."""

from __future__ import annotations

import numpy as np

from gpuyard.catalog.load import load_catalog
from gpuyard.errors import Infeasible
from gpuyard.perf.inference.closed_form import steady_state
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.perf.inference.step import step_time_s
from gpuyard.plan.inference.disaggregated import prefill_s
from gpuyard.plan.inference.load import ServingLoad, load_of
from gpuyard.plan.inference.replica import PrefillReplicas, Replica, ReplicaLatencies
from gpuyard.plan.inference.search import plan_inference
from gpuyard.plan.option import Option, Plan
from gpuyard.workload.read import parse_workload
from gpuyard.workload.workload import Workload

CATALOG = load_catalog()


def workload(
    model: str = "llama-3-8b",
    *,
    rate: str = "20/s",
    targets: str = "ttft: 1s, tpot: 60ms",
    lengths: str = "input: 500, output: 100",
    where: str = "machines: [g2-standard-*, a3-ultragpu-8g]",
    more: str = "",
) -> Workload:
    """A workload to serve."""
    requests = f"requests: {rate}, " if rate else ""
    text = (
        f"task: inference\nmodel: {model}\ntraffic: {{{lengths}}}\n"
        f"requirements: {{{requests}{targets}{more}}}\nwhere: {{{where}}}\n"
    )
    return parse_workload(text, "test.yaml", CATALOG)


class Steady:
    """The closed form as a serving model; every percentile is the mean."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def serve(
        self,
        replica: Replica,
        replicas: int,
        load: ServingLoad,
        prefill: PrefillReplicas | None = None,
    ) -> ReplicaLatencies | Infeasible:
        """What the closed form says where the load is shared out evenly."""
        if prefill is not None:
            return _apart(replica, replicas, load, prefill)
        self.asked.append((replica.chip.name, replicas))
        ranks = replicas * replica.ranks
        rate = (load.requests_per_s or 0.0) / ranks
        grid = np.arange(1.0, replica.max_sequences(load.total_tokens) + 1.0)
        found = steady_state(
            replica.row[None, :],
            np.zeros(len(grid), dtype=np.int64),
            grid,
            np.full(len(grid), grid[-1]),
            np.full(len(grid), load.new_tokens),
            np.full(len(grid), load.output_tokens),
        )
        if load.users is None:
            enough = np.flatnonzero(found.output_tokens_per_s / load.output_tokens >= rate)
            at = int(enough[0]) if len(enough) else len(grid) - 1
            keeps_up = bool(len(enough))
        else:
            at, keeps_up = int(min(load.users / ranks, grid[-1])) - 1, True
        ttft, tpot = float(found.ttft_s[at]), float(found.tpot_s[at])
        served = (
            rate * ranks
            if load.users is None
            else float(found.output_tokens_per_s[at]) * ranks / load.output_tokens
        )
        return ReplicaLatencies(
            ttft=flat(ttft),
            tpot=flat(tpot),
            e2e=flat(ttft + tpot * (load.output_tokens - 1.0)),
            requests_per_s=served,
            output_tokens_per_s=served * load.output_tokens,
            batch_count=float(grid[at]),
            keeps_up=keeps_up,
        )


def _apart(
    writer: Replica, writers: int, load: ServingLoad, prompts: PrefillReplicas
) -> ReplicaLatencies:
    """Pools apart by the closed form: nobody waits, as long as both take what comes."""
    rate = load.requests_per_s or 1.0
    read_s = prefill_s(prompts.replica, load)
    ttft, context = (
        read_s + prompts.kv_transfer_s(load.input_tokens),
        load.input_tokens + 0.5 * load.output_tokens,
    )
    for count in range(1, int(writer.max_sequences(load.total_tokens)) + 1):
        tpot = step_time_s(writer.row, 0.0, 0.0, float(count), count * context, float(count))
        if count * writers * writer.ranks / (tpot * load.output_tokens) >= rate:
            break
    enough = count * writers * writer.ranks / (tpot * load.output_tokens) >= rate
    return ReplicaLatencies(
        ttft=flat(ttft),
        tpot=flat(tpot),
        e2e=flat(ttft + tpot * (load.output_tokens - 1.0)),
        requests_per_s=rate,
        output_tokens_per_s=rate * load.output_tokens,
        batch_count=float(count),
        keeps_up=enough and rate * read_s <= prompts.replicas * prompts.replica.ranks,
        queued_s=0.0 if enough else 1.0,
    )


def flat(value: float) -> LatencyQuantiles:
    return LatencyQuantiles(mean_s=value, p50_s=value, p90_s=value, p95_s=value, p99_s=value)


def plan(wanted: Workload) -> Plan:
    """The plan; fails if there is none."""
    found = plan_inference(wanted, CATALOG, load_of(wanted), Steady())
    assert isinstance(found, Plan), str(found)
    return found


def refused(wanted: Workload) -> Infeasible:
    """What makes it infeasible; fails if there is a plan."""
    found = plan_inference(wanted, CATALOG, load_of(wanted), Steady())
    assert isinstance(found, Infeasible)
    return found


def on(found: Plan, machine: str) -> Option:
    """The option on a machine type."""
    return next(option for option in found.options if option.cluster.machine == machine)
