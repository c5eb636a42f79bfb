"""A proven number of machines as an option: what it serves, what a token costs, how it is started and scaled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpuyard.catalog import Catalog, Chip, Machine, Model
from gpuyard.perf.inference import PARTS, interval, step_parts_s
from gpuyard.perf.inference.interval import Metric
from gpuyard.plan.cost import HOUR_S, energy_joules
from gpuyard.plan.engines import Role, started
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.inference.formats import native
from gpuyard.plan.inference.layouts import machines_of
from gpuyard.plan.inference.load import Load, targets_of
from gpuyard.plan.inference.pools import handover_s, prompt_s
from gpuyard.plan.inference.refine import Proven, doubts
from gpuyard.plan.inference.replica import Quantiles, Replica
from gpuyard.plan.inference.serverless import Instance, alive_ratio, instance_for
from gpuyard.plan.inference.sizing import Sized
from gpuyard.plan.option import Arrangement, Bill, Cluster, Option, Part
from gpuyard.plan.platforms import suitability
from gpuyard.plan.pool_router import POOL_NOTE, router
from gpuyard.plan.service import Autoscaling, Engine, PrefillPool, Service, Spread
from gpuyard.units import BYTES, DURATION, PRICE_PER_HOUR, show
from gpuyard.workload import Workload

__all__ = ["Deployed", "option", "spread_of"]

MILLION = 1e6
METRICS: tuple[tuple[Metric, str], ...] = (
    ("throughput", "throughput"), ("tpot", "TPOT"), ("ttft", "TTFT"), ("e2e", "whole answers"),
)  # fmt: skip
WATCHED = 0.8  # of the sequences at which the targets are just kept: where to add a replica, before they break
LONGEST = 9.0  # the longest of a thousand prompts over the mean, at the variation that is assumed
COLD_RATIO = 0.01  # of the requests: fewer cold starts are not told
PEAK = 2.0  # replicas for twice the load, where the file sets no limit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Deployed:
    """Everything that is known of one way to serve."""

    workload: Workload
    model: Model
    load: Load
    sized: Sized
    proven: Proven
    chip: Chip
    machine_count: int  # spares included
    bills: tuple[Bill, ...]
    most_machines: int
    instead_of: str = ""  # of pools apart: the machines of the same type that serve without

    @property
    def machine(self) -> Machine:
        """The machine type."""
        return self.sized.machine

    @property
    def replica(self) -> Replica:
        """One replica."""
        return self.sized.replica

    @property
    def per_machine(self) -> float:
        """Replicas of a machine."""
        return self.proven.replicas / self.proven.machine_count

    @property
    def replicas(self) -> int:
        """Replicas of all machines; of pools apart those that write, and spare machines stand for either pool."""
        return self.proven.replicas if self.proven.prompts else round(self.per_machine * self.machine_count)

    def error_ratio(self, metric: Metric) -> float:
        """The error bar of a figure, wider where pools are apart."""
        return interval(metric, self.replica.chip, self.replica.engine, self.proven.prompts is not None).ratio

    @property
    def doubts(self) -> tuple[str, ...]:
        """The targets that it may miss."""
        seen, targets = self.proven.latencies, targets_of(self.workload.requirements)
        apart = self.proven.prompts is not None
        found = doubts(seen.ttft.mean_s, seen.tpot.mean_s, seen.e2e.p99_s, self.replica, targets, apart)
        instance = self.instance
        if instance is None or targets.ttft_s is None or "ttft" in found:
            return found
        with_starts_s = seen.ttft.mean_s + self.cold_ratio * instance.start_s
        return ("ttft", *found) if with_starts_s > targets.ttft_s else found

    @property
    def instance(self) -> Instance | None:
        """What it runs on where it scales to zero."""
        asked = self.workload.where.platform == "cloud-run"
        return instance_for(self.machine, self.workload.where) if asked or self.is_serverless else None

    @property
    def is_serverless(self) -> bool:
        """Whether the cheapest bill, which is the first, is of instances that come and go."""
        return bool(self.bills) and self.bills[0].price.startswith("serverless/")

    @property
    def cold_ratio(self) -> float:
        """The share of requests that find no instance up."""
        instance = self.instance
        if instance is None:
            return 0.0
        return 1.0 - alive_ratio(self.proven.latencies.requests_per_s / self.proven.replicas, instance.idle_s)

    @property
    def rank(self) -> tuple[bool, float, int]:
        """What decides between two ways to serve on one machine type: targets surely kept, cost, machines."""
        usd = min((bill.usd for bill in self.bills), default=math.inf)
        return bool(self.doubts), usd, self.machine_count


def option(found: Deployed, catalog: Catalog) -> Option:
    """The way to serve as an option."""
    machine, replica, count = found.machine, found.replica, found.machine_count
    lay, held = replica.layout, replica.room
    batch = max(found.proven.latencies.batch_count, 1.0)
    context = batch * (found.load.input_tokens + 0.5 * found.load.output_tokens)
    parts = step_parts_s(replica.row, 0.0, 0.0, batch, context, batch)
    rest = max(replica.chip.memory_bytes - held.weight_bytes - held.reserve_bytes - held.cache_bytes, 0.0)
    return Option(
        cluster=Cluster(
            machine=machine.name, machine_count=count, chip=machine.chip, chip_count=count * machine.chip_count
        ),
        precision=replica.precision.weights,
        step_s=float(sum(parts)),
        step_parts=tuple(
            Part(name=name.replace("_", " "), value=float(value)) for name, value in zip(PARTS, parts, strict=True)
        ),
        memory_bytes=held.weight_bytes + held.reserve_bytes + held.cache_bytes,
        memory_parts=(
            Part(name="weights", value=held.weight_bytes),
            Part(name="cache of keys and values", value=held.cache_bytes),
            Part(name="engine, activations, graphs", value=held.reserve_bytes),
            Part(name="left free by the engine", value=rest),
        ),
        memory_capacity_bytes=replica.chip.memory_bytes,
        ideal_s=HOUR_S,
        expected_s=HOUR_S,
        error_ratio=found.error_ratio("e2e"),
        bills=found.bills,
        platforms=suitability(found.workload, machine, count, catalog),
        network=machine.network.words,
        arrangement=Arrangement(tp=lay.tp, pp=lay.pp, ep=lay.ep, dp=found.replicas * lay.attention_dp),
        tokens_per_s=found.proven.latencies.output_tokens_per_s,
        energy_joules=energy_joules(machine, count, HOUR_S, catalog),
        service=service(found, catalog),
        reasons=_reasons(found, catalog),
    )


def service(found: Deployed, catalog: Catalog) -> Service:
    """What the option serves."""
    replica, seen, load = found.replica, found.proven.latencies, found.load
    lay = replica.layout
    chips = found.machine_count * (found.machine.chip_count or 1.0)
    cheapest = min(found.bills, key=lambda bill: bill.usd, default=None)
    joules = energy_joules(found.machine, found.machine_count, 1.0, catalog)
    per_hour = cheapest.usd_per_hour if cheapest else None
    tokens = seen.output_tokens_per_s
    both = tokens * load.total_tokens / load.output_tokens
    return Service(
        replicas=found.replicas,
        spare_replicas=found.replicas - found.proven.replicas,
        chips_per_replica=lay.chips if found.machine.chip else 0,
        tp=lay.tp,
        pp=lay.pp,
        ep=lay.ep,
        attention_dp=lay.attention_dp,
        weights=replica.precision.weights,
        kv=replica.precision.kv,
        batch_count=seen.batch_count * replica.ranks,
        most_sequences_count=replica.limits.sequences * replica.ranks,
        budget_tokens=replica.limits.budget_tokens,
        ttft=spread_of(seen.ttft, found.error_ratio("ttft")),
        tpot=spread_of(seen.tpot, found.error_ratio("tpot")),
        e2e=spread_of(seen.e2e, found.error_ratio("e2e")),
        simulated=True,
        requests_per_s=seen.requests_per_s,
        output_tokens_per_s=tokens,
        tokens_per_s_per_chip=tokens / chips,
        tokens_per_s_per_user=1.0 / (seen.tpot.mean_s or seen.e2e.mean_s),
        rate_error_ratio=found.error_ratio("throughput"),
        usd_per_million_tokens=None if per_hour is None else per_hour / (both * HOUR_S) * MILLION,
        usd_per_million_output_tokens=None if per_hour is None else per_hour / (tokens * HOUR_S) * MILLION,
        joules_per_token=None if joules is None else joules / tokens,
        engine=_started(found, replica, "decode" if found.proven.prompts else "both"),
        prefill=_prefill(found),
        autoscaling=_autoscaling(found),
        serverless=found.is_serverless,
        doubts=found.doubts,
    )


def _started(found: Deployed, replica: Replica, role: Role) -> Engine:
    """The engine of a replica with its command lines."""
    load, span = found.load, machines_of(replica.layout, found.machine)
    longest = LONGEST * load.input_tokens + load.long_output_tokens
    return started(replica, found.model, found.chip, longest, span, load.hit_ratio > 0.0, role)


def _prefill(found: Deployed) -> PrefillPool | None:
    """The replicas that read prompts, where there are such."""
    prompts = found.proven.prompts
    if prompts is None:
        return None
    replica, lay = prompts.replica, prompts.replica.layout
    engine = _started(found, replica, "prefill")
    return PrefillPool(
        replicas=prompts.replicas,
        chips_per_replica=lay.chips,
        tp=lay.tp,
        ep=lay.ep,
        attention_dp=lay.attention_dp,
        most_sequences_count=replica.limits.sequences * replica.ranks,
        budget_tokens=replica.limits.budget_tokens,
        prompt_s=prompt_s(replica, found.load),
        handover_s=prompts.hand_over_s(found.load.input_tokens),
        engine=replace(engine, note=POOL_NOTE),
        router=router(engine.name, prompts.replicas, found.proven.replicas),
    )


def spread_of(seen: Quantiles, error_ratio: float) -> Spread:
    """A latency with its error bar."""
    return Spread(
        mean_s=seen.mean_s, p50_s=seen.p50_s, p90_s=seen.p90_s, p99_s=seen.p99_s, error_ratio=error_ratio
    )  # fmt: skip


def _autoscaling(found: Deployed) -> Autoscaling:
    """Bounds: the least that keeps the service up and twice the load; scaled on requests, not on the GPU."""
    sized, ranks = found.sized, found.replica.ranks
    needed, there, seen = found.proven.replicas, found.replicas, found.proven.latencies
    present = seen.requests_per_s * seen.e2e.mean_s / needed  # in a replica at this load (Little)
    target = max(1.0, math.floor(WATCHED * sized.sequences * ranks), math.ceil(present))
    room = max(there, int(found.per_machine * found.most_machines))
    instance, weights = found.instance, _weights(found)
    note = f"loading {weights} of weights comes on top" if instance else f"a machine, then {weights} of weights to load"
    if found.proven.prompts:
        note += f"; of those that write, with {found.proven.prompts.replicas} that read for every {needed}"
    return Autoscaling(
        least_replicas=0 if instance and found.workload.where.platform == "cloud-run" else 1 + there - needed,
        most_replicas=min(room, max(there, math.ceil(PEAK * needed) + there - needed)),
        metric="requests in a replica, running and waiting (vllm:num_requests_running + vllm:num_requests_waiting)"
        if found.replica.engine.family == "vllm"
        else "requests in a replica, running and waiting",
        target=target,
        requests_per_s=target / seen.e2e.mean_s,
        start_s=instance.start_s if instance else None,
        note=note,
    )


def _weights(found: Deployed) -> str:
    """What a replica loads before it answers."""
    return show(found.replica.room.weight_bytes * found.replica.layout.chips, BYTES)


def _reasons(found: Deployed, catalog: Catalog) -> tuple[str, ...]:
    """What the numbers rest on, and what has to be known before it is built."""
    replica, seen = found.replica, found.proven.latencies
    reasons: list[str] = [guidance_reason(found.workload, found.machine, catalog), *_apart_reasons(found)]
    notes: dict[str, list[str]] = {}
    for metric, words in METRICS:
        notes.setdefault(interval(metric, replica.chip, replica.engine).note, []).append(words)
    reasons += [f"wide error bars of {', '.join(words)}: {note}" for note, words in notes.items() if note]
    instance = found.instance
    if instance is not None and found.cold_ratio > COLD_RATIO:
        waits = f"{show(instance.start_s, DURATION)} and until {_weights(found)} of weights are loaded"
        kept = (
            f"; one that stays up costs {show(instance.usd_per_hour, PRICE_PER_HOUR)}" if instance.usd_per_hour else ""
        )
        reasons.append(
            f"{found.cold_ratio:.0%} of the requests find no instance up and wait {waits}; "
            f"the latencies leave that out{kept}"
        )
    elif found.doubts:
        names = " and ".join(found.doubts)
        reasons.append(f"{names} may be missed at the far end of the error bars: measure it before you rely on it")
    if found.machine.chip is None:
        reasons.append("processors alone keep every target")
    if replica.precision.weights != "bf16" and native(found.model) is None:
        kept = f"{replica.precision.weights} weights" + ("" if replica.precision.kv == "bf16" else " and an fp8 cache")
        reasons.append(f"{kept} are not exact: measure the model's quality before use, or set precision: bf16")
    if seen.preemptions:
        reasons.append("the cache runs full at times: sequences are preempted and computed again")
    spares = found.replicas - found.proven.replicas
    if found.proven.prompts and found.machine_count > found.proven.machine_count:
        reasons.append(f"{found.machine_count - found.proven.machine_count} spare machines stand for either pool")
    if spares:
        wanted = found.workload.requirements.availability_ratio or 0.0
        reasons.append(f"{spares} spare replicas keep {wanted:.4g} of the time covered while others restart")
    return tuple(reason for reason in reasons if reason)


def _apart_reasons(found: Deployed) -> list[str]:
    """Why prompts are read apart, and how sure that is."""
    if found.proven.prompts is None:
        return []
    alone = found.instead_of
    better = (
        f"where replicas read and write, {alone} are needed" if alone else "no service of replicas that do both does"
    )
    bars = f"of published runs with pools apart, four of five first tokens were within ±{found.error_ratio('ttft'):.0%}"
    return [
        f"replicas that only write keep the time of a token while others read prompts: {better}",
        f"wide error bars: {bars}; handing a cache over takes 0.1 to 0.2 s there, {handover_s():g} s here",
    ]
