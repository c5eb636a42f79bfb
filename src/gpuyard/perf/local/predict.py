"""Training step time on a measured machine, from layer shapes and bytes moved.

    step = step overhead
         + layers × layer overhead
         + gemm ratio × Σ time of each GEMM alone                  measured by kind and shape
         + activation ratio × activation bytes / bandwidth         of a working set of that size
         + optimizer ratio × optimizer bytes / bandwidth           of a working set of that size

Trees update and search histograms one value at a time: their bytes always use the bandwidth of
main memory.

The five constants of a trainer are fitted to short training runs of a few sizes (relative least
squares, non-negative).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.perf.local.grid import GemmRateGrid, rate_at
from gpuyard.perf.local.least_squares import least_squares
from gpuyard.perf.local.profile import GemmTiming, MachineProfile, Probe, TrainerFit
from gpuyard.perf.local.step_work import ADAM_PASSES, GemmKind, LocalStepWork

Reals = npt.NDArray[np.float64]
TERMS = 5
MIN_ERROR_RATIO = 0.05  # between repeated training runs
FRAMEWORKS = ("jax", "torch")  # trainers with their own rates; the others have NumPy's


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrediction:
    """One optimizer step on this machine; the terms add up to the step."""

    step_s: float
    overhead_s: float
    matmul_s: float
    activation_s: float
    optimizer_s: float
    memory_bytes: float
    error_ratio: float


def gemms_s(work: LocalStepWork, profile: MachineProfile, by: str) -> float:
    """Return the seconds of the GEMMs alone, by kind and shape."""
    timings: dict[GemmKind, list[GemmTiming]] = defaultdict(list)
    for timing in profile.timings:
        if timing.by == by:
            timings[timing.kind].append(timing)
    if "token-weight" not in timings:  # the framework flattens tokens to rows
        timings["token-weight"] = timings["weight"]
    missing = sorted({gemm.kind for gemm in work.gemms if not timings[gemm.kind]})
    if missing:
        raise InputError.one(
            "machine profile", f"{', '.join(missing)} by {by} was not timed", "gpuyard measure"
        )
    grids = {kind: GemmRateGrid(measured) for kind, measured in timings.items() if measured}
    return sum(grids[gemm.kind].time_s(gemm) for gemm in work.gemms)


def _terms(work: LocalStepWork, profile: MachineProfile, trainer: str) -> Reals:
    """Return the terms that the constants multiply: steps, layers, then seconds."""
    first = trainer.partition("_")[0]
    by = first if first in FRAMEWORKS else "numpy"
    memory = [rate for rate in profile.rates if rate.kind == "memory" and rate.by == by]
    if not memory:
        raise InputError.one("machine profile", f"no memory rates by {by}", "gpuyard measure")
    working_set, weights = plain_bytes(work), work.optimizer_bytes * 4 / ADAM_PASSES
    if first not in FRAMEWORKS:
        working_set = weights = math.inf
    return np.array(
        [
            1.0,
            float(work.layers),
            gemms_s(work, profile, by),
            work.activation_bytes / rate_at(memory, working_set),
            work.optimizer_bytes / rate_at(memory, weights),
        ]
    )


def fit_probes(profile: MachineProfile, trainer: str, probes: Sequence[Probe]) -> TrainerFit:
    """Fit the constants of a trainer to short training runs."""
    terms = np.array([_terms(probe.work, profile, trainer) for probe in probes])
    times_s = np.array([probe.step_s for probe in probes])
    constants = least_squares(terms, times_s)
    errors = []
    for left_out in range(len(probes)) if len(probes) > TERMS else ():
        rest = np.arange(len(probes)) != left_out
        predicted_s = terms[left_out] @ least_squares(terms[rest], times_s[rest])
        errors.append(abs(predicted_s / times_s[left_out] - 1.0))
    base_bytes, memory_ratio = _memory(probes)
    return TrainerFit(
        trainer=trainer,
        step_overhead_s=float(constants[0]),
        layer_overhead_s=float(constants[1]),
        gemm_ratio=float(constants[2]),
        activation_ratio=float(constants[3]),
        optimizer_ratio=float(constants[4]),
        error_ratio=max(MIN_ERROR_RATIO, float(np.mean(errors)) if errors else 0.5),
        base_memory_bytes=base_bytes,
        memory_ratio=memory_ratio,
    )


def plain_bytes(work: LocalStepWork) -> float:
    """Return the bytes of weights, gradients, two moments, and the activations of one pass."""
    return work.optimizer_bytes * 4 / ADAM_PASSES + work.activation_bytes / 3


def _memory(probes: Sequence[Probe]) -> tuple[float, float]:
    """Fit the memory of the process and its growth with the model."""
    sizes = np.array([[1.0, plain_bytes(probe.work)] for probe in probes])
    measured = np.array([probe.memory_bytes for probe in probes])
    solution, *_ = np.linalg.lstsq(sizes, measured, rcond=None)
    return max(0.0, float(solution[0])), max(0.0, float(solution[1]))


def predict_step(work: LocalStepWork, profile: MachineProfile, trainer: str) -> StepPrediction:
    """Predict time and memory of one step of a trainer on the measured machine."""
    fit = profile.fit(trainer)
    if fit is None:
        raise InputError.one(
            "machine profile", f"{trainer} was not measured on this machine", "gpuyard measure"
        )
    one, layers, matmul_s, activations_s, optimizer_s = _terms(work, profile, trainer)
    terms_s = (
        fit.step_overhead_s * one + fit.layer_overhead_s * layers,
        fit.gemm_ratio * matmul_s,
        fit.activation_ratio * activations_s,
        fit.optimizer_ratio * optimizer_s,
    )
    return StepPrediction(
        step_s=float(sum(terms_s)),
        overhead_s=float(terms_s[0]),
        matmul_s=float(terms_s[1]),
        activation_s=float(terms_s[2]),
        optimizer_s=float(terms_s[3]),
        memory_bytes=fit.base_memory_bytes + fit.memory_ratio * plain_bytes(work),
        error_ratio=fit.error_ratio,
    )
