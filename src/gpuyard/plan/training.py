"""Plans for training: every machine, number of machines, precision and layout, timed and priced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import cast, get_args

import numpy as np

from gpuyard.catalog import Catalog, Chip, Framework, Machine
from gpuyard.errors import Infeasible, InputError
from gpuyard.perf import (
    FIT_RATIO,
    Calibration,
    Layout,
    Memory,
    NetworkModel,
    Precision,
    Profile,
    Silicon,
    StepTime,
    architecture,
    calibrated,
    find_profile,
    machine,
    model_flop_per_token,
    nic_bytes_per_s,
    peak_flop_per_s,
    read_calibration,
    scalar,
    silicon_of,
    software,
)
from gpuyard.perf.recipes import Settings, choose_settings
from gpuyard.plan.conclude import concluded
from gpuyard.plan.cost import bills, energy_joules
from gpuyard.plan.demand import TrainingDemand, training_demand
from gpuyard.plan.eligible import chip_of, ruled_out
from gpuyard.plan.evaluate import Case, Evaluated, detail, evaluate, layout_of
from gpuyard.plan.exposure import Resilience
from gpuyard.plan.guidance import guidance_reason
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, Space, Ways, ways
from gpuyard.plan.limits import Miss, judged, most_machines
from gpuyard.plan.option import Arrangement, Cluster, Option, Part, Plan, Rejected
from gpuyard.plan.platforms import suitability
from gpuyard.plan.shortlist import SHORTLIST, Networks, one_way, timed_again
from gpuyard.plan.storage import storage_need, storage_picks
from gpuyard.units import BYTES, DURATION, show
from gpuyard.workload import Workload

__all__ = ["Search", "option_case", "plan_training"]

MOST_CHIPS = 16_384  # the largest cluster of the published runs that the model was fitted on
# Nine of ten published runs are predicted to within this when their group is left out of the fit
# (`gpuyard accuracy training FILE.csv --holdout-groups`, p90 by kind); half where no run is published: a stated guess.
ERROR_DENSE, ERROR_MOE, ERROR_TPU, ERROR_UNCALIBRATED = 0.135, 0.22, 0.14, 0.50
PROFILES = {"gpu": "megatron-bridge-26.06", "tpu": "maxtext-tpu-2025"}  # the newest of each kind
GPU_SPACE = Space(sharding=(1, 2, 3))  # the newest profiles shard the optimizer state always
TPU_SPACE = Space(tp=(1, 2, 4, 8), pp=(1,), cp=(1,), virtual_stages=(1,), sharding=(2,), one_pass=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One machine type at one precision, with what the performance model needs of it."""

    workload: Workload
    demand: TrainingDemand
    row: Machine
    chip: Chip
    silicon: Silicon
    precision: Precision
    profile: Profile
    calibration: Calibration
    network: NetworkModel | None = None

    @property
    def domain(self) -> int:
        """Chips that share a scale-up link."""
        return (self.row.scale_up_domain_count or 1) if self.chip.scale_up else 1

    @property
    def experts(self) -> Settings | None:
        """How the profile's recipes run a mixture of experts on this chip; None for a dense model."""
        if self.demand.shape.moe is None:
            return None
        model, chip = self.demand.model.label.replace(" ", "-"), self.silicon.name.upper()
        return choose_settings(self.profile.words, "", model, chip, self.precision)

    def case(self) -> Case:
        """The model's inputs, but for the layout."""
        demand, moe = self.demand, self.demand.shape.moe is not None
        bare = machine(self.silicon, self.chip, self.precision, self.domain, nic_bytes_per_s(self.row))
        return Case(
            arch=architecture(demand.shape, demand.sequence_tokens, demand.adapters, demand.frozen_bytes),
            chip=calibrated(bare, self.silicon, self.precision, self.calibration),
            soft=software(
                self.profile,
                scalar(self.calibration, self.profile, moe),
                nvl72=(self.row.scale_up_domain_count or 0) >= 72 and self.chip.kind == "gpu",
                experts=self.experts,
            ),
            constants=self.calibration.constants,
            network=self.network,
        )

    def layouts(self, chips: tuple[int, ...], offload: bool = False) -> Ways:
        """Every valid layout on each of those numbers of chips; with `offload`, those that use the host's memory."""
        space = TPU_SPACE if self.chip.kind == "tpu" else GPU_SPACE
        if "flash" in self.profile.flags:
            space = replace(space, recompute=(RECOMPUTE.index("none"), RECOMPUTE.index("full")))  # no scores to free
        if offload:
            space = replace(space, offload=(OFFLOAD.index("optimizer"), OFFLOAD.index("activations")))
        demand = self.demand
        return ways(demand.shape, demand.sequence_tokens, demand.global_batch_count, chips, self.domain, space)

    @property
    def error_ratio(self) -> float:
        """How far off nine of ten predictions for such a run are."""
        if not self.silicon.calibrated:
            return ERROR_UNCALIBRATED
        if self.demand.shape.moe is not None:
            return ERROR_MOE
        return ERROR_TPU if self.chip.kind == "tpu" else ERROR_DENSE


def plan_training(
    workload: Workload, catalog: Catalog, profile: str = "", networks: Networks | None = None
) -> Plan | Infeasible:
    """The clusters that train the model within the limits, the cheapest first; Infeasible with what to relax.

    With `networks`, the first options are timed again with the collectives of their own network.
    """
    demand, calibration = training_demand(workload), read_calibration()
    options: list[Option] = []
    misses: list[Miss] = []
    out: list[Rejected] = []
    searches: dict[tuple[str, str], Search] = {}
    searched = 0
    for row in catalog.machines:
        for search in _searches(workload, demand, row, catalog, profile, calibration, out):
            searches[row.name, search.precision] = search
            counts = tuple(_counts(workload, row))
            found = evaluate(search.case(), search.layouts(tuple(_chips(row, count) for count in counts)))
            searched += found.tried_count
            for count in counts:
                result = _option(search, count, found, catalog)
                if isinstance(result, Option):
                    options.append(result)
                elif result:
                    misses.append(result)
    notes = list(demand.notes)
    if networks is not None:
        options, late = timed_again(options, lambda option: _again(option, searches, networks, catalog))
        misses += late
        notes.append(f"collectives of the first {SHORTLIST} options as flows over their network, others in closed form")
    return concluded(
        workload,
        catalog,
        options,
        misses,
        searched_count=searched,
        nothing=Infeasible(
            binding="where", what="no machine type is left to train on", fix="allow more machines, or another precision"
        ),
        notes=notes,
        profile=", ".join(sorted({search.profile.name for search in searches.values()})),
        excluded=out,
    )


def _again(
    option: Option, searches: dict[tuple[str, str], Search], networks: Networks, catalog: Catalog
) -> Option | Miss | None:
    """The option with the collectives of its own network; None where there is no model of it."""
    search, count = searches[option.cluster.machine, option.precision], option.cluster.machine_count
    model = networks(search.row, count, search.workload.where.switch, search.calibration.constants)
    if model is None or option.arrangement is None:
        return None
    search = replace(search, network=model)
    way = one_way(option.arrangement, _chips(search.row, count))
    return _option(search, count, evaluate(search.case(), way), catalog)


def option_case(workload: Workload, catalog: Catalog, option: Option, profile: str = "") -> tuple[Case, Layout]:
    """The inputs of the step-time model for one option of a plan; fields of the layout have no dimensions."""
    row, demand = catalog.machine(option.cluster.machine), training_demand(workload)
    found = _searches(workload, demand, row, catalog, profile, read_calibration(), [])
    search = next((each for each in found if each.precision == option.precision), None)
    if search is None or option.arrangement is None:
        raise InputError.one("option", f"{row.name} is not one that trains this model", "plan the workload again")
    case = search.case()
    way = one_way(option.arrangement, _chips(row, option.cluster.machine_count))
    layout = layout_of(way, float(case.chip.scaleup_chips))
    return case, Layout(**{field.name: np.reshape(getattr(layout, field.name), ()) for field in fields(layout)})


def _searches(
    workload: Workload,
    demand: TrainingDemand,
    row: Machine,
    catalog: Catalog,
    profile: str,
    calibration: Calibration,
    out: list[Rejected],
) -> Iterator[Search]:
    """The searches that a machine type is worth: one a precision; what rules it out goes to `out`."""
    if row.provider != workload.where.provider:
        return
    reason, chip = ruled_out(workload, row, catalog), chip_of(row, catalog)
    silicon = silicon_of(chip) if chip else None
    if reason is not None:
        binding, _, what = reason.partition(": ")
        if what == "no accelerator":
            what += _on_processors(demand, row, catalog)
        out.append(Rejected(family=row.series, binding=binding, what=what, fix=f"relax {binding}"))
        return
    if chip is None or silicon is None or row.chip_count < 1:
        what = "a share of a chip" if chip and row.chip_count < 1 else "no kernel model of its chip"
        out.append(Rejected(family=row.series, binding="chips", what=what, fix="use a whole GPU or TPU machine"))
        return
    kept = [precision for precision in _precisions(demand, chip, silicon) if peak_flop_per_s(chip, precision)]
    if not kept:
        out.append(
            Rejected(family=row.series, binding="precision", what="no dense rate is known for it", fix="choose another")
        )
    for precision in kept:
        yield Search(
            workload=workload,
            demand=demand,
            row=row,
            chip=chip,
            silicon=silicon,
            precision=precision,
            profile=find_profile(profile or PROFILES[chip.kind]),
            calibration=calibration,
        )


def _on_processors(demand: TrainingDemand, row: Machine, catalog: Catalog) -> str:
    """What a machine without accelerators would need at the least, at its processors' dense peak."""
    socket = next((chip for chip in catalog.chips if chip.name == row.cpu), None)
    rate = (socket.dense.bf16_flop_per_s or socket.dense.fp32_flop_per_s) if socket else None
    if not rate or not socket or not socket.core_count or not row.core_count:
        return ""
    shape = architecture(demand.shape, demand.sequence_tokens, demand.adapters)
    least_s = demand.tokens * model_flop_per_token(shape) / (rate * row.core_count / socket.core_count)
    return f"; at its processors' peak one {row.name} would need {show(least_s, DURATION)}"


def _precisions(demand: TrainingDemand, chip: Chip, silicon: Silicon) -> tuple[Precision, ...]:
    """The precisions to try; fp16 stands in on chips without bf16, and Blackwell's fp8 has block scales."""
    stand_ins: dict[str, Precision] = {"fp64": "fp32", "fp4": "nvfp4"}
    if chip.dense.bf16_flop_per_s is None:
        stand_ins["bf16"] = "fp16"
    if silicon.generation == "blackwell":
        stand_ins["fp8"] = "mxfp8"
    wanted = [stand_ins.get(precision, cast(Precision, precision)) for precision in demand.precisions]
    if chip.kind == "tpu" and chip.dense.fp8_flop_per_s == chip.dense.bf16_flop_per_s:
        return tuple(precision for precision in wanted if precision != "fp8")  # it would only cost accuracy
    return tuple(dict.fromkeys(wanted))


def _counts(workload: Workload, row: Machine) -> Iterator[int]:
    """Numbers of machines: powers of two and one and a half times them, up to the limit."""
    most = min(most_machines(workload.where, row), int(MOST_CHIPS // row.chip_count)) if row.multi_host else 1
    count = 1
    while count <= most:
        yield count
        if count >= 2 and count * 3 // 2 <= most:
            yield count * 3 // 2
        count *= 2


def _chips(row: Machine, machine_count: int) -> int:
    """Chips of so many machines."""
    return round(row.chip_count * machine_count)


def _option(search: Search, machine_count: int, found: Evaluated, catalog: Catalog) -> Option | Miss | None:
    """The fastest layout of a cluster as an option; the miss if a limit is not kept or nothing fits; None if no layout
    divides the batch."""
    demand, row = search.demand, search.row
    chips = _chips(row, machine_count)
    best = found.fastest(chips)
    if best is None and search.silicon.host_bytes_per_s and chips in found.smallest_bytes:
        found = evaluate(search.case(), search.layouts((chips,), offload=True))
        best = found.fastest(chips)
    if best is None:
        return _too_big(search, machine_count, found)
    step_s = float(found.step_s[best])
    useful_s, resilience = step_s * demand.steps_count, Resilience()
    priced = bills(row, machine_count, useful_s, resilience, search.workload.where, catalog)
    verdict = judged(row, machine_count, useful_s, resilience, search.workload, catalog, priced)
    if verdict.miss:
        return verdict.miss
    parts, held = detail(search.case(), found.ways, best)
    tokens_per_s = demand.global_batch_count * demand.sequence_tokens / step_s
    need = storage_need(search.workload, run_s=verdict.expected_s, tokens_per_s=tokens_per_s)
    peak = peak_flop_per_s(search.chip, search.precision) or 1.0
    return Option(
        cluster=Cluster(machine=row.name, machine_count=machine_count, chip=search.chip.name, chip_count=chips),
        precision=search.precision,
        step_s=step_s,
        step_parts=_parts(parts),
        memory_bytes=float(found.memory_bytes[best]),
        memory_parts=_parts(held),
        memory_capacity_bytes=search.chip.memory_bytes,
        ideal_s=useful_s,
        expected_s=verdict.expected_s,
        error_ratio=search.error_ratio,
        bills=verdict.bills,
        platforms=suitability(search.workload, row, machine_count, catalog),
        network=row.network.words,
        arrangement=_arrangement(found.ways, best),
        steps_count=demand.steps_count,
        mfu_ratio=model_flop_per_token(search.case().arch) * tokens_per_s / (chips * peak),
        tokens_per_s=tokens_per_s,
        energy_joules=energy_joules(row, machine_count, verdict.expected_s, catalog),
        storage_need=need,
        storage=storage_picks(need, row, catalog, search.workload.task),
        reasons=_reasons(search, catalog),
    )


def _too_big(search: Search, machine_count: int, found: Evaluated) -> Miss | None:
    """No layout fits: by how much, and what would; None if no layout divides the batch."""
    smallest_bytes = found.smallest_bytes.get(_chips(search.row, machine_count))
    if smallest_bytes is None:
        return None
    capacity = search.chip.memory_bytes * FIT_RATIO
    over = smallest_bytes / capacity
    needs, has = show(smallest_bytes, BYTES), show(capacity, BYTES)
    return Miss(
        family=search.row.series,
        binding="memory",
        ratio=over,
        what=f"{machine_count} machines: the leanest layout needs {needs} of {has} a chip",
        fix=f"allow at least {over:.1f} times as many chips, or chips with more memory",
    )


def _arrangement(found: Ways, index: int) -> Arrangement:
    """One layout by name."""
    return Arrangement(
        tp=int(found.tp[index]),
        pp=int(found.pp[index]),
        cp=int(found.cp[index]),
        dp=int(found.dp[index]),
        ep=int(found.ep[index]),
        micro_batch=int(found.micro_batch[index]),
        gradient_accumulation=int(found.gradient_accumulation[index]),
        virtual_stages=int(found.virtual_stages[index]),
        sharding=SHARDING[int(found.sharding[index])],
        recompute=RECOMPUTE[int(found.recompute[index])],
        offload=OFFLOAD[int(found.offload[index])],
    )


def _parts(value: StepTime | Memory) -> tuple[Part, ...]:
    """The terms of a sum by name, for one layout."""
    return tuple(
        Part(
            name=field.name.removesuffix("_s").removesuffix("_bytes").replace("_", " "),
            value=float(np.ravel(getattr(value, field.name))[0]),
        )
        for field in fields(value)
    )


def _reasons(search: Search, catalog: Catalog) -> tuple[str, ...]:
    """The provider's guidance, and what has to be known of the prediction."""
    lacking = [name for name in get_args(Framework) if name not in search.chip.frameworks]
    reasons = [
        guidance_reason(search.workload, search.row, catalog),
        f"runs {', '.join(search.chip.frameworks)}; excludes {', '.join(lacking)}",
    ]
    if not search.silicon.calibrated:
        reasons.append(
            f"no published training run on {search.chip.label}: its kernels are taken to be as efficient as "
            f"those of {search.silicon.ratio}"
        )
    if search.row.network.technology == "ethernet":
        reasons.append("no published collective rate for its network: the line rate is taken, an upper bound")
    if search.chip.scale_up is None and search.row.chip_count > 1:
        reasons.append("its chips share no scale-up link: their traffic is counted at the machine's network rate")
    return tuple(reason for reason in reasons if reason)
