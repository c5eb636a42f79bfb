"""Searches of a training plan: one per machine type and framework; exclusions of others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gpuyard.catalog.chips import Chip, Framework
from gpuyard.catalog.load import Catalog
from gpuyard.catalog.machines import Machine
from gpuyard.perf.calibration import TrainingCalibration, scalar
from gpuyard.perf.chip_kernels import (
    ChipKernels,
    Precision,
    calibrated,
    peak_flop_per_s,
    silicon_of,
    training_chip,
)
from gpuyard.perf.collectives import NetworkModel
from gpuyard.perf.error_bars import (
    LEVELS,
    ErrorBar,
    distance,
    model_key,
    run_kind,
    training_error_bar,
)
from gpuyard.perf.from_catalog import architecture, nic_bytes_per_s
from gpuyard.perf.inference.shape import unmeasured
from gpuyard.perf.operators import model_flop_per_token
from gpuyard.perf.profiles import SoftwareProfile, find_profile
from gpuyard.perf.recipes import MoeSettings, choose_settings
from gpuyard.perf.software import software as software_factors
from gpuyard.plan.demand import TrainingDemand
from gpuyard.plan.eligible import NO_ACCELERATOR, exclusion_of
from gpuyard.plan.evaluate import TrainingCase
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, LayoutTable, Space, parallel_layouts
from gpuyard.plan.limits import LimitViolation
from gpuyard.plan.option import RejectedFamily
from gpuyard.plan.training_software import (
    TrainingSoftware,
    pinned_space,
    restricted,
    software_for,
)
from gpuyard.units import DURATION, show
from gpuyard.workload.eligibility import allowed_machines, chip_of, may_run
from gpuyard.workload.requirements import PrecisionName
from gpuyard.workload.workload import Workload

NVL72_CHIPS = 72
PROFILES = {"gpu": "megatron-bridge-26.06", "tpu": "maxtext-tpu-2025"}  # the newest of each kind
GPU_SPACE = Space(sharding=(1, 2, 3))  # the newest profiles always shard the optimizer state
TPU_SPACE = Space(tp=(1, 2, 4, 8), pp=(1,), cp=(1,), virtual_stages=(1,), sharding=(2,))


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSearch:
    """One machine type at one precision, with the inputs of the performance model."""

    workload: Workload
    demand: TrainingDemand
    row: Machine
    chip: Chip
    silicon: ChipKernels
    precision: Precision
    profile: SoftwareProfile
    software: TrainingSoftware
    calibration: TrainingCalibration
    network: NetworkModel | None = None

    @property
    def domain(self) -> int:
        """Chips per scale-up domain."""
        return (self.row.scale_up_domain_count or 1) if self.chip.scale_up else 1

    @property
    def experts(self) -> MoeSettings | None:
        """MoE settings of the profile's recipes on this chip; None for a dense model."""
        if self.demand.shape.moe is None:
            return None
        model = self.demand.model.label.replace(" ", "-")
        chip = self.silicon.name.upper()
        return choose_settings(self.profile.words, "", model, chip, self.precision)

    def case(self) -> TrainingCase:
        """Return the inputs of the performance model except the layout."""
        demand = self.demand
        moe = demand.shape.moe is not None
        nvl72 = (self.row.scale_up_domain_count or 0) >= NVL72_CHIPS and self.chip.kind == "gpu"
        # Machines of an unknown network work alone: any rate above zero does.
        nic = max(nic_bytes_per_s(self.row), 1.0)
        uncalibrated = training_chip(self.silicon, self.chip, self.precision, self.domain, nic)
        return TrainingCase(
            arch=architecture(
                demand.shape, demand.sequence_tokens, demand.adapters, demand.frozen_bytes
            ),
            chip=calibrated(uncalibrated, self.silicon, self.precision, self.calibration),
            soft=software_factors(
                self.profile,
                scalar(self.calibration, self.profile, moe),
                nvl72=nvl72,
                experts=self.experts,
            ),
            constants=self.calibration.constants,
            network=self.network,
        )

    def layouts(self, chips: tuple[int, ...], offload: bool = False) -> LayoutTable:
        """Return the valid layouts for each number of chips; with `offload`, in host memory."""
        space = TPU_SPACE if self.chip.kind == "tpu" else GPU_SPACE
        if "flash" in self.profile.flags:
            # Fused attention keeps no scores, so selective recomputation frees nothing.
            space = replace(space, recompute=(RECOMPUTE.index("none"), RECOMPUTE.index("full")))
        if offload:
            space = replace(
                space, offload=(OFFLOAD.index("optimizer"), OFFLOAD.index("activations"))
            )
        demand = self.demand
        support = self.software.support(demand.method)
        assert support is not None, "excluded before"
        pinned = self.workload.pinned
        space = restricted(space, support)
        if pinned is not None:
            space = pinned_space(space, pinned)
        layouts = parallel_layouts(
            demand.shape,
            demand.sequence_tokens,
            demand.global_batch_count,
            chips,
            self.domain,
            space,
        )
        if pinned is not None and pinned.dp is not None:
            return layouts.take(layouts.dp == pinned.dp)
        return layouts

    def in_time(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Leave out numbers of machines that would be late even at their peak rate.

        The largest number stays: it is the nearest miss if nothing meets the deadline.
        """
        deadline_s = self.workload.requirements.deadline_s
        rate = peak_flop_per_s(self.chip, self.precision)
        if deadline_s is None or not counts or not rate:
            return counts
        demand = self.demand
        shape = architecture(demand.shape, demand.sequence_tokens, demand.adapters)
        machine_s = demand.tokens * model_flop_per_token(shape) / (rate * self.row.chip_count)
        fewest = machine_s / deadline_s
        return tuple(count for count in counts if count >= fewest or count == max(counts))

    @property
    def is_profiled(self) -> bool:
        """True if the times are those of the software that runs the layout."""
        return self.profile.name.startswith(self.software.name)

    @property
    def error_bar(self) -> ErrorBar:
        """Range that holds 90 % of such runs, wider with distance from published ones.

        A planned run is not one of the published ones: without a calibration of the user, it is at
        least as far from them as a run of another source.
        """
        model = self.demand.model
        moe, adapters = self.demand.shape.moe is not None, self.demand.method != "full"
        kind = run_kind(self.silicon, moe, adapters)
        size = model_key(kind, self.demand.shape.layers, self.demand.shape.hidden)
        if unmeasured(model):
            return training_error_bar("chip", kind, model=size)
        level = distance(self.silicon, self.profile, kind, unseen=True)
        linear = model.transformer is None or bool(model.transformer.linear)
        if linear or not self.is_profiled:
            level = max(level, "stack", key=LEVELS.index)
        return training_error_bar(level, kind, self.profile.name, size)


def training_searches(
    workload: Workload,
    demand: TrainingDemand,
    row: Machine,
    catalog: Catalog,
    profile: str,
    calibration: TrainingCalibration,
    rejected: list[RejectedFamily],
) -> Iterator[TrainingSearch]:
    """Yield one search per framework; reasons against the machine are added to `rejected`."""
    if not workload.where.includes(row.provider):
        return
    chip = chip_of(row, catalog)
    silicon = silicon_of(chip) if chip else None
    exclusion = exclusion_of(workload, row, catalog)
    if exclusion is not None:
        if exclusion.what == NO_ACCELERATOR:
            what = NO_ACCELERATOR + _cpu_time(demand, row, catalog)
            exclusion = replace(exclusion, what=what)
        rejected.append(exclusion.rejected(row.series))
        return
    if chip is None or silicon is None or row.chip_count < 1:
        what = "a fractional chip" if chip and row.chip_count < 1 else "no kernel model of its chip"
        rejected.append(
            RejectedFamily(
                family=row.series, binding="chips", what=what, fix="use a whole GPU or TPU machine"
            )
        )
        return
    if chip.scale_up is None and row.chip_count > 1 and not nic_bytes_per_s(row):
        what = f"no source states the bandwidth between the {row.chip_count:g} chips of {row.name}"
        fix = "use machines of one chip, or add network.host_bits_per_s to your own catalog file"
        rejected.append(RejectedFamily(family=row.series, binding="machines", what=what, fix=fix))
        return
    requested = workload.requirements.framework
    framework = requested or default_framework(workload, catalog)
    softwares = software_for(chip, demand.method, framework)
    pinned = workload.pinned.software if workload.pinned is not None else None
    if pinned is not None:
        softwares = tuple(item for item in softwares if item.name == pinned)
    if not softwares:
        name = pinned or framework or "known"
        what = f"no {name} framework does {demand.method} training on {chip.label}"
        fix = "set framework to what your code is written in"
        rejected.append(
            RejectedFamily(family=row.series, binding="requirements.framework", what=what, fix=fix)
        )
        return
    precision = substitute(demand.precision, chip, silicon)
    if not peak_flop_per_s(chip, precision):
        rejected.append(
            RejectedFamily(
                family=row.series,
                binding="precision",
                what="its dense rate is unknown",
                fix="choose another precision",
            )
        )
        return
    for software in softwares:
        yield TrainingSearch(
            workload=workload,
            demand=demand,
            row=row,
            chip=chip,
            silicon=silicon,
            precision=precision,
            profile=find_profile(profile or PROFILES[chip.kind]),
            software=software,
            calibration=calibration,
        )


def default_framework(workload: Workload, catalog: Catalog) -> Framework | None:
    """PyTorch for fine-tuning, if the file names no framework and allows machines that run it."""
    if workload.task != "finetuning":
        return None
    allowed = allowed_machines(workload.where, catalog)
    runs = any(may_run(machine, "pytorch", catalog) for machine in allowed)
    return "pytorch" if runs else None


def _cpu_time(demand: TrainingDemand, row: Machine, catalog: Catalog) -> str:
    """Lower bound of the training time at the peak of the machine's CPUs."""
    socket = next((chip for chip in catalog.chips if chip.name == row.cpu), None)
    rate = (socket.dense.bf16_flop_per_s or socket.dense.fp32_flop_per_s) if socket else None
    if not rate or not socket or not socket.core_count or not row.core_count:
        return ""
    shape = architecture(demand.shape, demand.sequence_tokens, demand.adapters)
    cpu_flop_per_s = rate * row.core_count / socket.core_count
    least_s = demand.tokens * model_flop_per_token(shape) / cpu_flop_per_s
    return f"; one {row.name} would take {show(least_s, DURATION)} at the peak of its CPUs"


def substitute(precision: PrecisionName, chip: Chip, silicon: ChipKernels) -> Precision:
    """Return the dtype that the chip has for it: fp16 without bf16, mxfp8 on Blackwell."""
    substitutes: dict[str, Precision] = {"fp64": "fp32", "fp4": "nvfp4"}
    if chip.dense.bf16_flop_per_s is None:
        substitutes["bf16"] = "fp16"
    if silicon.generation == "blackwell":
        substitutes["fp8"] = "mxfp8"
    return substitutes.get(precision, cast(Precision, precision))


def faster(search: TrainingSearch) -> TrainingSearch | None:
    """Return the search at the narrower dtype, or None where the chip gains nothing."""
    name = search.demand.faster_precision
    if name is None or search.chip.dense.fp8_flop_per_s in (
        None,
        search.chip.dense.bf16_flop_per_s,
    ):
        return None
    precision = substitute(name, search.chip, search.silicon)
    if not peak_flop_per_s(search.chip, precision):
        return None
    return replace(search, precision=precision)


def impossible(search: TrainingSearch, counts: Sequence[int]) -> LimitViolation:
    """Why no layout exists: too few chips are allowed, a pinned size, or an uneven batch."""
    row, batch = search.row, search.demand.global_batch_count
    if not counts:
        return LimitViolation(
            family=row.series,
            binding="where.max_chips" if search.workload.where.max_chips else "where",
            ratio=math.inf,
            what=f"one {row.name} has {row.chip_count:g} chips; fewer are allowed",
            fix=f"allow {row.chip_count:g} chips",
            fits=True,
        )
    chips = ", ".join(f"{round(row.chip_count * count):,}" for count in counts[:4])
    if search.workload.pinned is None:
        most = round(row.chip_count * max(counts))
        even = most * max(1, round(batch / most))
        return LimitViolation(
            family=row.series,
            binding="training.global_batch",
            ratio=max(even / batch, batch / even),
            what=f"no layout of {search.software.label} divides a global batch of {batch:,} "
            f"over {chips} chips",
            fix=f"set global_batch to {even:,}, or use another number of machines",
            fits=True,
        )
    return LimitViolation(
        family=search.row.series,
        binding="pinned",
        ratio=1.0,
        what=f"no layout of {search.software.label} on {chips} chips keeps what is pinned",
        fix="unpin a size, or choose sizes whose product divides chips, layers, heads and batch",
        fits=True,
    )
