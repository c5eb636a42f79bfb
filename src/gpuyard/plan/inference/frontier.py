"""Pareto front of interactivity (tok/s/user) against throughput per chip, for each chip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpuyard.plan.inference.candidates import SEQUENCES, ChipGrid
from gpuyard.plan.service import FrontierPoint

MAX_POINTS = 14  # per chip
SLOWEST = 0.02  # of the fastest user: slower points are not shown


def frontier(grids: Sequence[ChipGrid]) -> tuple[FrontierPoint, ...]:
    """Return the thinned front of each chip, marking points on the front of all chips."""
    points = [point for grid in grids if len(grid) for point in _chip_front(grid)]
    fastest = max((point.tokens_per_s_per_user for point in points), default=0.0)
    points = [point for point in points if point.tokens_per_s_per_user >= SLOWEST * fastest]
    order = sorted(
        points, key=lambda point: (-point.tokens_per_s_per_user, -point.tokens_per_s_per_chip)
    )
    best = 0.0
    front: set[int] = set()
    for point in order:
        if point.tokens_per_s_per_chip > best:
            best = point.tokens_per_s_per_chip
            front.add(id(point))
    return tuple(replace(point, on_pareto_front=id(point) in front) for point in points)


def _chip_front(grid: ChipGrid) -> list[FrontierPoint]:
    """From the fastest user to the highest throughput."""
    per_user = np.where(grid.fits, 1.0 / grid.tpot_s, 0.0).ravel()
    per_chip = np.where(grid.fits, grid.output_tokens_per_s * grid.ranks / grid.chips, 0.0).ravel()
    order = np.lexsort((-per_chip, -per_user))
    best = 0.0
    front: list[int] = []
    for index in order:
        if per_chip[index] > best * 1.001 and per_user[index] > 0.0:
            best = float(per_chip[index])
            front.append(int(index))
    if len(front) > MAX_POINTS:
        thinned = np.unique(np.linspace(0, len(front) - 1, MAX_POINTS).astype(int))
        front = [front[at] for at in thinned]
    return [_point(grid, index, float(per_user[index]), float(per_chip[index])) for index in front]


def _point(grid: ChipGrid, index: int, per_user: float, per_chip: float) -> FrontierPoint:
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
        tokens_per_s_per_chip=per_chip,
        tokens_per_s_per_user=per_user,
    )
