"""A sized service as an option of a plan: rates, cost per token, commands, autoscaling, reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from gpuyard.catalog.chips import Chip
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.perf.inference.columns import STEP_TERMS
from gpuyard.perf.inference.error_bars import Metric
from gpuyard.perf.inference.quantiles import LatencyQuantiles
from gpuyard.plan.chances import limit_chances, with_chances
from gpuyard.plan.cost import SERVICE_PERIOD_S, energy_joules
from gpuyard.plan.disaggregation_router import POOL_NOTE, router_command
from gpuyard.plan.engine_commands import Role, with_start_commands
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.inference.disaggregated import kv_transfer_setup_s, prefill_s
from gpuyard.plan.inference.formats import keeps_numerics, native
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import ServingLoad
from gpuyard.plan.inference.refine import SimulatedSizing
from gpuyard.plan.inference.replica import Replica
from gpuyard.plan.inference.serverless import Instance, alive_ratio, instance_for
from gpuyard.plan.inference.sizing import ReplicaSizing
from gpuyard.plan.option import Bill, BreakdownTerm, Cluster, Option, ParallelLayout
from gpuyard.plan.platforms import suitability
from gpuyard.plan.predictions import Prediction, of_interval
from gpuyard.plan.service import Autoscaling, EngineCommand, LatencyStats, PrefillPool, Service
from gpuyard.plan.startup import start_up_s
from gpuyard.units import BYTES, DURATION, HOUR_S, PRICE_PER_HOUR, show
from gpuyard.workload.workload import Workload

MILLION = 1e6
METRICS: tuple[tuple[Metric, str], ...] = (
    ("throughput", "throughput"),
    ("tpot", "TPOT"),
    ("ttft", "TTFT"),
    ("e2e", "end-to-end latency"),
)
SCALE_UP_RATIO = 0.8  # add a replica at this fraction of the sequences that meet the targets
LONGEST_RATIO = 9.0  # longest of a thousand prompts / mean, at the assumed variation
COLD_RATIO = 0.01  # of the requests: fewer cold starts are not reported
PEAK_RATIO = 2.0  # autoscaling limit for peaks of twice the load


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServiceCandidate:
    """A sized, simulated and priced service on one machine type."""

    workload: Workload
    model: Model
    load: ServingLoad
    sizing: ReplicaSizing
    simulated: SimulatedSizing
    chip: Chip
    machine_count: int  # with redundancy
    bills: tuple[Bill, ...]
    max_machines: int
    instead_of: str = ""  # for disaggregation: the machines needed without it

    @property
    def machine(self) -> Machine:
        return self.sizing.machine

    @property
    def replica(self) -> Replica:
        return self.sizing.replica

    @property
    def per_machine(self) -> float:
        return self.simulated.replicas / self.simulated.machine_count

    @property
    def replicas(self) -> int:
        """All replicas; with disaggregation the decode replicas, without spares."""
        if self.simulated.prefill:
            return self.simulated.replicas
        return round(self.per_machine * self.machine_count)

    def error_ratio(self, metric: Metric) -> float:
        """Return the error bar of a metric, wider with disaggregation."""
        disaggregated = self.simulated.prefill is not None
        return self.replica.interval(metric, disaggregated).ratio

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """Latencies and rates with their intervals; the mean TTFT includes cold starts."""
        latencies = self.simulated.latencies
        cold_s = self.cold_ratio * self.instance.start_s if self.instance else 0.0
        values: tuple[tuple[str, float, Metric], ...] = (
            ("ttft_s", latencies.ttft.mean_s + cold_s, "ttft"),
            ("tpot_s", latencies.tpot.mean_s, "tpot"),
            ("e2e_p99_s", latencies.e2e.p99_s, "e2e"),
            ("output_tokens_per_s", latencies.output_tokens_per_s, "throughput"),
            *(
                (f"{tail.key}_s", getattr(getattr(latencies, tail.metric), tail.field), tail.metric)
                for tail in self.workload.requirements.tails
            ),
        )
        disaggregated = self.simulated.prefill is not None
        return tuple(
            of_interval(name, self.replica.interval(metric, disaggregated).planned(value, metric))
            for name, value, metric in values
            if 0.0 < value < math.inf
        )

    @property
    def risks(self) -> tuple[str, ...]:
        """Targets that are met only nominally, without the confidence of the file."""
        requirements = self.workload.requirements
        limits = limit_chances(self.predictions, requirements)
        return tuple(limit.name for limit in limits if not limit.met)

    @property
    def instance(self) -> Instance | None:
        """Instance type, if the service scales to zero."""
        if self.workload.where.platform == "cloud-run" or self.is_serverless:
            return instance_for(self.machine, self.workload.where)
        return None

    @property
    def is_serverless(self) -> bool:
        """True if the cheapest bill is for instances that scale to zero."""
        return bool(self.bills) and self.bills[0].price.startswith("serverless/")

    @property
    def cold_ratio(self) -> float:
        """Fraction of requests that wait for a cold start."""
        instance = self.instance
        if instance is None:
            return 0.0
        return 1.0 - alive_ratio(
            self.simulated.latencies.requests_per_s / self.simulated.replicas, instance.idle_s
        )

    @property
    def rank(self) -> tuple[bool, float, int]:
        """Order of candidates on one machine type: risk, cost, machines."""
        usd = min((bill.usd for bill in self.bills), default=math.inf)
        return bool(self.risks), usd, self.machine_count


def service_option(candidate: ServiceCandidate, catalog: Catalog) -> Option:
    """Return the candidate as an option of a plan."""
    from gpuyard.perf.inference.step import step_terms_s  # imports Numba

    machine, replica = candidate.machine, candidate.replica
    chip = candidate.chip if machine.chip is not None else None
    count = candidate.machine_count
    layout = replica.layout
    kv_cache = replica.room
    batch = max(candidate.simulated.latencies.batch_count, 1.0)
    context = batch * (candidate.load.input_tokens + 0.5 * candidate.load.output_tokens)
    terms = step_terms_s(replica.row, 0.0, 0.0, batch, context, batch)
    used_bytes = kv_cache.weight_bytes + kv_cache.reserve_bytes + kv_cache.cache_bytes
    option = Option(
        cluster=Cluster(
            machine=machine.name,
            machine_count=count,
            chip=machine.chip,
            chip_count=count * machine.chip_count,
        ),
        precision=replica.precision.weights,
        step_s=float(sum(terms)),
        step_parts=tuple(
            BreakdownTerm(name=name, value=float(value))
            for name, value in zip(STEP_TERMS, terms, strict=True)
        ),
        memory_bytes=used_bytes,
        memory_parts=(
            BreakdownTerm(name="weights", value=kv_cache.weight_bytes),
            BreakdownTerm(name="KV cache", value=kv_cache.cache_bytes),
            BreakdownTerm(name="engine, activations, CUDA graphs", value=kv_cache.reserve_bytes),
            BreakdownTerm(name="unused", value=max(replica.chip.memory_bytes - used_bytes, 0.0)),
        ),
        memory_capacity_bytes=replica.chip.memory_bytes,
        ideal_s=SERVICE_PERIOD_S,
        expected_s=SERVICE_PERIOD_S,
        error_ratio=candidate.error_ratio("e2e"),
        bills=candidate.bills,
        platforms=suitability(candidate.workload, machine, count, catalog),
        network=machine.network.summary,
        arrangement=ParallelLayout(
            tp=layout.tp, pp=layout.pp, ep=layout.ep, dp=candidate.replicas * layout.attention_dp
        ),
        tokens_per_s=candidate.simulated.latencies.output_tokens_per_s,
        energy_joules=energy_joules(machine, count, SERVICE_PERIOD_S, catalog),
        service=_service(candidate, catalog),
        reasons=_reasons(candidate, catalog),
        measured=replica.chip.calibrated,
        keeps_numerics=keeps_numerics(candidate.workload, replica.precision, chip, catalog),
        predictions=candidate.predictions,
    )
    return with_chances(option, candidate.workload.requirements)


def _service(candidate: ServiceCandidate, catalog: Catalog) -> Service:
    replica = candidate.replica
    latencies = candidate.simulated.latencies
    load = candidate.load
    layout = replica.layout
    chips = candidate.machine_count * (candidate.machine.chip_count or 1.0)
    cheapest = min(candidate.bills, key=lambda bill: bill.usd, default=None)
    joules = energy_joules(candidate.machine, candidate.machine_count, 1.0, catalog)
    per_hour = cheapest.usd_per_hour if cheapest else None
    output_per_s = latencies.output_tokens_per_s
    total_per_s = output_per_s * load.total_tokens / load.output_tokens
    role: Role = "decode" if candidate.simulated.prefill else "both"
    engine = _engine(candidate, replica, role, catalog)
    return Service(
        replicas=candidate.replicas,
        spare_replicas=candidate.replicas - candidate.simulated.replicas,
        chips_per_replica=layout.chips if candidate.machine.chip else 0,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        attention_dp=layout.attention_dp,
        weights=replica.precision.weights,
        kv=replica.precision.kv,
        batch_count=latencies.batch_count * replica.ranks,
        max_sequences_count=replica.limits.sequences * replica.ranks,
        budget_tokens=replica.limits.budget_tokens,
        ttft=latency_stats(latencies.ttft, candidate.error_ratio("ttft")),
        tpot=latency_stats(latencies.tpot, candidate.error_ratio("tpot")),
        e2e=latency_stats(latencies.e2e, candidate.error_ratio("e2e")),
        simulated=True,
        requests_per_s=latencies.requests_per_s,
        output_tokens_per_s=output_per_s,
        tokens_per_s_per_chip=output_per_s / chips,
        tokens_per_s_per_user=1.0 / (latencies.tpot.mean_s or latencies.e2e.mean_s),
        rate_error_ratio=candidate.error_ratio("throughput"),
        usd_per_million_tokens=_usd_per_million(per_hour, total_per_s),
        usd_per_million_output_tokens=_usd_per_million(per_hour, output_per_s),
        joules_per_token=None if joules is None else joules / output_per_s,
        engine=engine,
        prefill=_prefill(candidate, catalog),
        autoscaling=_autoscaling(candidate, engine.load_bytes),
        serverless=candidate.is_serverless,
        risks=candidate.risks,
    )


def _usd_per_million(usd_per_hour: float | None, tokens_per_s: float) -> float | None:
    return None if usd_per_hour is None else usd_per_hour / (tokens_per_s * HOUR_S) * MILLION


def _engine(
    candidate: ServiceCandidate, replica: Replica, role: Role, catalog: Catalog
) -> EngineCommand:
    load = candidate.load
    span = machines_of(replica.layout, candidate.machine)
    longest = LONGEST_RATIO * load.input_tokens + load.long_output_tokens
    return with_start_commands(
        replica,
        candidate.model,
        candidate.chip,
        longest,
        span,
        load.hit_ratio > 0.0,
        role,
        catalog.checkpoints,
    )


def _prefill(candidate: ServiceCandidate, catalog: Catalog) -> PrefillPool | None:
    pool = candidate.simulated.prefill
    if pool is None:
        return None
    replica = pool.replica
    layout = replica.layout
    engine = _engine(candidate, replica, "prefill", catalog)
    return PrefillPool(
        replicas=pool.replicas,
        chips_per_replica=layout.chips,
        tp=layout.tp,
        ep=layout.ep,
        attention_dp=layout.attention_dp,
        max_sequences_count=replica.limits.sequences * replica.ranks,
        budget_tokens=replica.limits.budget_tokens,
        prefill_s=prefill_s(replica, candidate.load),
        kv_transfer_s=pool.kv_transfer_s(candidate.load.input_tokens),
        engine=replace(engine, note=POOL_NOTE),
        router=router_command(engine.name, pool.replicas, candidate.simulated.replicas),
    )


def latency_stats(quantiles: LatencyQuantiles, error_ratio: float) -> LatencyStats:
    """Return a latency with its error bar."""
    return LatencyStats(**asdict(quantiles), error_ratio=error_ratio)


def _autoscaling(candidate: ServiceCandidate, load_bytes: float) -> Autoscaling:
    """Scale on requests rather than GPU utilisation, from one replica to twice the load."""
    latencies = candidate.simulated.latencies
    needed = candidate.simulated.replicas
    spares = candidate.replicas - needed
    # Little's law: requests in a replica at this load.
    present = latencies.requests_per_s * latencies.e2e.mean_s / needed
    sequences = candidate.sizing.sequences * candidate.replica.ranks
    target = max(1.0, math.floor(SCALE_UP_RATIO * sequences), math.ceil(present))
    allowed = max(candidate.replicas, int(candidate.per_machine * candidate.max_machines))
    instance = candidate.instance
    weights = show(load_bytes, BYTES)
    if instance:
        note = f"plus the time to load {weights} of weights"
    else:
        note = f"start a machine, then load {weights} of weights"
    if candidate.simulated.prefill:
        prefill = candidate.simulated.prefill.replicas
        note += f"; {prefill} prefill replicas per {needed} decode replicas"
    metric = "running and waiting requests per replica"
    if candidate.replica.engine.family == "vllm":
        metric += " (vllm:num_requests_running + vllm:num_requests_waiting)"
    scales_to_zero = instance is not None and candidate.workload.where.platform == "cloud-run"
    return Autoscaling(
        min_replicas=0 if scales_to_zero else 1 + spares,
        max_replicas=min(allowed, max(candidate.replicas, math.ceil(PEAK_RATIO * needed) + spares)),
        metric=metric,
        target=target,
        requests_per_s=target / latencies.e2e.mean_s,
        start_s=instance.start_s if instance else start_up_s(candidate.chip, load_bytes),
        note=note,
    )


def _weights(candidate: ServiceCandidate) -> str:
    return show(candidate.replica.room.weight_bytes * candidate.replica.layout.chips, BYTES)


def _reasons(candidate: ServiceCandidate, catalog: Catalog) -> tuple[str, ...]:
    replica = candidate.replica
    reasons = [
        guidance_reason(candidate.workload, candidate.machine, catalog),
        *_disaggregation_reasons(candidate),
        *_error_bar_reasons(replica),
        *_risk_reasons(candidate),
    ]
    if candidate.machine.chip is None:
        reasons.append("CPU-only: no accelerator is needed to meet the targets")
    own = native(candidate.model, catalog.checkpoints)
    if replica.precision.weights not in ("bf16", own.weights if own is not None else "bf16"):
        dtypes = f"{replica.precision.weights} weights"
        if replica.precision.kv != "bf16":
            dtypes += " and an fp8 KV cache"
        reasons.append(f"{dtypes} are lossy: validate model quality, or set precision: bf16")
    if candidate.simulated.latencies.preemptions:
        reasons.append("the KV cache fills up at times: sequences are preempted and recomputed")
    spare_machines = candidate.machine_count - candidate.simulated.machine_count
    if candidate.simulated.prefill and spare_machines > 0:
        reasons.append(f"{spare_machines} spare machines can join either pool")
    spare_replicas = candidate.replicas - candidate.simulated.replicas
    if spare_replicas:
        availability = candidate.workload.requirements.availability_ratio or 0.0
        reasons.append(f"{spare_replicas} spare replicas for an availability of {availability:.4g}")
    return tuple(reason for reason in reasons if reason)


def _error_bar_reasons(replica: Replica) -> Iterator[str]:
    metrics: dict[str, list[str]] = {}
    for metric, name in METRICS:
        metrics.setdefault(replica.interval(metric).note, []).append(name)
    for note, names in metrics.items():
        if note:
            yield f"wide error bars of {', '.join(names)}: {note}"


def _risk_reasons(candidate: ServiceCandidate) -> Iterator[str]:
    instance = candidate.instance
    if instance is not None and candidate.cold_ratio > COLD_RATIO:
        start = f"{show(instance.start_s, DURATION)} plus loading {_weights(candidate)} of weights"
        yield (
            f"{candidate.cold_ratio:.0%} of requests wait for a cold start ({start}), "
            "which the latencies exclude"
        )
        if instance.usd_per_hour:
            price = show(instance.usd_per_hour, PRICE_PER_HOUR)
            yield f"an instance that is always up costs {price}"
    elif candidate.risks:
        names = " and ".join(candidate.risks)
        confidence = candidate.workload.requirements.confidence_ratio
        yield f"{names} with less than {confidence:.0%} confidence: measure before you rely on it"


def _disaggregation_reasons(candidate: ServiceCandidate) -> Iterator[str]:
    if candidate.simulated.prefill is None:
        return
    if candidate.instead_of:
        benefit = f"{candidate.instead_of} are needed without"
    else:
        benefit = "no service without it meets the targets"
    yield f"disaggregated prefill keeps TPOT steady: {benefit}"
    yield (
        "wide error bars: 80 % of published disaggregated runs are within "
        f"±{candidate.error_ratio('ttft'):.0%} in TTFT; their KV-cache transfer setup takes "
        f"0.1 to 0.2 s, {kv_transfer_setup_s():g} s is assumed here"
    )
