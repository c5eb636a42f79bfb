"""Layouts to their memory and step time, all at once; what does not fit is dropped before it is timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.perf import (
    FIT_RATIO,
    Architecture,
    Constants,
    Layout,
    Machine,
    Memory,
    NetworkModel,
    Software,
    StepTime,
    memory,
    step_time,
)
from gpuyard.plan.layouts import OFFLOAD, RECOMPUTE, SHARDING, Ways

__all__ = ["Case", "Evaluated", "detail", "evaluate", "layout_of"]

Floats = npt.NDArray[np.float64]
# Shares of the forward pass that the backward repeats: matrix products, attention, element-wise passes, collectives.
# Selective is core attention alone (Korthikanti 2022): it frees the scores of attention that is not fused.
REPEATED = {"none": (0.0, 0.0, 0.0, 0.0), "selective": (0.0, 1.0, 0.0, 0.0), "full": (1.0, 1.0, 1.0, 1.0)}
CHUNK = 1 << 12  # layouts at a time: their arrays stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The layouts that fit, with their time; and the nearest miss when none does."""

    ways: Ways
    step_s: Floats
    memory_bytes: Floats
    tried_count: int
    smallest_bytes: dict[int, float]  # by number of chips: of the leanest layout, on the fullest chip

    def fastest(self, chips: int) -> int | None:
        """The index of the fastest layout on that many chips; None if none fits."""
        own = np.flatnonzero(self.ways.chips == chips)
        return int(own[np.argmin(self.step_s[own])]) if len(own) else None


def layout_of(ways: Ways, domain: float) -> Layout:
    """The layouts as inputs of the performance model; `domain` chips share the scale-up link."""
    ranks = ways.dp * ways.cp
    near = np.clip(domain // ways.tp, 1, ranks)  # data-parallel ranks of one domain
    shards = np.where(ways.sharding == 0, 1, np.where(ways.sharding == SHARDING.index("hybrid"), near, ranks))
    repeated = np.array([REPEATED[name] for name in RECOMPUTE])[ways.recompute].T
    gemm, attention, elementwise, comm = repeated
    return Layout(
        chips=ways.chips.astype(np.float64),
        tp=ways.tp.astype(np.float64),
        pp=ways.pp.astype(np.float64),
        dp=ways.dp.astype(np.float64),
        cp=ways.cp.astype(np.float64),
        ep=ways.ep.astype(np.float64),
        vpp=ways.virtual_stages.astype(np.float64),
        micro_batch=ways.micro_batch.astype(np.float64),
        grad_accum=ways.gradient_accumulation.astype(np.float64),
        seq_parallel=(ways.tp > 1).astype(np.float64),
        fsdp=(ways.sharding >= SHARDING.index("parameters")).astype(np.float64),
        shard_ranks=shards.astype(np.float64),
        recompute_gemm=gemm,
        recompute_attention=attention,
        recompute_elementwise=elementwise,
        recompute_comm=comm,
        offload_optimizer=(ways.offload == OFFLOAD.index("optimizer")).astype(np.float64),
        offload_activation=(ways.offload == OFFLOAD.index("activations")).astype(np.float64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model on a chip with its links, by a software: everything but the layout."""

    arch: Architecture
    chip: Machine
    soft: Software
    constants: Constants
    network: NetworkModel | None = None  # None: the closed forms


def evaluate(case: Case, ways: Ways) -> Evaluated:
    """Every layout that fits the chip's memory, with its step time."""
    capacity, domain = float(case.chip.hbm_bytes) * FIT_RATIO, float(case.chip.scaleup_chips)
    need = _chunked(
        len(ways), lambda part: memory(case.arch, layout_of(ways.take(part), domain), case.chip, case.soft).total_bytes
    )
    fits = need <= capacity
    kept = ways.take(fits)
    step = _chunked(len(kept), lambda part: _step(case, layout_of(kept.take(part), domain)).total_s)
    return Evaluated(
        ways=kept,
        step_s=step,
        memory_bytes=need[fits],
        tried_count=len(ways),
        smallest_bytes={int(n): float(need[ways.chips == n].min()) for n in np.unique(ways.chips)},
    )


def _step(case: Case, layout: Layout) -> StepTime:
    """The step time of layouts."""
    return step_time(case.arch, layout, case.chip, case.soft, case.constants, case.network)


def detail(case: Case, ways: Ways, index: int) -> tuple[StepTime, Memory]:
    """The parts of one layout's step time and memory."""
    layout = layout_of(ways.take(np.array([index])), float(case.chip.scaleup_chips))
    return _step(case, layout), memory(case.arch, layout, case.chip, case.soft)


def _chunked(count: int, compute: Callable[[npt.NDArray[np.int64]], Floats]) -> Floats:
    """A column computed piece by piece."""
    result = np.empty(count)
    for start in range(0, count, CHUNK):
        part = np.arange(start, min(start + CHUNK, count))
        result[part] = compute(part)
    return result
