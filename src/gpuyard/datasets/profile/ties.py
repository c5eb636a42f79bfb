"""How columns go with the label: correlation, association, and how much of the label each explains alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.profile.measures import Column, Tie
from gpuyard.datasets.profile.shape import Numbers, numbers_of

__all__ = ["is_classes", "tie_with"]

MOST_CLASSES = 50  # a label of whole numbers with more values is a quantity
MOST_BINS = 64
ROWS_PER_BIN = 10
MOST_CELLS = 4_000_000
LEAST_ROWS = 20

Codes = npt.NDArray[np.int64]


def is_classes(label: Column) -> bool:
    """Whether the label names classes: texts, true and false, or a few whole numbers."""
    if label.kind == "number":
        whole = all(value.text.removesuffix(".0").lstrip("-").isdigit() for value in label.top)
        return 0 < label.distinct_count <= MOST_CLASSES and whole
    return label.kind in ("text", "bool")


def tie_with(column: Column, values: pl.Series, label: Column, truth: pl.Series) -> Tie | None:
    """How a column goes with the label, or None where there is nothing to compare."""
    if column.kind == "other" or label.kind in ("other", "time") or column.distinct_count < 2:
        return None
    there = values.is_not_null() & truth.is_not_null()
    if column.kind in ("number", "time"):
        there &= pl.Series(~np.isnan(numbers_of(values, column.kind)))
    if not is_classes(label):
        there &= pl.Series(~np.isnan(numbers_of(truth, label.kind)))
    values, truth = values.filter(there), truth.filter(there)
    if len(values) < LEAST_ROWS or truth.n_unique() < 2:
        return None
    if is_classes(label):
        return _with_classes(column, values, _codes(truth))
    return _with_quantity(column, values, numbers_of(truth, label.kind))


def _codes(series: pl.Series) -> Codes:
    """Values as numbers from 0, in their order."""
    return (series.rank("dense") - 1).to_numpy().astype(np.int64)


def _with_classes(column: Column, values: pl.Series, truth: Codes) -> Tie:
    """The tie with a label of classes."""
    classes = int(truth.max()) + 1
    if column.kind == "text":
        bins = _codes(values.cast(pl.String))
        counts = _table(bins, truth)
        strength = 0.0 if counts is None else _cramer(counts)
        information = None if counts is None else _information(counts)
        alone = _alone_classes(bins, truth)
        return Tie(measure="cramer_v", strength=strength, information_ratio=information, alone_ratio=alone)
    numbers = numbers_of(values, column.kind)
    bins = _bins(numbers)
    counts = _table(bins, truth)
    information = None if counts is None else _information(counts)
    alone = _alone_classes(bins, truth)
    if classes == 2:
        pearson, spearman = _pearson(numbers, truth.astype(np.float64)), _spearman(values, truth)
        return Tie(
            measure="pearson", strength=pearson, spearman=spearman, information_ratio=information, alone_ratio=alone
        )
    strength = _correlation_ratio(truth, numbers)
    return Tie(measure="correlation_ratio", strength=strength, information_ratio=information, alone_ratio=alone)


def _with_quantity(column: Column, values: pl.Series, truth: Numbers) -> Tie:
    """The tie with a label of numbers."""
    if column.kind == "text":
        bins = _codes(values.cast(pl.String))
        alone = _alone_quantity(bins, truth)
        return Tie(measure="correlation_ratio", strength=_correlation_ratio(bins, truth), alone_ratio=alone)
    numbers = numbers_of(values, column.kind)
    pearson = _pearson(numbers, truth)
    alone = max(_alone_quantity(_bins(numbers), truth), pearson**2)
    return Tie(measure="pearson", strength=pearson, spearman=_spearman(values, truth), alone_ratio=alone)


def _bins(numbers: Numbers) -> Codes:
    """Numbers in bins of about as many rows each."""
    count = int(np.clip(len(numbers) // ROWS_PER_BIN, 2, MOST_BINS))
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, count + 1)[1:-1], method="lower"))
    return np.searchsorted(edges, numbers, side="left").astype(np.int64)


def _table(bins: Codes, truth: Codes) -> Numbers | None:
    """How many rows every bin and class share; None where the table would be too large."""
    shape = int(bins.max()) + 1, int(truth.max()) + 1
    if shape[0] * shape[1] > MOST_CELLS:
        return None
    return np.bincount(bins * shape[1] + truth, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _cramer(counts: Numbers) -> float:
    """Cramér's V with the correction for its bias (Bergsma 2013)."""
    total = counts.sum()
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / total
    phi = float((((counts - expected) ** 2) / expected).sum() / total)
    rows, columns = counts.shape
    phi = max(0.0, phi - (rows - 1) * (columns - 1) / (total - 1))
    least = min(rows - (rows - 1) ** 2 / (total - 1), columns - (columns - 1) ** 2 / (total - 1)) - 1
    return float(np.sqrt(min(phi / least, 1.0))) if least > 0 else 0.0


def _information(counts: Numbers) -> float:
    """Mutual information over the entropy of the classes."""
    shares = counts / counts.sum()
    rows, classes = shares.sum(axis=1, keepdims=True), shares.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nansum(shares * np.log(shares / (rows * classes)))
        entropy = -np.nansum(classes * np.log(classes))
    return float(np.clip(information / entropy, 0.0, 1.0)) if entropy > 0 else 0.0


def _pearson(first: Numbers, second: Numbers) -> float:
    """Pearson's coefficient; nothing where one does not vary."""
    first, second = first - first.mean(), second - second.mean()
    spread = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.clip(first @ second / spread, -1.0, 1.0)) if 0 < spread < np.inf else 0.0


def _spearman(values: pl.Series, truth: npt.NDArray[np.generic]) -> float:
    """Pearson's coefficient of the ranks."""
    ranks = values.rank("average").to_numpy().astype(np.float64)
    return _pearson(ranks, pl.Series(truth).rank("average").to_numpy().astype(np.float64))


def _part(part: float, total: float) -> float:
    """A part of a whole, from 0 to 1; nothing of what is nothing or beyond all numbers."""
    return float(np.clip(part / total, 0.0, 1.0)) if 0 < total < np.inf and np.isfinite(part) else 0.0


def _correlation_ratio(bins: Codes, numbers: Numbers) -> float:
    """The root of the part of the variance that lies between the bins."""
    counts = np.bincount(bins)
    means = np.bincount(bins, weights=numbers) / np.maximum(counts, 1)
    total = float(((numbers - numbers.mean()) ** 2).sum())
    between = float((counts * (means - numbers.mean()) ** 2).sum())
    return float(np.sqrt(_part(between, total)))


def _halves(rows: int) -> npt.NDArray[np.bool_]:
    """Rows to fit on; the others are to be told."""
    return np.random.default_rng(0).random(rows) < 0.5


def _alone_classes(bins: Codes, truth: Codes) -> float:
    """Of the rows that the commonest class tells wrongly, the part that the bins' commonest classes tell right."""
    fit = _halves(len(bins))
    counts = _table(bins[fit], truth[fit]) if fit.any() and not fit.all() else None
    if counts is None:
        return 0.0
    common = int(counts.sum(axis=0).argmax())
    told = np.full(int(bins.max()) + 1, common)
    seen = counts.sum(axis=1) > 0
    told[: len(counts)][seen] = counts.argmax(axis=1)[seen]
    wrong = float((truth[~fit] != common).mean())
    return max(0.0, 1.0 - float((told[bins[~fit]] != truth[~fit]).mean()) / wrong) if wrong > 0 else 0.0


def _alone_quantity(bins: Codes, truth: Numbers) -> float:
    """The part of the variance that the bins' means explain in rows that they were not taken from."""
    fit = _halves(len(bins))
    if fit.all() or not fit.any():
        return 0.0
    size = int(bins.max()) + 1
    counts, mean = np.bincount(bins[fit], minlength=size), float(truth[fit].mean())
    sums = np.bincount(bins[fit], weights=truth[fit], minlength=size)
    told = np.where(counts > 0, sums / np.maximum(counts, 1), mean)[bins[~fit]]
    total = float(((truth[~fit] - mean) ** 2).sum())
    return _part(total - float(((truth[~fit] - told) ** 2).sum()), total)
