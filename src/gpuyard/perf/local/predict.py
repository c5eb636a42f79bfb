"""The time of a training step on a measured machine, from the shapes of its layers and the bytes that it moves.

    step = overhead + layers x layer overhead
         + product ratio x sum(time of each product alone)                measured by kind and shape
         + activation ratio x activations / memory rate of so many bytes  the caches', or beyond them
         + optimizer ratio x optimizer traffic / memory rate of so many bytes

Trees add to histograms and search them value by value, at the pace of a core, which no cache quickens: their bytes are
counted at one rate, that beyond the caches, whatever their number.

The five constants of a trainer are fitted to short trainings of a few sizes (relative least squares, none below zero).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.perf.local.grid import Grid, rate_at
from gpuyard.perf.local.least import least_squares
from gpuyard.perf.local.profile import Fit, LocalProfile, Probe, Timing
from gpuyard.perf.local.work import ADAM_PASSES, ProductKind, Work

__all__ = ["Prediction", "fit_probes", "plain_bytes", "predict_step", "product_s"]

Reals = npt.NDArray[np.float64]
TERMS = 5
FLOOR_RATIO = 0.05  # repeated runs of one training differ by this much
FRAMEWORKS = ("jax", "torch")  # whose rates count; NumPy's for trees


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One optimiser step on this machine; the parts add up to the whole."""

    step_s: float
    overhead_s: float
    product_s: float
    activation_s: float
    optimizer_s: float
    memory_bytes: float
    error_ratio: float


def product_s(work: Work, profile: LocalProfile, by: str) -> float:
    """The time of the products alone, each by its kind and shape."""
    timings: dict[ProductKind, list[Timing]] = defaultdict(list)
    for timing in profile.timings:
        if timing.by == by:
            timings[timing.kind].append(timing)
    if "token-weight" not in timings:  # a framework that takes tokens as rows
        timings["token-weight"] = timings["weight"]
    missing = sorted({product.kind for product in work.products if not timings[product.kind]})
    if missing:
        raise InputError.one("machine profile", f"{', '.join(missing)} by {by} was not timed", "gpuyard measure")
    grids = {kind: Grid(found) for kind, found in timings.items() if found}
    return sum(grids[product.kind].time_s(product) for product in work.products)


def _terms(work: Work, profile: LocalProfile, trainer: str) -> Reals:
    """What the constants multiply, in seconds (and layers)."""
    first = trainer.partition("_")[0]
    by = first if first in FRAMEWORKS else "numpy"
    memory = [rate for rate in profile.rates if rate.kind == "memory" and rate.by == by]
    if not memory:
        raise InputError.one("machine profile", f"no memory rates by {by}", "gpuyard measure")
    held, weights = plain_bytes(work), work.optimizer_bytes * 4 / ADAM_PASSES
    if first not in FRAMEWORKS:
        held = weights = math.inf
    return np.array([
        1.0, float(work.layers), product_s(work, profile, by), work.activation_bytes / rate_at(memory, held),
        work.optimizer_bytes / rate_at(memory, weights),
    ])  # fmt: skip


def fit_probes(profile: LocalProfile, trainer: str, probes: Sequence[Probe]) -> Fit:
    """The constants of a trainer from short trainings."""
    terms = np.array([_terms(probe.work, profile, trainer) for probe in probes])
    times_s = np.array([probe.step_s for probe in probes])
    constants = least_squares(terms, times_s)
    errors = []
    for left_out in range(len(probes)) if len(probes) > TERMS else ():
        kept = np.arange(len(probes)) != left_out
        guess = terms[left_out] @ least_squares(terms[kept], times_s[kept])
        errors.append(abs(guess / times_s[left_out] - 1.0))
    base_bytes, memory_ratio = _memory(probes)
    return Fit(
        trainer=trainer, step_overhead_s=float(constants[0]), layer_overhead_s=float(constants[1]),
        product_ratio=float(constants[2]), activation_ratio=float(constants[3]), optimizer_ratio=float(constants[4]),
        error_ratio=max(FLOOR_RATIO, float(np.mean(errors)) if errors else 0.5),
        base_memory_bytes=base_bytes, memory_ratio=memory_ratio,
    )  # fmt: skip


def plain_bytes(work: Work) -> float:
    """Weights with gradients and two moments, and the activations of one pass."""
    return work.optimizer_bytes * 4 / ADAM_PASSES + work.activation_bytes / 3


def _memory(probes: Sequence[Probe]) -> tuple[float, float]:
    """A process's own memory, and how the rest grows with the model."""
    sizes = np.array([[1.0, plain_bytes(probe.work)] for probe in probes])
    found, *_ = np.linalg.lstsq(sizes, np.array([probe.memory_bytes for probe in probes]), rcond=None)
    return max(0.0, float(found[0])), max(0.0, float(found[1]))


def predict_step(work: Work, profile: LocalProfile, trainer: str) -> Prediction:
    """The time and memory of one step of a trainer on the measured machine."""
    fit = profile.fit(trainer)
    if fit is None:
        raise InputError.one("machine profile", f"{trainer} was not tried on this machine", "gpuyard measure")
    one, layers, products_s, activations_s, optimizer_s = _terms(work, profile, trainer)
    parts = (
        fit.step_overhead_s * one + fit.layer_overhead_s * layers,
        fit.product_ratio * products_s,
        fit.activation_ratio * activations_s,
        fit.optimizer_ratio * optimizer_s,
    )
    return Prediction(
        step_s=float(sum(parts)), overhead_s=float(parts[0]), product_s=float(parts[1]), activation_s=float(parts[2]),
        optimizer_s=float(parts[3]), memory_bytes=fit.base_memory_bytes + fit.memory_ratio * plain_bytes(work),
        error_ratio=fit.error_ratio,
    )  # fmt: skip
