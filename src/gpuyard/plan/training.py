"""Plan training workloads: time and price every machine, cluster size, precision and layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import get_args

import numpy as np

from gpuyard.catalog.chips import Framework
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf.calibration import read_calibration
from gpuyard.perf.chip_kernels import peak_flop_per_s
from gpuyard.perf.from_catalog import nic_bytes_per_s
from gpuyard.perf.layout import Layout
from gpuyard.perf.memory import Memory
from gpuyard.perf.operators import model_flop_per_token
from gpuyard.perf.training import StepTime
from gpuyard.plan.chances import with_chances
from gpuyard.plan.cost import bills, energy_joules
from gpuyard.plan.demand import training_demand
from gpuyard.plan.evaluate import LayoutEvaluation, TrainingCase, detail, evaluate, layout_of
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.interruptions import Resilience
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, LayoutTable
from gpuyard.plan.limits import LimitViolation, check_limits, machine_counts_allowed, max_machines
from gpuyard.plan.option import BreakdownTerm, Cluster, Option, ParallelLayout, Plan, RejectedFamily
from gpuyard.plan.pareto import ranking_rules
from gpuyard.plan.platforms import suitability
from gpuyard.plan.ranking import SearchOutcome, conclude_plan
from gpuyard.plan.shortlist import SHORTLIST, Networks, retime_shortlist, single_layout
from gpuyard.plan.spot_advice import by_preference
from gpuyard.plan.startup import start_up_s
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.plan.training_search import (
    TrainingSearch,
    faster,
    impossible,
    training_searches,
)
from gpuyard.units import BYTES, show
from gpuyard.workload.workload import Workload

# Of a chip's memory: the predicted peak is within 10 % of nine published runs in ten, so that 92 %
# fits with nine chances in ten (plan/chances.py); at least 5 % stays free.
FIT_RATIO = 0.92
CHECKPOINT_BYTES = 2.0  # per parameter of published weights, in bf16
LEAST_GAIN = 0.05  # of a narrower dtype, to be mentioned
MAX_CHIPS = 16_384  # the largest cluster of the published runs that the model was fitted on
_EvaluationKey = tuple[str, int, float, str, tuple[int, ...]]
_Terms = tuple[tuple[BreakdownTerm, ...], tuple[BreakdownTerm, ...]]  # of step time and memory
NOTHING_LEFT = Infeasible(
    binding="where",
    what="no machine type is left to train on",
    fix="allow more machines, or another precision",
)


def plan_training(
    workload: Workload, catalog: Catalog, profile: str = "", networks: Networks | None = None
) -> Plan | Infeasible:
    """Return the clusters that train the model within the limits, cheapest first, or Infeasible.

    With `networks`, the first options are timed again with the collectives of their network.
    """
    demand = training_demand(workload)
    calibration = read_calibration()
    options: list[Option] = []
    misses: list[LimitViolation] = []
    excluded: list[RejectedFamily] = []
    searches: dict[tuple[str, str], TrainingSearch] = {}
    evaluations: dict[_EvaluationKey, LayoutEvaluation] = {}
    rules = ranking_rules(workload)
    searched = 0
    for row in catalog.machines:
        for search in training_searches(
            workload, demand, row, catalog, profile, calibration, excluded
        ):
            searches[row.name, search.software.label] = search
            results, tried = _machine_options(search, catalog, evaluations)
            searched += tried
            misses += [result for result in results if isinstance(result, LimitViolation)]
            options += [result for result in results if isinstance(result, Option)]
    options = _preferred_software(options)
    notes = list(demand.notes)
    if networks is not None:
        options, late = retime_shortlist(
            options, lambda option: _retimed(option, searches, networks, catalog), rules=rules
        )
        misses += late
        notes.append(
            f"collectives of the first {SHORTLIST} options are simulated as flows, "
            "others are in closed form"
        )
    outcome = SearchOutcome(
        options=options,
        violations=misses,
        searched_count=searched,
        otherwise=NOTHING_LEFT,
        notes=notes,
        profile=", ".join(sorted({search.profile.name for search in searches.values()})),
        excluded=excluded,
    )
    plan = conclude_plan(workload, catalog, outcome)
    return _with_gains(plan, searches) if isinstance(plan, Plan) else plan


def _machine_options(
    search: TrainingSearch,
    catalog: Catalog,
    evaluations: dict[_EvaluationKey, LayoutEvaluation],
) -> tuple[list[Option | LimitViolation], int]:
    """The option or the violation of every number of machines, and the layouts tried.

    Machines of several providers with the same chips and network share an evaluation.
    """
    where = search.workload.where
    counts = tuple(machine_counts_allowed(where, search.row, _counts(search.workload, search.row)))
    counts = search.in_time(counts)
    chips = tuple(_chips(search.row, count) for count in counts)
    key = (
        search.chip.name,
        search.domain,
        nic_bytes_per_s(search.row),
        search.software.label,
        chips,
    )
    evaluation = evaluations.get(key)
    if evaluation is None:
        evaluation = evaluate(search.case(), search.layouts(chips), FIT_RATIO)
        evaluations[key] = evaluation
    terms = _terms(search, evaluation, chips)
    results = [_option(search, count, evaluation, catalog, terms) for count in counts]
    valid = [result for result in results if result is not None]
    if not valid:
        valid = [impossible(search, counts)]
    return valid, evaluation.tried_count


def _terms(
    search: TrainingSearch, evaluation: LayoutEvaluation, chips: Iterable[int]
) -> dict[int, _Terms]:
    """The terms of step time and memory of the fastest layout per number of chips."""
    best = {count: at for count in chips if (at := evaluation.fastest(count)) is not None}
    if not best:
        return {}
    layouts = evaluation.layouts.take(np.array(list(best.values())))
    step, memory = detail(search.case(), layouts)
    size = len(best)
    return {
        count: (_parts(step, at, size), _parts(memory, at, size)) for at, count in enumerate(best)
    }


def _with_gains(plan: Plan, searches: dict[tuple[str, str], TrainingSearch]) -> Plan:
    """The plan with what a narrower dtype would gain the first options."""
    options = [
        _with_gain(option, faster(searches[option.cluster.machine, option.software]))
        for option in plan.options[:SHORTLIST]
    ]
    return replace(plan, options=(*options, *plan.options[SHORTLIST:]))


def _with_gain(option: Option, narrow: TrainingSearch | None) -> Option:
    """Add what a narrower dtype would gain, which is for the owner of the recipe to decide."""
    if narrow is None:
        return option
    chips = round(option.cluster.chip_count)
    quick = evaluate(narrow.case(), narrow.layouts((chips,)), FIT_RATIO)
    best = quick.fastest(chips)
    if best is None:
        return option
    gain = option.step_s / float(quick.step_s[best]) - 1.0
    if gain < LEAST_GAIN:
        return option
    reason = f"{narrow.precision} would be {gain:.0%} faster, if your recipe allows it"
    return replace(option, reasons=(*option.reasons, reason))


def _preferred_software(options: list[Option]) -> list[Option]:
    """One option per cluster: of the first framework that can run it."""
    first: dict[tuple[str, int], Option] = {}
    for option in options:
        first.setdefault((option.cluster.machine, option.cluster.machine_count), option)
    return list(first.values())


def _retimed(
    option: Option,
    searches: dict[tuple[str, str], TrainingSearch],
    networks: Networks,
    catalog: Catalog,
) -> Option | LimitViolation | None:
    """The option with the collectives of its network; None without a model of it."""
    search = searches[option.cluster.machine, option.software]
    count = option.cluster.machine_count
    model = networks(search.row, count, search.workload.where.switch, search.calibration.constants)
    if model is None or option.arrangement is None:
        return None
    search = replace(search, network=model)
    layouts = single_layout(option.arrangement, _chips(search.row, count))
    evaluation = evaluate(search.case(), layouts, FIT_RATIO)
    terms = _terms(search, evaluation, (_chips(search.row, count),))
    return _option(search, count, evaluation, catalog, terms)


def option_case(
    workload: Workload, catalog: Catalog, option: Option, profile: str = ""
) -> tuple[TrainingCase, Layout]:
    """Return the inputs of the step-time model for one option, with a scalar layout."""
    row = catalog.machine(option.cluster.machine)
    demand = training_demand(workload)
    searches = training_searches(workload, demand, row, catalog, profile, read_calibration(), [])
    search = next((item for item in searches if item.software.label == option.software), None)
    if search is None or option.arrangement is None:
        raise InputError.one(
            "option", f"{row.name} does not train this model", "plan the workload again"
        )
    case = search.case()
    layouts = single_layout(option.arrangement, _chips(row, option.cluster.machine_count))
    layout = layout_of(layouts, float(case.chip.scaleup_chips))
    return case, Layout(
        **{field.name: np.reshape(getattr(layout, field.name), ()) for field in fields(layout)}
    )


def _counts(workload: Workload, row: Machine) -> Iterator[int]:
    """Powers of two and 1.5 times them, up to the limit."""
    most = 1
    if row.multi_host:
        most = min(max_machines(workload.where, row), int(MAX_CHIPS // row.chip_count))
    count = 1
    while count <= most:
        yield count
        if count >= 2 and count * 3 // 2 <= most:
            yield count * 3 // 2
        count *= 2


def _chips(row: Machine, machine_count: int) -> int:
    return round(row.chip_count * machine_count)


def _option(
    search: TrainingSearch,
    machine_count: int,
    evaluation: LayoutEvaluation,
    catalog: Catalog,
    terms: Mapping[int, _Terms],
) -> Option | LimitViolation | None:
    """The fastest layout of a cluster; None if no layout divides the batch."""
    demand = search.demand
    row = search.row
    chips = _chips(row, machine_count)
    best = evaluation.fastest(chips)
    if best is None and search.silicon.host_bytes_per_s and chips in evaluation.smallest_bytes:
        evaluation = evaluate(search.case(), search.layouts((chips,), offload=True), FIT_RATIO)
        best = evaluation.fastest(chips)
        terms = _terms(search, evaluation, (chips,))
    if best is None:
        return _too_big(search, machine_count, evaluation)
    step_s = float(evaluation.step_s[best])
    useful_s = step_s * demand.steps_count
    resilience = Resilience(start_s=_start_s(search, machine_count))
    offered = bills(row, machine_count, useful_s, resilience, search.workload.where, catalog)
    priced = by_preference(offered, search.workload.where, machine_count, synchronous=True)
    check = check_limits(row, machine_count, useful_s, resilience, search.workload, catalog, priced)
    if check.miss:
        return check.miss
    step_parts, memory_parts = terms[chips]
    tokens_per_s = demand.global_batch_count * demand.sequence_tokens / step_s
    need = storage_need(search.workload, run_s=check.expected_s, tokens_per_s=tokens_per_s)
    peak = peak_flop_per_s(search.chip, search.precision) or 1.0
    option = Option(
        cluster=Cluster(
            machine=row.name, machine_count=machine_count, chip=search.chip.name, chip_count=chips
        ),
        precision=search.precision,
        step_s=step_s,
        step_parts=step_parts,
        memory_bytes=float(evaluation.memory_bytes[best]),
        memory_parts=memory_parts,
        memory_capacity_bytes=search.chip.memory_bytes,
        ideal_s=useful_s,
        expected_s=check.expected_s,
        error_ratio=search.error_bar.high_ratio,
        error_low_ratio=search.error_bar.low_ratio,
        bills=check.bills,
        platforms=suitability(search.workload, row, machine_count, catalog),
        network=row.network.summary,
        arrangement=_parallel_layout(evaluation.layouts, best),
        steps_count=demand.steps_count,
        mfu_ratio=model_flop_per_token(search.case().arch) * tokens_per_s / (chips * peak),
        tokens_per_s=tokens_per_s,
        energy_joules=energy_joules(row, machine_count, check.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, row, catalog, search.workload.task),
        reasons=_reasons(search, catalog),
        software=search.software.label,
        measured=search.silicon.calibrated,
        keeps_numerics=search.precision != "fp16"
        or search.workload.requirements.precision == "fp16",
    )
    return with_chances(option, search.workload.requirements)


def _start_s(search: TrainingSearch, machine_count: int) -> float:
    """Start-up of owned machines costs nothing; pre-training starts without weights."""
    if search.row.provider == "onprem":
        return 0.0
    weights = search.demand.model.parameters_count * CHECKPOINT_BYTES
    loaded = 0.0 if search.workload.task == "pretraining" else weights / machine_count
    return start_up_s(search.chip, loaded)


def _too_big(
    search: TrainingSearch, machine_count: int, evaluation: LayoutEvaluation
) -> LimitViolation | None:
    """None if no layout divides the batch."""
    smallest_bytes = evaluation.smallest_bytes.get(_chips(search.row, machine_count))
    if smallest_bytes is None:
        return None
    capacity = search.chip.memory_bytes * FIT_RATIO
    over = smallest_bytes / capacity
    memory = f"{show(smallest_bytes, BYTES)} of {show(capacity, BYTES)} per chip"
    return LimitViolation(
        family=search.row.series,
        binding="memory",
        ratio=over,
        what=f"{machine_count} machines: the leanest layout needs {memory}",
        fix=f"allow at least {over:.1f} times as many chips, or chips with more memory",
    )


def _parallel_layout(layouts: LayoutTable, index: int) -> ParallelLayout:
    return ParallelLayout(
        tp=int(layouts.tp[index]),
        pp=int(layouts.pp[index]),
        cp=int(layouts.cp[index]),
        dp=int(layouts.dp[index]),
        ep=int(layouts.ep[index]),
        micro_batch=int(layouts.micro_batch[index]),
        gradient_accumulation=int(layouts.gradient_accumulation[index]),
        virtual_stages=int(layouts.virtual_stages[index]),
        sharding=SHARDING[int(layouts.sharding[index])],
        recompute=RECOMPUTE[int(layouts.recompute[index])],
        offload=OFFLOAD[int(layouts.offload[index])],
    )


def _parts(value: StepTime | Memory, at: int, count: int) -> tuple[BreakdownTerm, ...]:
    """The terms of one of `count` layouts."""
    return tuple(
        BreakdownTerm(
            name=field.name.removesuffix("_s").removesuffix("_bytes").replace("_", " "),
            value=float(np.broadcast_to(getattr(value, field.name), (count,))[at]),
        )
        for field in fields(value)
    )


def _reasons(search: TrainingSearch, catalog: Catalog) -> tuple[str, ...]:
    lacking = [name for name in get_args(Framework) if name not in search.chip.frameworks]
    reasons = [
        guidance_reason(search.workload, search.row, catalog),
        f"runs {', '.join(search.chip.frameworks)}; does not run {', '.join(lacking)}",
    ]
    if not search.silicon.calibrated:
        reasons.append(
            f"no published training run on {search.chip.label}: "
            f"GEMM efficiency is taken from {search.silicon.ratio}"
        )
    if not search.is_profiled:
        reasons.append(
            f"times are those of {search.profile.name}: no published run of {search.software.label}"
        )
    if search.row.network.technology == "ethernet":
        reasons.append(
            "no published collective bandwidth for its network: line rate, an upper bound"
        )
    if search.chip.scale_up is None and search.row.chip_count > 1:
        reasons.append("no scale-up link: traffic between its chips is counted at the network rate")
    return tuple(reason for reason in reasons if reason)
