"""What to search and what to insist on: the `select` section of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from gpuyard.document import AtLeast, Doc, Settings
from gpuyard.units import BYTES, DURATION, MONEY

__all__ = ["Limits", "Prune", "Search", "SelectSpec"]

Search: TypeAlias = Literal["tpe", "random", "grid"]
Prune: TypeAlias = Literal["none", "median", "halving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the chosen model must keep to, measured on its exported bundle."""

    latency_s: Annotated[float | None, DURATION, Doc("of one row: 99 of 100 are answered within it")] = None
    memory_bytes: Annotated[float | None, BYTES, Doc("of a process that serves it on the CPU")] = None
    size_bytes: Annotated[float | None, BYTES, Doc("of the bundle's files")] = None
    cost_usd: Annotated[float | None, MONEY, Doc("of a million predictions on the planned hardware")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSpec:
    """Families and their parameters, the metric that decides, and the limits."""

    metric: Annotated[str, Doc("decides; whether more or less is better belongs to the metric")]
    candidates: Annotated[
        tuple[Settings, ...],
        Doc("each a trainer with values, {from: 7, to: 63}, {from: 1e-4, to: 0.1, scale: log} or {of: [32, 64]}"),
    ]
    trials: Annotated[int, AtLeast(1), Doc("how many settings are tried; a grid has its own number")] = 20
    search: Annotated[Search, Doc("tpe: by what earlier trials showed; random; grid: every combination")] = "tpe"
    prune: Annotated[Prune, Doc("after each fold stop what is below the median, or outside the better third")] = (
        "median"
    )
    batch: Annotated[int, AtLeast(1), Doc("trials side by side; the result depends on it, not on the cores")] = 4
    seed: Annotated[int, AtLeast(0)] = 0
    limits: Limits = Limits()
    finalists: Annotated[int, AtLeast(1), Doc("how many of the best are exported and measured at most")] = 5
