"""Plan single-pass models: encoders, vision, recommenders, trees."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.catalog.models import Model
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.single_pass import (
    RequestWork,
    SinglePassRate,
    peak_flop_per_s,
    single_pass_rate,
    tree_cost,
    work_of,
)
from gpuyard.plan.eligible import exclusion_of
from gpuyard.plan.inference.service_cost import (
    cheapest_equivalents,
    preemptible_only,
    service_cost,
)
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.limits import LimitViolation, check_limits, max_machines, rounded_up_text
from gpuyard.plan.option import Option, Plan
from gpuyard.plan.predictions import error_factor
from gpuyard.plan.ranking import SearchOutcome, conclude_plan
from gpuyard.plan.single_pass_batching import BatchChoice, choose_batch
from gpuyard.plan.single_pass_option import (
    MEAN_BATCHES,
    P99_BATCHES,
    SinglePassCase,
    SinglePassSizing,
    p99_limit_s,
    single_pass_option,
)
from gpuyard.units import BYTES, DURATION, show
from gpuyard.workload.eligibility import chip_of
from gpuyard.workload.workload import Workload

NOTHING_LEFT = Infeasible(
    binding="where", what="no machine type is left to serve on", fix="allow more machines"
)
FIT_RATIO = 0.85  # of a chip's memory for weights and activations
TREE_NODE_BYTES = 16.0  # feature, threshold and two children


def plan_single_pass(workload: Workload, catalog: Catalog) -> Plan | Infeasible:
    """Return the machines that meet rate and latency, cheapest first, or Infeasible."""
    model, traffic = workload.model, workload.traffic
    assert model is not None, "the workload checks require a model"
    assert traffic is not None, "the workload checks require traffic"
    if traffic.trace is not None:
        raise InputError.one(
            "traffic.trace",
            f"{model.label} generates no tokens to replay",
            "give requirements.requests, such as 200/s",
        )
    work = work_of(model, traffic.input_tokens)
    if work is None and model.kind != "trees":
        raise InputError.one(
            "model",
            f"no published run has a model like {model.label}",
            "use a decoder, encoder, image model or trees",
        )
    options: list[Option] = []
    misses: list[LimitViolation] = []
    searched = 0
    machines = [
        machine for machine in catalog.machines if workload.where.includes(machine.provider)
    ]
    for machine in cheapest_equivalents(machines, workload, catalog):
        case = _case(workload, model, work, machine, catalog)
        if isinstance(case, LimitViolation):
            misses.append(case)
            continue
        result = _option(case, catalog)
        searched += 1
        if isinstance(result, LimitViolation):
            misses.append(result)
        else:
            options.append(result)
    outcome = SearchOutcome(
        options=options,
        violations=misses,
        searched_count=searched,
        otherwise=NOTHING_LEFT,
        notes=tuple(_notes(workload, work)),
    )
    return conclude_plan(workload, catalog, outcome)


def _notes(workload: Workload, work: RequestWork | None) -> Iterator[str]:
    if work is not None:
        yield f"a request is {work.description}; rates are from MLPerf Inference, closed division"
    else:
        yield "trees run on CPUs: there is no public rate on accelerators"
    requirements = workload.requirements
    tails = any(tail.metric != "e2e" for tail in requirements.tails)
    if requirements.ttft_s or requirements.tpot_s or tails:
        yield "ttft and tpot apply to models that generate tokens; p99 limits the latency here"


def _case(
    workload: Workload, model: Model, work: RequestWork | None, machine: Machine, catalog: Catalog
) -> SinglePassCase | LimitViolation:
    exclusion = exclusion_of(workload, machine, catalog)
    if exclusion is not None:
        return exclusion.violation(machine.series)
    if machine.chip_count % 1:
        return _unsuitable(machine, "machines", "a fractional chip", "use a whole chip")
    if model.kind == "trees":
        return _trees(workload, model, machine)
    assert work is not None, "checked by the caller"
    chip = chip_of(machine, catalog) or next(
        (item for item in catalog.chips if item.name == machine.cpu), None
    )
    precision = workload.requirements.precision
    rate = single_pass_rate(work.family, chip, catalog, precision) if chip else None
    if chip is None or rate is None:
        what = f"no published run of such models on {chip.label if chip else 'its CPU'}"
        return _unsuitable(machine, "catalog", what, "choose a GPU or an Intel CPU")
    host = machine.chip is None
    share = (machine.core_count or 0) / (chip.core_count or 1) if host else 1.0
    int8 = precision is None and peak_flop_per_s(chip) != chip.dense.fp32_flop_per_s
    weights = model.parameters_count * (1.0 if int8 else 2.0)
    memory = machine.memory_bytes if host else chip.memory_bytes * machine.chip_count
    if weights > FIT_RATIO * memory:
        return _too_big(machine, weights, FIT_RATIO * memory)
    held = (
        weights
        if host
        else weights / max(1.0, math.ceil(weights / (FIT_RATIO * chip.memory_bytes)))
    )
    return SinglePassCase(
        workload=workload,
        machine=machine,
        work=work,
        pace=rate.scaled(share),
        precision=precision or ("int8" if int8 else "fp32"),
        weight_bytes=held,
        read_bytes=0.0 if work.family == "recommender" else held,
        memory_bytes=memory if host else chip.memory_bytes,
        replicas_per_machine=1 if host else int(machine.chip_count),
        measured=f"{rate.runs} published runs on {chip.label}"
        if rate.runs
        else f"chips other than {chip.label}",
    )


def _trees(workload: Workload, model: Model, machine: Machine) -> SinglePassCase | LimitViolation:
    if machine.chip is not None or not machine.core_count:
        what = "there is no public rate of trees on accelerators"
        return _unsuitable(machine, "catalog", what, "use a CPU machine")
    row_s, trees = tree_cost(model)
    flop = model.forward_flop_per_sample or 1.0
    return SinglePassCase(
        workload=workload,
        machine=machine,
        work=RequestWork(
            family="recommender",
            flop=flop,
            parameters=model.parameters_count,
            description="one row",
        ),
        pace=SinglePassRate(
            flop_per_s=machine.core_count * flop / row_s,
            memory_bytes_per_s=math.inf,
            call_s=trees.call_s,
            server_ratio=0.7,  # at 70 % load an M/D/1 queue waits about one batch
            error_ratio=trees.error_ratio,
            runs=0,
        ),
        precision="fp32",
        weight_bytes=model.parameters_count * TREE_NODE_BYTES,
        read_bytes=0.0,
        memory_bytes=machine.memory_bytes,
        replicas_per_machine=1,
        measured=trees.source,
    )


def _unsuitable(machine: Machine, binding: str, what: str, fix: str) -> LimitViolation:
    return LimitViolation(
        family=machine.series, binding=binding, ratio=math.inf, what=what, fix=fix
    )


def _too_big(machine: Machine, weights: float, memory: float) -> LimitViolation:
    return LimitViolation(
        family=machine.series,
        binding="memory",
        ratio=weights / memory,
        what=f"{machine.name}: the weights need {show(weights, BYTES)} of {show(memory, BYTES)}",
        fix="allow machines with more memory",
    )


def _option(case: SinglePassCase, catalog: Catalog) -> Option | LimitViolation:
    """The fewest machines of the type that meet rate and latency, or the violated limit."""
    machine = case.machine
    p99_s = p99_limit_s(case.workload.requirements)
    confidence = case.workload.requirements.confidence_ratio
    sure_s = p99_s / error_factor(case.pace.error_ratio, confidence) if p99_s else None
    batching = choose_batch(
        case.pace, case.work.flop, case.read_bytes, sure_s, P99_BATCHES
    ) or choose_batch(case.pace, case.work.flop, case.read_bytes, p99_s, P99_BATCHES)
    if batching is None:
        least = P99_BATCHES * case.pace.batch_s(case.work.flop, case.read_bytes, 1.0)
        limit = p99_s or math.inf
        return LimitViolation(
            family=machine.series,
            binding="requirements.p99",
            ratio=least / limit,
            what=f"one request takes {show(least, DURATION)} on {machine.name}, "
            f"above {show(limit, DURATION)}",
            fix=f"raise p99 to {rounded_up_text(least, DURATION)}",
            fits=True,
        )
    rate = _rate(case, batching)
    replicas = max(1, math.ceil(rate / batching.rate_per_s - 1e-9))
    count = math.ceil(replicas / case.replicas_per_machine)
    most = max_machines(case.workload.where, machine)
    if count > most:
        what = f"the load needs {count:,} × {machine.name}; {most:,} are allowed"
        fix = f"allow {count * max(machine.chip_count, 1):,.10g} of this kind, or lower the load"
        over = count / max(most, 1e-9)
        return LimitViolation(
            family=machine.series,
            binding="where.max_chips",
            ratio=over,
            what=what,
            fix=fix,
            fits=True,
        )
    small = case.replicas_per_machine == 1 and machine.chip is not None
    offer = service_cost(
        case.workload,
        machine,
        count,
        1,
        rate,
        catalog,
        serverless_replicas=replicas if small else 0,
    )
    if offer is None:
        return _unsuitable(
            machine,
            "requirements.availability",
            "no redundancy is enough",
            "lower availability",
        )
    preemptible = preemptible_only(case.workload, machine, catalog)
    if preemptible is not None:
        return preemptible
    check = check_limits(
        machine, offer.machine_count, None, Resilience(), case.workload, catalog, offer.bills
    )
    if check.miss is not None:
        return check.miss
    batch = batching.under(
        rate / (count * case.replicas_per_machine), case.pace, case.work.flop, case.read_bytes
    )
    sizing = SinglePassSizing(
        batching=batching,
        batch=batch,
        batch_s=case.pace.batch_s(case.work.flop, case.read_bytes, batch),
        rate=rate,
        needed_machines=count,
        machine_count=offer.machine_count,
        bills=check.bills,
    )
    return single_pass_option(case, sizing, catalog)


def _rate(case: SinglePassCase, batching: BatchChoice) -> float:
    """The arrival rate: of the file, or of a closed loop of concurrent users."""
    requests_per_s = case.workload.requirements.requests_per_s
    if requests_per_s is not None:
        return requests_per_s
    traffic = case.workload.traffic
    users = (traffic.concurrency_count if traffic else None) or 1
    return users / (MEAN_BATCHES * batching.batch_s)
