"""Categories replaced by the mean of the label, out of fold on training rows so that no row sees its own label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self, cast

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import GroupMeans, GroupMeansNeed, Moments, MomentsNeed
from gpuyard.datasets.batch import Batch, Slots
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import FOLD, Found, Need, Operation
from gpuyard.datasets.steps.encode import CATEGORIES, category_expr, category_lists
from gpuyard.document import AtLeast, Doc
from gpuyard.errors import InputError

__all__ = ["Target", "TargetMeans"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMeans:
    """Each category the smoothed mean of the label; one that was never seen, and a null, the mean of all."""

    column: str
    texts: bool
    categories: tuple[str, ...]
    means: tuple[float, ...]
    out_of_fold: tuple[tuple[float, ...], ...]  # by fold, by category: the mean without that fold
    mean: float

    @property
    def reads(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    @property
    def name(self) -> str:
        """The new column."""
        return f"{self.column}_target"

    def expressions(self) -> tuple[pl.Expr, ...]:
        """The means: of the other folds for a training row, of all for any other."""
        new = self._expression(self.means)
        for fold, means in enumerate(self.out_of_fold):
            new = pl.when(pl.col(FOLD) % len(self.out_of_fold) == fold).then(self._expression(means)).otherwise(new)
        return (new.alias(self.name),)

    def _expression(self, means: tuple[float, ...]) -> pl.Expr:
        """One lookup."""
        return category_expr(self.column, self.texts, self.categories, means, self.mean).fill_null(self.mean)

    def after(self, columns: Columns) -> Columns:
        """The new column in place of the old."""
        return columns.changed({self.name: "Float64"}, (self.column,))

    def compiled(self, slots: Slots) -> Operation:
        """The same in Python, with the means of all training rows."""
        place = slots.text(self.column) if self.texts else slots.number(self.column)
        at, mean, means = slots.number(self.name), self.mean, dict(zip(self.categories, self.means, strict=True))

        def run(batch: Batch) -> None:
            """Looks the rows up."""
            batch.numbers[:, at] = [means.get(key or "", mean) for key in category_lists(batch, place)]

        return run


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Each category the mean of the label, pulled to the mean of all by `smoothing` rows (Micci-Barreca 2001)."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")]
    folds: Annotated[int, AtLeast(2), Doc("of training rows, at most 16")] = 5
    smoothing: Annotated[float, AtLeast(0.0), Doc("rows of the overall mean added to each category")] = 20.0

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out; the label must be a number."""
        if self.folds > 16:
            raise InputError.one(where, f"{self.folds} folds are too many", "write 16 or fewer")
        label = columns.get(columns.label or "")
        if label is None:
            raise InputError.one(where, "there is no label to take the mean of", "name one under label:")
        if label.kind not in ("number", "bool"):
            what = f'the label "{label.name}" is {label.dtype}, not a number'
            raise InputError.one(where, what, "number its classes by an ordinal step first")
        kinds: tuple[Kind, ...] = ("text",) if any("*" in name for name in self.columns) else CATEGORIES
        return replace(self, columns=columns.chosen(self.columns, kinds, where))

    def needs(self, columns: Columns) -> tuple[Need, ...]:
        """The label's mean, overall and by category and fold."""
        label = columns.label or ""
        groups = (GroupMeansNeed(column=label, by=name, folds=self.folds) for name in self.columns)
        return (MomentsNeed(column=label), *groups)

    def fitted(self, found: Found, columns: Columns) -> tuple[TargetMeans, ...]:
        """The means of every column."""
        return tuple(self._means(name, found, columns) for name in self.columns)

    def _means(self, name: str, found: Found, columns: Columns) -> TargetMeans:
        """The means of one column's categories."""
        label, column = columns.label or "", columns.get(name)
        mean = cast(Moments, found[MomentsNeed(column=label)]).mean
        groups = cast(GroupMeans, found[GroupMeansNeed(column=label, by=name, folds=self.folds)])
        sums, counts = groups.sums.sum(axis=1), groups.counts.sum(axis=1)
        smooth = self.smoothing if self.smoothing > 0 else 1e-12
        apart = (sums[:, None] - groups.sums + smooth * mean) / (counts[:, None] - groups.counts + smooth)
        whole = (sums + smooth * mean) / (counts + smooth)
        assert column is not None
        return TargetMeans(
            column=name, texts=column.kind == "text", categories=groups.groups, means=tuple(whole.tolist()),
            out_of_fold=tuple(tuple(fold.tolist()) for fold in np.ascontiguousarray(apart.T)), mean=mean,
        )  # fmt: skip
