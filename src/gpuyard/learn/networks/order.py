"""Batches and learning rate of each step, as functions of seed and step alone.

A resumed run therefore continues exactly where it stopped, and any number of processes sees the
same batches.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.trainers.network_settings import GradientTrainingSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The batches of a training run, as one of `parts` processes sees them."""

    rows: int
    batch: int  # over all processes
    accumulate: int
    seed: int
    part: int
    parts: int
    steps: int

    @property
    def steps_per_epoch(self) -> int:
        """Full batches per pass; leftover rows come in another pass, in another order."""
        return self.rows // self.batch

    def of(self, step: int) -> npt.NDArray[np.intp]:
        """Return this process's rows at a step (from 1), [accumulate, rows of a micro-batch]."""
        epoch, position = divmod(step - 1, self.steps_per_epoch)
        order = _permutation(self.rows, self.seed, epoch)
        micro = order[position * self.batch : (position + 1) * self.batch].reshape(
            self.accumulate, self.parts, -1
        )
        return micro[:, self.part]


@functools.lru_cache(maxsize=2)
def _permutation(rows: int, seed: int, epoch: int) -> npt.NDArray[np.intp]:
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(rows)


def order_of(
    spec: GradientTrainingSpec, *, rows: int, seed: int, part: int, parts: int, devices: int = 1
) -> Order:
    """Return the order for `parts` processes with `devices` each; raise InputError if it is uneven.

    A batch larger than the data becomes all of the data, rounded down to a multiple.
    """
    micro_batches = parts * devices * spec.accumulate
    batch = min(spec.batch, rows // micro_batches * micro_batches)
    if batch == 0:
        raise InputError.one(
            "train: batch",
            f"{rows} rows cannot be split into {micro_batches} micro-batches",
            "use fewer processes or more rows",
        )
    if batch % micro_batches:
        raise InputError.one(
            "train: batch",
            f"{batch} is not divisible by {parts * devices} devices × accumulate {spec.accumulate}",
            f"use a multiple of {micro_batches}",
        )
    steps = spec.steps if spec.steps is not None else spec.epochs * (rows // batch)
    return Order(
        rows=rows,
        batch=batch,
        accumulate=spec.accumulate,
        seed=seed,
        part=part,
        parts=parts,
        steps=steps,
    )


def learning_rate(spec: GradientTrainingSpec, step: int, steps: int) -> float:
    """Return the learning rate of a step (from 1): linear warm-up, then the schedule."""
    if step <= spec.warmup:
        return spec.learning_rate * step / spec.warmup
    progress = (step - spec.warmup - 1) / max(1, steps - spec.warmup)
    if spec.schedule == "linear":
        return spec.learning_rate * (1.0 - progress)
    if spec.schedule == "cosine":
        return spec.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
    return spec.learning_rate
