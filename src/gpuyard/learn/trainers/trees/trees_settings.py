"""Settings of gradient-boosted trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.learn.trainers.network_settings import NotNegative
from gpuyard.units import RATIO


@dataclass(frozen=True, slots=True, kw_only=True)
class TreesSpec:
    """Gradient-boosted trees (LightGBM) for classification, regression or ranking."""

    rounds: Annotated[int, AtLeast(1), Doc("trees per class; fewer with early_stopping")] = 100
    leaves: Annotated[int, AtLeast(2), Doc("leaves per tree")] = 31
    depth: Annotated[
        int | None, AtLeast(1), Doc("maximum depth of a tree; default: limited by leaves only")
    ] = None
    learning_rate: NotNegative = 0.1
    min_rows: Annotated[int, AtLeast(1), Doc("minimum rows per leaf")] = 20
    l1: NotNegative = 0.0
    l2: NotNegative = 0.0
    rows_ratio: Annotated[float, RATIO, Doc("share of the rows sampled per tree")] = 1.0
    columns_ratio: Annotated[float, RATIO, Doc("share of the columns sampled per tree")] = 1.0
    early_stopping: Annotated[
        int | None,
        AtLeast(1),
        Doc("stop after N rounds without improvement on the validation rows"),
    ] = None
    ranking: Annotated[
        bool, Doc("learn to rank within groups of rows (LambdaRank); the data must have groups")
    ] = False
    threads: Annotated[int, AtLeast(0), Doc("0: all cores")] = 0
