"""Plans for models that answer in one pass: images, texts to encode, items to rank, rows to score."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.catalog import Catalog, Machine, Model
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.samples import Pace, Work, pace, peak_flop_per_s, tree_pace, work_of
from gpuyard.plan.batches import Batched, batched
from gpuyard.plan.conclude import concluded
from gpuyard.plan.cost import HOUR_S, energy_joules
from gpuyard.plan.eligible import chip_of, ruled_out
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.inference.bids import bid, cheapest_alike
from gpuyard.plan.inference.serverless import instance_for
from gpuyard.plan.inference.why_not import first_reason
from gpuyard.plan.limits import Miss, judged, most_machines, raised
from gpuyard.plan.option import Bill, Cluster, Option, Part, Plan
from gpuyard.plan.pass_servers import pass_server
from gpuyard.plan.platforms import suitability
from gpuyard.plan.service import Autoscaling, Service, Spread
from gpuyard.units import BYTES, DURATION, show
from gpuyard.workload import Workload

__all__ = ["plan_samples"]

MILLION = 1e6
NOTHING = Infeasible(binding="where", what="no machine type is left to serve on", fix="allow more machines")
FULL = 0.85  # of a chip's memory that weights and activations may take
TAIL = 2.0  # the slowest of a hundred waits for a batch under way, then runs in the next
MIDDLE = 1.5  # the average waits for half of one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """One machine type against the work; a replica is one chip, or all processors of a machine."""

    workload: Workload
    machine: Machine
    work: Work
    pace: Pace
    precision: str
    weight_bytes: float  # in memory
    read_bytes: float  # of them, for each batch: of a recommender's tables only some rows
    memory_bytes: float
    replicas_per_machine: int
    measured: str  # what the pace rests on


def plan_samples(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """The machines that answer at the rate within the latency, the cheapest first; Infeasible with what to relax."""
    model, traffic = workload.model, workload.traffic
    assert model is not None, "the checks of an inference workload ask for it"
    assert traffic is not None, "and for traffic"
    if traffic.trace is not None:
        raise InputError.one(
            "traffic.trace", f"{model.label} writes no tokens to replay", "give requirements.requests, such as 200/s"
        )
    work = work_of(model, traffic.input_tokens)
    if work is None and model.kind != "trees":
        raise InputError.one(
            "model",
            f"no published run is of a model like {model.label}",
            "use a decoder, encoder, image model or trees",
        )
    options: list[Option] = []
    misses: list[Miss] = []
    searched = 0
    offered = [machine for machine in catalog.machines if machine.provider == workload.where.provider]
    for machine in cheapest_alike(offered, workload, catalog):
        bench = _bench(workload, model, work, machine, catalog)
        if isinstance(bench, Miss):
            misses.append(bench)
            continue
        found = _option(bench, catalog)
        searched += 1
        if isinstance(found, Miss):
            misses.append(found)
        else:
            options.append(found)
    return concluded(
        workload,
        catalog,
        options,
        misses,
        searched_count=searched,
        nothing=first_reason(misses, (), NOTHING),
        notes=tuple(_notes(workload, work)),
    )


def _notes(workload: Workload, work: Work | None) -> Iterator[str]:
    """What the numbers rest on."""
    if work is not None:
        yield f"a request is {work.words}; rates are those of MLPerf Inference, closed division"
    else:
        yield "rows are scored on processors: no public rate on accelerators was found"
    if workload.requirements.ttft_s or workload.requirements.tpot_s:
        yield "ttft and tpot are of models that write tokens; p99 limits the whole answer here"


def _bench(workload: Workload, model: Model, work: Work | None, machine: Machine, catalog: Catalog) -> _Bench | Miss:
    """The machine against the work, or what rules it out."""
    against = ruled_out(workload, machine, catalog)
    if against is not None:
        binding, _, what = against.partition(": ")
        return _out(machine, binding, what, f"relax {binding}")
    if machine.chip_count % 1:
        return _out(machine, "machines", "a share of a chip", "use a whole one")
    if model.kind == "trees":
        return _trees(workload, model, machine)
    assert work is not None, "asked for before"
    chip = chip_of(machine, catalog) or next((item for item in catalog.chips if item.name == machine.cpu), None)
    precision = workload.requirements.precision
    found = pace(work.family, chip, catalog, precision) if chip else None
    if chip is None or found is None:
        what = f"no published run calibrates {chip.label if chip else 'its processor'} for such models"
        return _out(machine, "catalog", what, "choose a GPU or an Intel processor")
    host = machine.chip is None
    share = (machine.core_count or 0) / (chip.core_count or 1) if host else 1.0
    bytes_each = 1.0 if precision is None and peak_flop_per_s(chip) != chip.dense.fp32_flop_per_s else 2.0
    weights = model.parameters_count * bytes_each
    memory = machine.memory_bytes if host else chip.memory_bytes * machine.chip_count
    if weights > FULL * memory:
        return _too_big(machine, weights, FULL * memory)
    held = weights if host else weights / max(1.0, math.ceil(weights / (FULL * chip.memory_bytes)))
    return _Bench(
        workload=workload,
        machine=machine,
        work=work,
        pace=found.scaled(share),
        precision=precision or ("int8" if bytes_each == 1.0 else "fp32"),
        weight_bytes=held,
        read_bytes=0.0 if work.family == "recommender" else held,
        memory_bytes=memory if host else chip.memory_bytes,
        replicas_per_machine=1 if host else int(machine.chip_count),
        measured=f"{found.runs} published runs on {chip.label}" if found.runs else f"other chips than {chip.label}",
    )


def _trees(workload: Workload, model: Model, machine: Machine) -> _Bench | Miss:
    """Trees on a machine's cores."""
    if machine.chip is not None or not machine.core_count:
        return _out(machine, "catalog", "no public rate of trees on accelerators was found", "use processors")
    row_s, trees = tree_pace(model)
    flop = model.forward_flop_per_sample or 1.0
    return _Bench(
        workload=workload,
        machine=machine,
        work=Work(family="recommender", flop=flop, parameters=model.parameters_count, words="one row"),
        pace=Pace(
            flop_per_s=machine.core_count * flop / row_s,
            memory_bytes_per_s=math.inf,
            call_s=trees.call_s,
            server_ratio=0.7,  # a queue of random arrivals at 70 % waits about one batch: M/D/1
            error_ratio=trees.error_ratio,
            runs=0,
        ),
        precision="fp32",
        weight_bytes=model.parameters_count * 16.0,  # feature, threshold and two children of a node
        read_bytes=0.0,
        memory_bytes=machine.memory_bytes,
        replicas_per_machine=1,
        measured=trees.source,
    )


def _out(machine: Machine, binding: str, what: str, fix: str) -> Miss:
    """A machine that is not tried."""
    return Miss(family=machine.series, binding=binding, ratio=math.inf, what=what, fix=fix)


def _too_big(machine: Machine, weights: float, memory: float) -> Miss:
    """Weights that the machine does not hold."""
    return Miss(
        family=machine.series,
        binding="memory",
        ratio=weights / memory,
        what=f"{machine.name}: the weights need {show(weights, BYTES)}; it holds {show(memory, BYTES)}",
        fix="allow machines with more memory",
    )


def _option(bench: _Bench, catalog: Catalog) -> Option | Miss:
    """The machine type in the number that answers in time; or the target that it misses."""
    asked, machine = bench.workload.requirements, bench.machine
    found = batched(bench.pace, bench.work.flop, bench.read_bytes, asked.p99_s, TAIL)
    if found is None:
        least = TAIL * bench.pace.batch_s(bench.work.flop, bench.read_bytes, 1.0)
        limit = asked.p99_s or math.inf
        return Miss(
            family=machine.series,
            binding="requirements.p99",
            ratio=least / limit,
            what=f"one request takes {show(least, DURATION)} on {machine.name}; {show(limit, DURATION)} are asked for",
            fix=f"raise p99 to {raised(least, DURATION)}",
            fits=True,
        )
    rate = _rate(bench, found)
    replicas = max(1, math.ceil(rate / found.rate_per_s - 1e-9))
    count, most = math.ceil(replicas / bench.replicas_per_machine), most_machines(bench.workload.where, machine)
    if count > most:
        what = f"the load needs {count:,} × {machine.name}; {most:,} are allowed"
        fix = f"allow {count * max(machine.chip_count, 1):,.10g} of this kind, or lower the load"
        over = count / max(most, 1e-9)
        return Miss(family=machine.series, binding="where.max_chips", ratio=over, what=what, fix=fix, fits=True)
    small = bench.replicas_per_machine == 1 and machine.chip is not None
    offer = bid(
        bench.workload, machine, count, 1, rate, catalog, serverless_replicas=replicas if small else 0
    )  # fmt: skip
    if offer is None:
        return _out(machine, "requirements.availability", "no number of spares keeps it", "lower availability")
    if not offer.bills and offer.passing:
        ways = " and ".join(offer.passing)
        return _out(machine, "where.consumption", f"it can be had by {ways} alone, which end", f"name {ways}")
    verdict = judged(machine, offer.machine_count, None, Resilience(), bench.workload, catalog, offer.bills)
    if verdict.miss is not None:
        return verdict.miss
    return _told(bench, found, rate, count, offer.machine_count, verdict.bills, catalog)


def _rate(bench: _Bench, found: Batched) -> float:
    """Requests a second: as asked, or what so many users send who each wait for an answer."""
    asked = bench.workload.requirements.requests_per_s
    if asked is not None:
        return asked
    traffic = bench.workload.traffic
    users = (traffic.concurrency_count if traffic else None) or 1
    return users / (MIDDLE * found.batch_s)


def _told(
    bench: _Bench, found: Batched, rate: float, needed: int, count: int, bills: tuple[Bill, ...], catalog: Catalog
) -> Option:
    """The machines as an option."""
    machine, workload = bench.machine, bench.workload
    replicas, active = count * bench.replicas_per_machine, needed * bench.replicas_per_machine
    batch = found.under(rate / active, bench.pace, bench.work.flop, bench.read_bytes)
    batch_s = bench.pace.batch_s(bench.work.flop, bench.read_bytes, batch)
    joules, usd = energy_joules(machine, count, 1.0, catalog), min((bill.usd for bill in bills), default=None)
    error = bench.pace.error_ratio
    instance = instance_for(machine, workload.where)
    by_request = bool(bills and bills[0].price.startswith("serverless/"))
    service = Service(
        replicas=replicas,
        spare_replicas=replicas - active,
        chips_per_replica=0 if machine.chip is None else 1,
        weights=bench.precision,
        batch_count=batch,
        most_sequences_count=int(found.batch),
        e2e=Spread(
            mean_s=MIDDLE * batch_s,
            p50_s=MIDDLE * batch_s,
            p90_s=(1.0 + 0.9 * (TAIL - 1.0)) * batch_s,
            p99_s=TAIL * batch_s,
            error_ratio=error,
        ),
        simulated=False,
        requests_per_s=rate,
        output_tokens_per_s=rate,
        tokens_per_s_per_chip=rate / max(count * machine.chip_count, 1.0),
        tokens_per_s_per_user=1.0 / (MIDDLE * batch_s),
        rate_error_ratio=error,
        usd_per_million_tokens=None if usd is None else usd / (rate * HOUR_S) * MILLION,
        joules_per_token=None if joules is None else joules / rate,
        engine=pass_server(workload.model, machine, int(found.batch), found.batch_s, bench.precision, catalog),
        autoscaling=Autoscaling(
            least_replicas=0 if workload.where.platform == "cloud-run" and instance else 1 + replicas - active,
            most_replicas=max(replicas, 2 * active),
            metric="requests a second in a replica",
            target=0.8 * found.rate_per_s,
            requests_per_s=0.8 * found.rate_per_s,
            start_s=instance.start_s if instance and by_request else None,
        ),
        serverless=by_request,
    )
    return _shell(bench, service, batch_s, batch, count, bills, catalog)


def _shell(
    bench: _Bench, service: Service, batch_s: float, batch: float, count: int, bills: tuple[Bill, ...], catalog: Catalog
) -> Option:
    """The option around a service."""
    machine, workload = bench.machine, bench.workload
    busy = batch * bench.work.flop / bench.pace.flop_per_s
    return Option(
        cluster=Cluster(
            machine=machine.name, machine_count=count, chip=machine.chip, chip_count=count * machine.chip_count
        ),
        precision=bench.precision,
        step_s=batch_s,
        step_parts=(
            Part(name="call", value=bench.pace.call_s),
            Part(name="arithmetic", value=busy),
            Part(name="waiting for weights", value=max(batch_s - bench.pace.call_s - busy, 0.0)),
        ),
        memory_bytes=bench.weight_bytes,
        memory_parts=(Part(name="weights", value=bench.weight_bytes),),
        memory_capacity_bytes=bench.memory_bytes,
        ideal_s=HOUR_S,
        expected_s=HOUR_S,
        error_ratio=bench.pace.error_ratio,
        bills=bills,
        platforms=suitability(workload, machine, count, catalog),
        network=machine.network.technology,
        energy_joules=energy_joules(machine, count, HOUR_S, catalog),
        service=service,
        reasons=tuple(_reasons(bench, catalog)),
    )


def _reasons(bench: _Bench, catalog: Catalog) -> Iterator[str]:
    """What the pace rests on, and what the provider says."""
    yield f"calibrated on {bench.measured}"
    if bench.precision == "int8":
        yield "weights and activations of 8 bits, as in the closed division: measure the model's quality before use"
    if bench.machine.chip is None:
        yield "processors alone suffice"
    yield guidance_reason(bench.workload, bench.machine, catalog)
