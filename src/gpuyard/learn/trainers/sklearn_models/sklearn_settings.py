"""Settings of scikit-learn models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.units import RATIO

Family = Literal[
    "linear",
    "ridge",
    "lasso",
    "elastic_net",
    "random_forest",
    "extra_trees",
    "svm",
    "neighbours",
    "naive_bayes",
    "stack",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SklearnSpec:
    """A scikit-learn model on tables without missing values."""

    family: Annotated[
        Family,
        Doc("for classes, the linear ones are logistic regressions with the same penalty"),
    ] = "ridge"
    alpha: Annotated[
        float, AtLeast(0), Doc("ridge, lasso, elastic_net: strength of the penalty")
    ] = 1.0
    l1_ratio: Annotated[float, RATIO, Doc("elastic_net: share of the L1 penalty")] = 0.5
    trees: Annotated[int, AtLeast(1), Doc("forests, stack: number of trees")] = 100
    depth: Annotated[int | None, AtLeast(1), Doc("forests: maximum depth; default: no limit")] = (
        None
    )
    min_rows: Annotated[int, AtLeast(1), Doc("forests, stack: minimum rows per leaf")] = 1
    c: Annotated[float, AtLeast(1e-9), Doc("svm: inverse strength of the penalty")] = 1.0
    neighbours: Annotated[int, AtLeast(1), Doc("neighbours: rows that vote")] = 5
    threads: Annotated[int, AtLeast(0), Doc("forests; 0: one")] = 0
