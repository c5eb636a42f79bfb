"""Memory and step time of many layouts at once; layouts that do not fit are not timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf.collectives import NetworkModel
from gpuyard.perf.constants import TrainingConstants
from gpuyard.perf.layout import Architecture, Layout, Software, TrainingChip
from gpuyard.perf.memory import FIT_RATIO, Memory, memory
from gpuyard.perf.training import StepTime, step_time
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, LayoutTable

Floats = npt.NDArray[np.float64]
# Fractions of the forward pass that are recomputed in the backward pass: GEMMs, attention,
# elementwise memory passes, collectives. Selective is core attention only (Korthikanti 2022).
REPEATED = {
    "none": (0.0, 0.0, 0.0, 0.0),
    "selective": (0.0, 1.0, 0.0, 0.0),
    "full": (1.0, 1.0, 1.0, 1.0),
}
CHUNK = 1 << 12  # layouts at a time, so that the arrays stay in the CPU cache


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutEvaluation:
    """The layouts that fit with their step times, and the smallest memory that was needed."""

    layouts: LayoutTable
    step_s: Floats
    memory_bytes: Floats
    tried_count: int
    smallest_bytes: dict[int, float]  # peak memory per chip of the leanest layout, by chips

    def fastest(self, chips: int) -> int | None:
        """Return the index of the fastest layout on `chips` chips, or None if none fits."""
        rows = np.flatnonzero(self.layouts.chips == chips)
        return int(rows[np.argmin(self.step_s[rows])]) if len(rows) else None


def layout_of(layouts: LayoutTable, domain: float) -> Layout:
    """Convert layouts to inputs of the performance model; `domain` is the scale-up domain size."""
    ranks = layouts.dp * layouts.cp
    near = np.clip(domain // layouts.tp, 1, ranks)  # data-parallel ranks per domain
    shards = np.where(
        layouts.sharding == 0,
        1,
        np.where(layouts.sharding == SHARDING.index("hybrid"), near, ranks),
    )
    repeated = np.array([REPEATED[name] for name in RECOMPUTE])[layouts.recompute].T
    gemm, attention, elementwise, comm = repeated
    return Layout(
        chips=layouts.chips.astype(np.float64),
        tp=layouts.tp.astype(np.float64),
        pp=layouts.pp.astype(np.float64),
        dp=layouts.dp.astype(np.float64),
        cp=layouts.cp.astype(np.float64),
        ep=layouts.ep.astype(np.float64),
        virtual_pipeline=layouts.virtual_stages.astype(np.float64),
        micro_batch=layouts.micro_batch.astype(np.float64),
        grad_accum=layouts.gradient_accumulation.astype(np.float64),
        seq_parallel=(layouts.tp > 1).astype(np.float64),
        fsdp=(layouts.sharding >= SHARDING.index("parameters")).astype(np.float64),
        shard_ranks=shards.astype(np.float64),
        recompute_gemm=gemm,
        recompute_attention=attention,
        recompute_elementwise=elementwise,
        recompute_comm=comm,
        offload_optimizer=(layouts.offload == OFFLOAD.index("optimizer")).astype(np.float64),
        offload_activation=(layouts.offload == OFFLOAD.index("activations")).astype(np.float64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCase:
    """Inputs of the performance model except the layout: model, chip, network and software."""

    arch: Architecture
    chip: TrainingChip
    soft: Software
    constants: TrainingConstants
    network: NetworkModel | None = None  # None: closed form


def evaluate(
    case: TrainingCase, layouts: LayoutTable, fit_ratio: float = FIT_RATIO
) -> LayoutEvaluation:
    """Return the layouts that fit in `fit_ratio` of the memory, with their step times."""
    capacity = float(case.chip.hbm_bytes) * fit_ratio
    domain = float(case.chip.scaleup_chips)
    need = _chunked(
        len(layouts),
        lambda part: (
            memory(
                case.arch, layout_of(layouts.take(part), domain), case.chip, case.soft
            ).total_bytes
        ),
    )
    fits = need <= capacity
    fitting = layouts.take(fits)
    step = _chunked(
        len(fitting), lambda part: _step(case, layout_of(fitting.take(part), domain)).total_s
    )
    return LayoutEvaluation(
        layouts=fitting,
        step_s=step,
        memory_bytes=need[fits],
        tried_count=len(layouts),
        smallest_bytes={
            int(n): float(need[layouts.chips == n].min()) for n in np.unique(layouts.chips)
        },
    )


def _step(case: TrainingCase, layout: Layout) -> StepTime:
    return step_time(case.arch, layout, case.chip, case.soft, case.constants, case.network)


def detail(case: TrainingCase, layouts: LayoutTable) -> tuple[StepTime, Memory]:
    """Return the step times and memory of a few layouts, term by term."""
    layout = layout_of(layouts, float(case.chip.scaleup_chips))
    return _step(case, layout), memory(case.arch, layout, case.chip, case.soft)


def _chunked(count: int, compute: Callable[[npt.NDArray[np.int64]], Floats]) -> Floats:
    result = np.empty(count)
    for start in range(0, count, CHUNK):
        part = np.arange(start, min(start + CHUNK, count))
        result[part] = compute(part)
    return result
