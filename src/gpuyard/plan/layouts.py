"""Every way to spread a model over a number of chips, as arrays: one element a way, no Python loop per way."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gpuyard.catalog import Transformer

__all__ = ["OFFLOAD", "RECOMPUTE", "SHARDING", "Space", "Ways", "ways"]

Ints = npt.NDArray[np.int64]
# Data parallel; ZeRO-1; ZeRO-3 or FSDP; FSDP within a scale-up domain and copies beyond it (HSDP).
SHARDING = ("none", "optimizer", "parameters", "hybrid")
RECOMPUTE = ("none", "selective", "full")
OFFLOAD = ("none", "optimizer", "activations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The values that the search tries on each axis."""

    tp: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    pp: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 28, 30, 32, 40, 48, 60, 64)
    cp: tuple[int, ...] = (1, 2, 4, 8, 16)
    ep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    micro_batch: tuple[int, ...] = (1, 2, 4, 8, 16)
    virtual_stages: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 20)
    sharding: tuple[int, ...] = (0, 1, 2, 3)  # indices into SHARDING
    recompute: tuple[int, ...] = (0, 1, 2)  # indices into RECOMPUTE
    offload: tuple[int, ...] = (0,)  # indices into OFFLOAD; tried where nothing else fits
    one_pass: bool = False  # the whole batch of a chip at once, as compiled programs on TPUs do


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Layouts as columns of equal length."""

    chips: Ints
    tp: Ints
    pp: Ints
    cp: Ints
    dp: Ints
    ep: Ints
    micro_batch: Ints
    gradient_accumulation: Ints
    virtual_stages: Ints
    sharding: Ints
    recompute: Ints
    offload: Ints

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Ways:
        """The layouts of that index."""
        return Ways(**{field.name: getattr(self, field.name)[index] for field in fields(Ways)})

    def __len__(self) -> int:
        return len(self.chips)


def ways(
    shape: Transformer, sequence_tokens: int, batch: int, chips: tuple[int, ...], domain: int, space: Space
) -> Ways:
    """The valid layouts of a model on each number of chips; `domain` chips share the scale-up link."""
    n, tp, pp, cp = _degrees(shape, sequence_tokens, chips, domain, space)
    dp = n // (tp * pp * cp)
    even = (dp * tp * pp * cp == n) & (batch % np.maximum(dp, 1) == 0)
    n, tp, pp, cp, dp = n[even], tp[even], pp[even], cp[even], dp[even]
    columns = _crossed((n, tp, pp, cp, dp), _batches(batch, space))
    n, tp, pp, cp, dp, micro = columns
    per_rank = batch // dp
    micro = np.where(micro == 0, per_rank, micro)
    valid = per_rank % micro == 0
    columns = _crossed(tuple(column[valid] for column in (n, tp, pp, cp, dp, micro)), space.virtual_stages)
    n, tp, pp, cp, dp, micro, stages = columns
    steps = batch // dp // micro
    valid = (stages == 1) | ((pp > 1) & (shape.layers % (pp * stages) == 0) & (steps % pp == 0))
    columns = _crossed(tuple(column[valid] for column in (*columns, steps)), space.sharding)
    pp, dp, cp, shard = columns[2], columns[4], columns[3], columns[-1]
    valid = (shard < 2) | ((pp == 1) & (dp * cp > 1))
    valid &= (shard < 3) | (dp * cp * columns[1] > domain)  # within one domain, hybrid is plain FSDP
    columns = _crossed(tuple(column[valid] for column in columns), space.recompute)
    columns = _crossed(columns, space.offload)
    columns = _with_experts(columns, shape, space)
    names = ("chips", "tp", "pp", "cp", "dp", "micro_batch", "virtual_stages", "gradient_accumulation", "sharding")
    return Ways(**dict(zip((*names, "recompute", "offload", "ep"), columns, strict=True)))


def _degrees(
    shape: Transformer, sequence_tokens: int, chips: tuple[int, ...], domain: int, space: Space
) -> tuple[Ints, Ints, Ints, Ints]:
    """Chips, tensor, pipeline and context parallel degrees that the model and the domain allow."""
    tp = [d for d in space.tp if d <= domain and shape.heads % d == 0 and shape.hidden % d == 0]
    pp = [d for d in space.pp if d <= shape.layers and (shape.layers % d == 0 or (shape.layers + 2) % d == 0)]
    cp = [d for d in space.cp if d == 1 or (sequence_tokens % (2 * d) == 0 and sequence_tokens // d >= 2048)]
    grid = np.meshgrid(np.array(chips), np.array(tp), np.array(pp), np.array(cp), indexing="ij")
    n, t, p, c = (axis.ravel().astype(np.int64) for axis in grid)
    whole = n % (t * p * c) == 0
    return n[whole], t[whole], p[whole], c[whole]


def _batches(batch: int, space: Space) -> tuple[int, ...]:
    """Micro-batches to try; 0 stands for all of a rank's samples at once."""
    return (0,) if space.one_pass else tuple(size for size in space.micro_batch if size <= batch)


def _crossed(columns: tuple[Ints, ...], values: tuple[int, ...]) -> tuple[Ints, ...]:
    """Each row once for each value, the value as one more column."""
    count, repeats = len(columns[0]), len(values)
    return (*(np.repeat(column, repeats) for column in columns), np.tile(np.array(values, dtype=np.int64), count))


def _with_experts(columns: tuple[Ints, ...], shape: Transformer, space: Space) -> tuple[Ints, ...]:
    """Expert parallel degrees for mixtures of experts, 1 for the rest."""
    if shape.moe is None:
        return (*columns, np.ones_like(columns[0]))
    experts = shape.moe.experts
    crossed = _crossed(columns, tuple(d for d in space.ep if experts % d == 0))
    _, tp, _, cp, dp = crossed[:5]
    ep = crossed[-1]
    valid = (dp * cp * tp) % ep == 0
    return tuple(column[valid] for column in crossed)
