"""Speed for one user against yield of a chip: the configurations that nothing beats in both, chip by chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuyard.plan.inference.grid import SEQUENCES, ChipGrid
from gpuyard.plan.service import FrontierPoint

__all__ = ["frontier"]

MOST_POINTS = 14  # of one chip
SLOWEST = 0.02  # of the fastest user: below it, nobody waits for the answer


def frontier(grids: Sequence[ChipGrid]) -> tuple[FrontierPoint, ...]:
    """The front of each chip, thinned, and which of its points are on the front of all chips."""
    points = [point for grid in grids if len(grid) for point in _of_chip(grid)]
    fastest = max((point.tokens_per_s_per_user for point in points), default=0.0)
    points = [point for point in points if point.tokens_per_s_per_user >= SLOWEST * fastest]
    order = sorted(points, key=lambda point: (-point.tokens_per_s_per_user, -point.tokens_per_s_per_chip))
    best, front = 0.0, set[int]()
    for point in order:
        if point.tokens_per_s_per_chip > best:
            best = point.tokens_per_s_per_chip
            front.add(id(point))
    return tuple(replace(point, on_front=id(point) in front) for point in points)


def _of_chip(grid: ChipGrid) -> list[FrontierPoint]:
    """The chip's front, from the fastest user to the highest yield."""
    user = np.where(grid.fits, 1.0 / grid.tpot_s, 0.0).ravel()
    each = np.where(grid.fits, grid.output_tokens_per_s * grid.ranks / grid.chips, 0.0).ravel()
    order = np.lexsort((-each, -user))
    best, kept = 0.0, []
    for index in order:
        if each[index] > best * 1.001 and user[index] > 0.0:
            best = float(each[index])
            kept.append(int(index))
    if len(kept) > MOST_POINTS:
        kept = [kept[at] for at in np.unique(np.linspace(0, len(kept) - 1, MOST_POINTS).astype(int))]
    return [_point(grid, index, float(user[index]), float(each[index])) for index in kept]


def _point(grid: ChipGrid, index: int, user: float, each: float) -> FrontierPoint:
    """One element of the grid by name."""
    row, column = divmod(index, len(SEQUENCES))
    replica = grid.replicas[row]
    layout = replica.layout
    return FrontierPoint(
        chip=grid.chip.name,
        tp=layout.tp,
        pp=layout.pp,
        ep=layout.ep,
        attention_dp=layout.attention_dp,
        weights=replica.precision.weights,
        kv=replica.precision.kv,
        engine=replica.engine.name,
        sequences_count=float(SEQUENCES[column]) * replica.ranks,
        tokens_per_s_per_chip=each,
        tokens_per_s_per_user=user,
    )
