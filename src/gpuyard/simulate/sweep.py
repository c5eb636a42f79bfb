"""Sweeps: every combination of designs, sizes, algorithms, load balancing and seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpuyard.document.field_types import Doc
from gpuyard.simulate.summary import NetworkSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What is varied; every combination is one simulation."""

    designs: tuple[str, ...]
    sizes_bytes: tuple[float | None, ...]
    algorithms: tuple[str, ...] = ("auto",)
    channels: tuple[int, ...] = (1,)
    balancings: tuple[str | None, ...] = (None,)
    seeds: tuple[int, ...] = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCase:
    """One combination."""

    design: Annotated[int, Doc("which of the designs")]
    name: Annotated[str, Doc("of the design")]
    size_bytes: float | None
    algorithm: str
    channels: int
    balancing: str | None
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """One combination and what came of it."""

    design: str
    size_bytes: float | None
    channels: int
    seed: int
    summary: NetworkSummary | None
    infeasible: Annotated[str | None, Doc("what made it so")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSpread:
    """Simulations that differ in nothing but the seed."""

    design: str
    size_bytes: float | None
    algorithm: str
    channels: int
    balancing: str
    engine: str
    runs: int
    completion_mean_s: float
    completion_min_s: float
    completion_max_s: float
    bus_mean_bytes_per_s: float | None = None
    bus_min_bytes_per_s: float | None = None
    fct_p99_mean_s: float | None = None
    mmr_mean_ratio: float | None = None
    drops: int | None = None
    pauses_mean: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """All rows, in the order of the combinations, and their spreads over seeds."""

    traffic: str
    rows: tuple[SweepRow, ...]
    spreads: tuple[SeedSpread, ...]


def cases(axes: Axes) -> tuple[SweepCase, ...]:
    """Every combination; seeds change fastest."""
    product = itertools.product(
        enumerate(axes.designs),
        axes.sizes_bytes,
        axes.algorithms,
        axes.channels,
        axes.balancings,
        axes.seeds,
    )
    return tuple(
        SweepCase(
            design=number,
            name=name,
            size_bytes=size,
            algorithm=algorithm,
            channels=channels,
            balancing=balancing,
            seed=seed,
        )
        for (number, name), size, algorithm, channels, balancing, seed in product
    )


def spreads(rows: Sequence[SweepRow]) -> tuple[SeedSpread, ...]:
    """The rows put together over seeds; infeasible ones are left out."""
    groups: dict[tuple[str, float | None, str | None, int, str], list[NetworkSummary]] = {}
    for row in rows:
        if row.summary is not None:
            key = (
                row.design,
                row.size_bytes,
                row.summary.algorithm,
                row.channels,
                row.summary.balancing,
            )
            groups.setdefault(key, []).append(row.summary)
    return tuple(
        _spread(design, size, algorithm or "", channels, balancing, runs)
        for (design, size, algorithm, channels, balancing), runs in groups.items()
    )


def _spread(
    design: str,
    size: float | None,
    algorithm: str,
    channels: int,
    balancing: str,
    runs: Sequence[NetworkSummary],
) -> SeedSpread:
    times = [run.completion_s for run in runs]
    bus = [run.bus_bytes_per_s for run in runs if run.bus_bytes_per_s is not None]
    drops = [run.drops for run in runs if run.drops is not None]
    return SeedSpread(
        design=design,
        size_bytes=size,
        algorithm=algorithm,
        channels=channels,
        balancing=balancing,
        engine=", ".join(sorted({run.engine for run in runs})),
        runs=len(runs),
        completion_mean_s=float(np.mean(times)),
        completion_min_s=min(times),
        completion_max_s=max(times),
        bus_mean_bytes_per_s=float(np.mean(bus)) if bus else None,
        bus_min_bytes_per_s=min(bus, default=None),
        fct_p99_mean_s=_mean([run.fct_p99_s for run in runs]),
        mmr_mean_ratio=_mean([run.link_mmr_ratio for run in runs]),
        drops=sum(drops) if drops else None,
        pauses_mean=_mean([run.pauses for run in runs]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
