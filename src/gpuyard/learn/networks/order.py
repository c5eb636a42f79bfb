"""Which rows a step takes, and its learning rate: functions of the seed and the step alone, so that a resumed run goes
on exactly where it was, and any number of processes sees the same batches."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuyard.errors import InputError
from gpuyard.learn.spec import Gradient

__all__ = ["Order", "learning_rate", "order_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The batches of one training as one of `parts` processes sees them."""

    rows: int
    batch: int  # over all processes
    accumulate: int
    seed: int
    part: int
    parts: int
    steps: int

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches in one pass; the rows that are left over come in another pass, in another order."""
        return self.rows // self.batch

    def of(self, step: int) -> npt.NDArray[np.intp]:
        """The rows of this process at a step (from 1), [accumulate, rows of a micro-batch]."""
        epoch, place = divmod(step - 1, self.steps_per_epoch)
        order = _permutation(self.rows, self.seed, epoch)
        micro = order[place * self.batch : (place + 1) * self.batch].reshape(self.accumulate, self.parts, -1)
        return micro[:, self.part]


@functools.lru_cache(maxsize=2)
def _permutation(rows: int, seed: int, epoch: int) -> npt.NDArray[np.intp]:
    """The order of the rows in one pass."""
    return np.random.Generator(np.random.Philox(key=[seed, epoch])).permutation(rows)


def order_of(spec: Gradient, *, rows: int, seed: int, part: int, parts: int, devices: int = 1) -> Order:
    """The order of a training over `parts` processes with `devices` each; InputError when the batch cannot be cut so.

    A batch larger than the data becomes all of the data, less what does not divide.
    """
    pieces = parts * devices * spec.accumulate
    batch = min(spec.batch, rows // pieces * pieces)
    if batch == 0:
        raise InputError.one(
            "train: batch", f"{rows} rows cannot be cut into {pieces} parts", "use fewer processes or more rows"
        )
    if batch % pieces:
        raise InputError.one(
            "train: batch",
            f"{batch} cannot be cut into {parts * devices} devices × {spec.accumulate} parts",
            f"write a multiple of {pieces}",
        )
    steps = spec.steps if spec.steps is not None else spec.epochs * (rows // batch)
    return Order(rows=rows, batch=batch, accumulate=spec.accumulate, seed=seed, part=part, parts=parts, steps=steps)


def learning_rate(spec: Gradient, step: int, steps: int) -> float:
    """The learning rate of a step (from 1): a linear rise, then constant, or to zero by a line or half a cosine."""
    if step <= spec.warmup:
        return spec.learning_rate * step / spec.warmup
    gone = (step - spec.warmup - 1) / max(1, steps - spec.warmup)
    if spec.schedule == "linear":
        return spec.learning_rate * (1.0 - gone)
    if spec.schedule == "cosine":
        return spec.learning_rate * 0.5 * (1.0 + math.cos(math.pi * gone))
    return spec.learning_rate
