"""Target encoding: category means of the label, out of fold on training rows to avoid leakage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import GroupMeans, GroupMeansRequest, Moments, MomentsRequest
from gpuyard.datasets.batch import RowBatch, Slots
from gpuyard.datasets.columns import Columns
from gpuyard.datasets.step import FOLD, Operation, Statistics, StatRequest
from gpuyard.datasets.steps.encode import (
    CategoryPart,
    CategoryStep,
    category_expr,
    category_lists,
)
from gpuyard.document.field_types import AtLeast, Doc
from gpuyard.errors import InputError

MAX_FOLDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMeans(CategoryPart):
    """Smoothed label mean of each category; the overall mean for unseen ones and nulls."""

    categories: tuple[str, ...]
    means: tuple[float, ...]
    out_of_fold: tuple[tuple[float, ...], ...]  # by fold and category: the mean without that fold
    mean: float

    @property
    def name(self) -> str:
        return f"{self.column}_target"

    def expressions(self) -> tuple[pl.Expr, ...]:
        """Return the means: of the other folds for a training row, of all folds otherwise."""
        new = self._encoded(self.means)
        for fold, means in enumerate(self.out_of_fold):
            in_fold = pl.col(FOLD) % len(self.out_of_fold) == fold
            new = pl.when(in_fold).then(self._encoded(means)).otherwise(new)
        return (new.alias(self.name),)

    def _encoded(self, means: tuple[float, ...]) -> pl.Expr:
        new = category_expr(self.column, self.texts, self.categories, means, self.mean)
        return new.fill_null(self.mean)

    def after(self, columns: Columns) -> Columns:
        return columns.with_columns({self.name: "Float64"}, drop=(self.column,))

    def numpy_operation(self, slots: Slots) -> Operation:
        place = slots.place(self.column, self.texts)
        at = slots.number(self.name)
        means = dict(zip(self.categories, self.means, strict=True))

        def run(batch: RowBatch) -> None:
            batch.numbers[:, at] = [
                means.get(key or "", self.mean) for key in category_lists(batch, place)
            ]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEncode(CategoryStep):
    """Label mean of each category, shrunk to the overall mean (Micci-Barreca 2001)."""

    PARTS = (TargetMeans,)
    USES_FOLDS = True
    folds: Annotated[int, AtLeast(2), Doc("folds of the training rows, at most 16")] = 5
    smoothing: Annotated[
        float, AtLeast(0.0), Doc("rows of the overall mean added to each category")
    ] = 20.0

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step with its patterns expanded; the label must be a number."""
        if self.folds > MAX_FOLDS:
            fix = f"write {MAX_FOLDS} or fewer"
            raise InputError.one(where, f"{self.folds} folds are too many", fix)
        label = columns.get(columns.label or "")
        if label is None:
            raise InputError.one(
                where, "there is no label to take the mean of", "name one under label:"
            )
        if label.kind not in ("number", "bool"):
            what = f'the label "{label.name}" is {label.dtype}, not a number'
            raise InputError.one(where, what, "encode it with an ordinal step first")
        return CategoryStep.bind(self, columns, where)

    def requests(self, columns: Columns) -> tuple[StatRequest, ...]:
        label = columns.label or ""
        groups = (self._groups(label, name) for name in self.columns)
        return (MomentsRequest(column=label), *groups)

    def _groups(self, label: str, name: str) -> GroupMeansRequest:
        return GroupMeansRequest(column=label, by=name, folds=self.folds)

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[TargetMeans, ...]:
        return tuple(self._means(name, statistics, columns) for name in self.columns)

    def _means(self, name: str, statistics: Statistics, columns: Columns) -> TargetMeans:
        label = columns.label or ""
        mean = cast(Moments, statistics[MomentsRequest(column=label)]).mean
        groups = cast(GroupMeans, statistics[self._groups(label, name)])
        smooth = self.smoothing if self.smoothing > 0 else 1e-12
        sums = groups.sums.sum(axis=1)
        counts = groups.counts.sum(axis=1)
        means = (sums + smooth * mean) / (counts + smooth)
        other_sums = sums[:, None] - groups.sums
        other_counts = counts[:, None] - groups.counts
        out_of_fold = (other_sums + smooth * mean) / (other_counts + smooth)
        return TargetMeans(
            column=name,
            texts=columns.is_text(name),
            categories=groups.groups,
            means=tuple(means.tolist()),
            out_of_fold=tuple(tuple(fold.tolist()) for fold in np.ascontiguousarray(out_of_fold.T)),
            mean=mean,
        )
