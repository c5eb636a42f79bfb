"""A sized single-pass service as an option of a plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.perf.single_pass import (
    RequestWork,
    SinglePassRate,
)
from gpuyard.plan.chances import with_chances
from gpuyard.plan.cost import SERVICE_PERIOD_S, energy_joules
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.inference.serverless import instance_for
from gpuyard.plan.option import Bill, BreakdownTerm, Cluster, Option
from gpuyard.plan.platforms import suitability
from gpuyard.plan.predictions import SERVING_COVERAGE, prediction
from gpuyard.plan.service import Autoscaling, LatencyStats, Service
from gpuyard.plan.single_pass_batching import BatchChoice
from gpuyard.plan.single_pass_servers import single_pass_server
from gpuyard.units import HOUR_S
from gpuyard.workload.requirements import Requirements
from gpuyard.workload.workload import Workload

MILLION = 1e6
# Latency in batches: p99 waits for the batch in progress, the mean for half of it.
P99_BATCHES = 2.0
MEAN_BATCHES = 1.5


def batches_at(percent: int) -> float:
    """Return the latency in batches at a percentile: arrivals fall anywhere in a batch."""
    return P99_BATCHES if percent == 99 else 1.0 + percent / 100.0 * (P99_BATCHES - 1.0)


def p99_limit_s(requirements: Requirements) -> float | None:
    """Return the limit on p99 that keeps every end-to-end limit of the file, or None."""
    limits = [
        tail.limit_s * P99_BATCHES / batches_at(tail.percent)
        for tail in requirements.tails
        if tail.metric == "e2e"
    ]
    if requirements.p99_s is not None:
        limits.append(requirements.p99_s)
    return min(limits, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePassCase:
    """The work on one machine type; a replica is one chip, or all CPUs of a machine."""

    workload: Workload
    machine: Machine
    work: RequestWork
    pace: SinglePassRate
    precision: str
    weight_bytes: float  # resident in memory
    read_bytes: float  # read per batch; few rows of a recommender's tables
    memory_bytes: float
    replicas_per_machine: int
    measured: str  # source of the rate


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglePassSizing:
    """Machines and batches that meet the rate, with their bills."""

    batching: BatchChoice
    batch: float  # mean, at the arrival rate
    batch_s: float
    rate: float
    needed_machines: int  # without redundancy
    machine_count: int
    bills: tuple[Bill, ...]


def _service(case: SinglePassCase, sizing: SinglePassSizing, catalog: Catalog) -> Service:
    machine = case.machine
    workload = case.workload
    batching = sizing.batching
    rate = sizing.rate
    replicas = sizing.machine_count * case.replicas_per_machine
    active = sizing.needed_machines * case.replicas_per_machine
    joules = energy_joules(machine, sizing.machine_count, 1.0, catalog)
    usd = min((bill.usd for bill in sizing.bills), default=None)
    error = case.pace.error_ratio
    instance = instance_for(machine, workload.where)
    serverless = bool(sizing.bills and sizing.bills[0].price.startswith("serverless/"))
    scales_to_zero = workload.where.platform == "cloud-run" and instance is not None
    return Service(
        replicas=replicas,
        spare_replicas=replicas - active,
        chips_per_replica=0 if machine.chip is None else 1,
        weights=case.precision,
        batch_count=sizing.batch,
        max_sequences_count=int(batching.batch),
        e2e=LatencyStats(
            mean_s=MEAN_BATCHES * sizing.batch_s,
            p50_s=batches_at(50) * sizing.batch_s,
            p90_s=batches_at(90) * sizing.batch_s,
            p95_s=batches_at(95) * sizing.batch_s,
            p99_s=batches_at(99) * sizing.batch_s,
            error_ratio=error,
        ),
        simulated=False,
        requests_per_s=rate,
        output_tokens_per_s=rate,
        tokens_per_s_per_chip=rate / max(sizing.machine_count * machine.chip_count, 1.0),
        tokens_per_s_per_user=1.0 / (MEAN_BATCHES * sizing.batch_s),
        rate_error_ratio=error,
        usd_per_million_tokens=None if usd is None else usd / (rate * HOUR_S) * MILLION,
        joules_per_token=None if joules is None else joules / rate,
        engine=single_pass_server(
            workload.model,
            machine,
            int(batching.batch),
            batching.batch_s,
            case.precision,
            catalog,
            tokens=int(workload.traffic.input_tokens or 0) if workload.traffic else 0,
        ),
        autoscaling=Autoscaling(
            min_replicas=0 if scales_to_zero else 1 + replicas - active,
            max_replicas=max(replicas, 2 * active),
            metric="requests per second and replica",
            target=0.8 * batching.rate_per_s,
            requests_per_s=0.8 * batching.rate_per_s,
            start_s=instance.start_s if instance and serverless else None,
        ),
        serverless=serverless,
    )


def single_pass_option(case: SinglePassCase, sizing: SinglePassSizing, catalog: Catalog) -> Option:
    """Return the sized service as an option."""
    machine = case.machine
    workload = case.workload
    count = sizing.machine_count
    call_s = case.pace.call_s
    compute_s = sizing.batch * case.work.flop / case.pace.flop_per_s
    service = _service(case, sizing, catalog)
    predictions = (
        prediction("e2e_p99_s", service.e2e.p99_s, case.pace.error_ratio, SERVING_COVERAGE),
        prediction("requests_per_s", sizing.rate, case.pace.error_ratio, SERVING_COVERAGE),
        *(
            prediction(
                f"{tail.key}_s",
                batches_at(tail.percent) * sizing.batch_s,
                case.pace.error_ratio,
                SERVING_COVERAGE,
            )
            for tail in workload.requirements.tails
            if tail.metric == "e2e"
        ),
    )
    option = Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=count,
            chip=machine.chip,
            chip_count=count * machine.chip_count,
        ),
        precision=case.precision,
        step_s=sizing.batch_s,
        step_parts=(
            BreakdownTerm(name="call", value=call_s),
            BreakdownTerm(name="arithmetic", value=compute_s),
            BreakdownTerm(
                name="waiting for weights", value=max(sizing.batch_s - call_s - compute_s, 0.0)
            ),
        ),
        memory_bytes=case.weight_bytes,
        memory_parts=(BreakdownTerm(name="weights", value=case.weight_bytes),),
        memory_capacity_bytes=case.memory_bytes,
        ideal_s=SERVICE_PERIOD_S,
        expected_s=SERVICE_PERIOD_S,
        error_ratio=case.pace.error_ratio,
        bills=sizing.bills,
        platforms=suitability(workload, machine, count, catalog),
        network=machine.network.technology,
        energy_joules=energy_joules(machine, count, SERVICE_PERIOD_S, catalog),
        service=service,
        reasons=tuple(_reasons(case, catalog)),
        measured=case.pace.runs > 0 or machine.chip is None,
        predictions=tuple(item for item in predictions if item is not None),
    )
    option = with_chances(option, workload.requirements)
    risks = tuple(limit.name for limit in option.limits if not limit.met)
    return replace(option, service=replace(service, risks=risks))


def _reasons(case: SinglePassCase, catalog: Catalog) -> Iterator[str]:
    yield f"calibrated on {case.measured}"
    if case.precision == "int8":
        yield "int8 weights and activations, as in the closed division: validate model quality"
    if case.machine.chip is None:
        yield "CPU-only"
    yield guidance_reason(case.workload, case.machine, catalog)
