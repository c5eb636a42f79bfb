"""The `select` section: candidates, metric, search and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.document.frozen_json import FrozenJson, Plain
from gpuyard.units import BYTES, DURATION, MONEY

Search: TypeAlias = Literal["tpe", "random", "grid"]
Prune: TypeAlias = Literal["none", "median", "halving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectLimits:
    """Limits of the chosen model, measured on its exported bundle."""

    latency_s: Annotated[float | None, DURATION, Doc("99th-percentile latency of a single row")] = (
        None
    )
    memory_bytes: Annotated[
        float | None, BYTES, Doc("memory of a process that serves it on the CPU")
    ] = None
    size_bytes: Annotated[float | None, BYTES, Doc("size of the bundle's files")] = None
    cost_usd: Annotated[
        float | None, MONEY, Doc("per million predictions on the planned hardware")
    ] = None


_CANDIDATES: tuple[Plain, ...] = (
    {
        "trees": {
            "rounds": {"from": 50, "to": 400},
            "leaves": {"from": 7, "to": 63},
            "learning_rate": {"from": 0.02, "to": 0.3, "scale": "log"},
        }
    },
    {  # stochastic gradient boosting: small trees on parts of rows and columns, for small tables
        "trees": {
            "rounds": {"from": 100, "to": 400},
            "leaves": {"from": 4, "to": 16},
            "learning_rate": {"from": 0.03, "to": 0.15, "scale": "log"},
            "min_rows": 5,
            "rows": "60%",
            "columns": "40%",
        }
    },
    {"sklearn": {"family": "ridge", "alpha": {"from": 1e-3, "to": 100, "scale": "log"}}},
    {"sklearn": {"family": "elastic_net", "alpha": {"from": 1e-3, "to": 10, "scale": "log"}}},
    {"sklearn": {"family": "random_forest", "min_rows": {"from": 1, "to": 20}}},
    {"sklearn": {"family": "extra_trees", "min_rows": {"from": 1, "to": 20}}},
    {"sklearn": {"family": "svm", "c": {"from": 0.1, "to": 100, "scale": "log"}}},
    {"sklearn": {"family": "neighbours", "neighbours": {"from": 3, "to": 25}}},
)
PORTFOLIO = tuple(FrozenJson.of(tree) for tree in _CANDIDATES)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSpec:
    """Trainers and hyperparameters to search, the metric, and the limits."""

    metric: Annotated[str, Doc("metric to optimise, in the direction that is better for it")]
    candidates: Annotated[
        tuple[FrozenJson, ...],
        Doc(
            "each a trainer with values, {from: 7, to: 63}, {from: 1e-4, to: 0.1, scale: log}"
            " or {of: [32, 64]}; default: trees, linear models, forests, svm and neighbours"
        ),
    ] = PORTFOLIO
    trials: Annotated[
        int, AtLeast(1), Doc("number of settings to try; a grid determines its own number")
    ] = 20
    search: Annotated[
        Search, Doc("tpe: guided by earlier trials; random; grid: every combination")
    ] = "tpe"
    prune: Annotated[
        Prune,
        Doc("after each fold: below the median and beyond noise, or outside the better third"),
    ] = "median"
    batch: Annotated[
        int, AtLeast(1), Doc("trials decided together; the result depends on it, not on the cores")
    ] = 4
    seed: Annotated[int, AtLeast(0)] = 0
    limits: SelectLimits = SelectLimits()
    finalists: Annotated[
        int, AtLeast(1), Doc("maximum number of the best trials to export and measure")
    ] = 5
