"""Enumerate the parallelism layouts of a model for N chips, as arrays over layouts."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from gpuyard.catalog.models import Transformer

Ints = npt.NDArray[np.int64]
# Data parallel; ZeRO-1; ZeRO-3 or FSDP; FSDP in a scale-up domain, replicated beyond it (HSDP).
SHARDING = ("none", "optimizer", "parameters", "hybrid")
RECOMPUTE = ("none", "selective", "full")
OFFLOAD = ("none", "optimizer", "activations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The values that the search tries on each axis."""

    tp: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    pp: tuple[int, ...] = (
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 24, 28, 30, 32, 40, 48, 60, 64,
    )  # fmt: skip
    cp: tuple[int, ...] = (1, 2, 4, 8, 16)
    ep: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    micro_batch: tuple[int, ...] = (1, 2, 4, 8, 16)
    virtual_stages: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 8, 10, 12, 20)
    sharding: tuple[int, ...] = (0, 1, 2, 3)  # indices into SHARDING
    recompute: tuple[int, ...] = (0, 1, 2)  # indices into RECOMPUTE
    offload: tuple[int, ...] = (0,)  # indices into OFFLOAD; tried when nothing else fits


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutTable:
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

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> LayoutTable:
        return LayoutTable(
            **{field.name: getattr(self, field.name)[index] for field in fields(LayoutTable)}
        )

    def __len__(self) -> int:
        return len(self.chips)


# The order in which `parallel_layouts` adds columns.
COLUMNS = (
    "chips", "tp", "pp", "cp", "dp", "micro_batch", "virtual_stages", "gradient_accumulation",
    "sharding", "recompute", "offload", "ep",
)  # fmt: skip


def parallel_layouts(
    shape: Transformer,
    sequence_tokens: int,
    batch: int,
    chips: tuple[int, ...],
    domain: int,
    space: Space,
) -> LayoutTable:
    """Return the valid layouts for each number of chips; `domain` is the scale-up domain size."""
    # Columns are added one axis at a time and invalid rows dropped at once, so that the table
    # never holds the full cross product.
    n, tp, pp, cp = _degrees(shape, sequence_tokens, chips, domain, space)
    dp = n // (tp * pp * cp)
    even = (dp * tp * pp * cp == n) & (batch % np.maximum(dp, 1) == 0)
    n, tp, pp, cp, dp = n[even], tp[even], pp[even], cp[even], dp[even]
    sizes = tuple(size for size in space.micro_batch if size <= batch)
    columns = _cross((n, tp, pp, cp, dp), sizes)
    n, tp, pp, cp, dp, micro = columns
    valid = batch // dp % micro == 0
    columns = _cross(
        tuple(column[valid] for column in (n, tp, pp, cp, dp, micro)), space.virtual_stages
    )
    n, tp, pp, cp, dp, micro, stages = columns
    steps = batch // dp // micro
    valid = (stages == 1) | ((pp > 1) & (shape.layers % (pp * stages) == 0) & (steps % pp == 0))
    columns = _cross(tuple(column[valid] for column in (*columns, steps)), space.sharding)
    pp, dp, cp, shard = columns[2], columns[4], columns[3], columns[-1]
    valid = (shard < 2) | ((pp == 1) & (dp * cp > 1))
    valid &= (shard < 3) | (dp * cp * columns[1] > domain)  # in one domain, HSDP is plain FSDP
    columns = _cross(tuple(column[valid] for column in columns), space.recompute)
    columns = _cross(columns, space.offload)
    columns = _with_experts(columns, shape, space)
    return LayoutTable(**dict(zip(COLUMNS, columns, strict=True)))


def _degrees(
    shape: Transformer, sequence_tokens: int, chips: tuple[int, ...], domain: int, space: Space
) -> tuple[Ints, Ints, Ints, Ints]:
    """Valid combinations of chips and tensor, pipeline and context parallel sizes."""
    tp = [d for d in space.tp if d <= domain and shape.heads % d == 0 and shape.hidden % d == 0]
    pp = [
        d
        for d in space.pp
        if d <= shape.layers and (shape.layers % d == 0 or (shape.layers + 2) % d == 0)
    ]
    cp = [
        d
        for d in space.cp
        if d == 1 or (sequence_tokens % (2 * d) == 0 and sequence_tokens // d >= 2048)
    ]
    grid = np.meshgrid(np.array(chips), np.array(tp), np.array(pp), np.array(cp), indexing="ij")
    n, t, p, c = (axis.ravel().astype(np.int64) for axis in grid)
    divides = n % (t * p * c) == 0
    return n[divides], t[divides], p[divides], c[divides]


def _cross(columns: tuple[Ints, ...], values: tuple[int, ...]) -> tuple[Ints, ...]:
    """Repeat each row once per value, with the value as an additional column."""
    count = len(columns[0])
    repeats = len(values)
    return (
        *(np.repeat(column, repeats) for column in columns),
        np.tile(np.array(values, dtype=np.int64), count),
    )


def _with_experts(columns: tuple[Ints, ...], shape: Transformer, space: Space) -> tuple[Ints, ...]:
    """Add the expert-parallel size: 1 for dense models."""
    if shape.moe is None:
        return (*columns, np.ones_like(columns[0]))
    experts = shape.moe.experts
    columns_ep = _cross(columns, tuple(d for d in space.ep if experts % d == 0))
    _, tp, _, cp, dp = columns_ep[:5]
    ep = columns_ep[-1]
    valid = (dp * cp * tp) % ep == 0
    return tuple(column[valid] for column in columns_ep)
