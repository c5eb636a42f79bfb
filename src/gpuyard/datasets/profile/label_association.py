"""Association of columns with the label: correlation, Cramér's V, and predictive power."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.profile.measures import ColumnProfile, LabelAssociation
from gpuyard.datasets.profile.shape import Numbers, numbers_of

MAX_CLASSES = 50  # an integer label with more values is a quantity
MAX_BINS = 64
ROWS_PER_BIN = 10
MAX_CELLS = 4_000_000
MIN_ROWS = 20

Codes = npt.NDArray[np.int64]


def is_classes(label: ColumnProfile) -> bool:
    """Return whether the label names classes: texts, booleans, or a few integers."""
    if label.kind == "number":
        integers = all(value.text.removesuffix(".0").lstrip("-").isdigit() for value in label.top)
        return 0 < label.distinct_count <= MAX_CLASSES and integers
    return label.kind in ("text", "bool")


def association_with_label(
    column: ColumnProfile, values: pl.Series, label: ColumnProfile, truth: pl.Series
) -> LabelAssociation | None:
    """Return the association of a column with the label, or None if it cannot be measured."""
    if column.kind == "other" or label.kind in ("other", "time") or column.distinct_count < 2:
        return None
    classes = is_classes(label)
    present = values.is_not_null() & truth.is_not_null()
    if column.kind in ("number", "time"):
        present &= pl.Series(~np.isnan(numbers_of(values, column.kind)))
    if not classes:
        present &= pl.Series(~np.isnan(numbers_of(truth, label.kind)))
    values, truth = values.filter(present), truth.filter(present)
    if len(values) < MIN_ROWS or truth.n_unique() < 2:
        return None
    if classes:
        return _with_classes(column, values, _codes(truth))
    return _with_quantity(column, values, numbers_of(truth, label.kind))


def _codes(series: pl.Series) -> Codes:
    """Return values as integers from 0, in their order."""
    return (series.rank("dense") - 1).to_numpy().astype(np.int64)


def _with_classes(column: ColumnProfile, values: pl.Series, truth: Codes) -> LabelAssociation:
    is_text = column.kind == "text"
    numbers = np.empty(0) if is_text else numbers_of(values, column.kind)
    bins = _codes(values.cast(pl.String)) if is_text else _bins(numbers)
    counts = _table(bins, truth)
    information = None if counts is None else _information(counts)
    power = _power_of_classes(bins, truth)
    if is_text:
        return LabelAssociation(
            measure="cramer_v",
            strength=0.0 if counts is None else _cramer(counts),
            information_ratio=information,
            predictive_power_ratio=power,
        )
    if int(truth.max()) == 1:  # two classes
        return LabelAssociation(
            measure="pearson",
            strength=_pearson(numbers, truth.astype(np.float64)),
            spearman=_spearman(values, truth),
            information_ratio=information,
            predictive_power_ratio=power,
        )
    return LabelAssociation(
        measure="correlation_ratio",
        strength=_correlation_ratio(truth, numbers),
        information_ratio=information,
        predictive_power_ratio=power,
    )


def _with_quantity(column: ColumnProfile, values: pl.Series, truth: Numbers) -> LabelAssociation:
    if column.kind == "text":
        bins = _codes(values.cast(pl.String))
        return LabelAssociation(
            measure="correlation_ratio",
            strength=_correlation_ratio(bins, truth),
            predictive_power_ratio=_power_of_quantity(bins, truth),
        )
    numbers = numbers_of(values, column.kind)
    pearson = _pearson(numbers, truth)
    return LabelAssociation(
        measure="pearson",
        strength=pearson,
        spearman=_spearman(values, truth),
        predictive_power_ratio=max(_power_of_quantity(_bins(numbers), truth), pearson**2),
    )


def _bins(numbers: Numbers) -> Codes:
    """Return numbers in bins of about equal size."""
    count = int(np.clip(len(numbers) // ROWS_PER_BIN, 2, MAX_BINS))
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, count + 1)[1:-1], method="lower"))
    return np.searchsorted(edges, numbers, side="left").astype(np.int64)


def _table(bins: Codes, truth: Codes) -> Numbers | None:
    """Return the contingency table of bins and classes; None where it would be too large."""
    rows, columns = int(bins.max()) + 1, int(truth.max()) + 1
    if rows * columns > MAX_CELLS:
        return None
    counts = np.bincount(bins * columns + truth, minlength=rows * columns)
    return counts.reshape(rows, columns).astype(np.float64)


def _cramer(counts: Numbers) -> float:
    """Return Cramér's V with bias correction (Bergsma 2013)."""
    total = counts.sum()
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True) / total
    phi = float((((counts - expected) ** 2) / expected).sum() / total)
    rows, columns = counts.shape
    phi = max(0.0, phi - (rows - 1) * (columns - 1) / (total - 1))
    corrected_rows = rows - (rows - 1) ** 2 / (total - 1)
    corrected_columns = columns - (columns - 1) ** 2 / (total - 1)
    smaller = min(corrected_rows, corrected_columns) - 1
    return float(np.sqrt(min(phi / smaller, 1.0))) if smaller > 0 else 0.0


def _information(counts: Numbers) -> float:
    """Return mutual information over the entropy of the classes."""
    shares = counts / counts.sum()
    rows, classes = shares.sum(axis=1, keepdims=True), shares.sum(axis=0, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nansum(shares * np.log(shares / (rows * classes)))
        entropy = -np.nansum(classes * np.log(classes))
    return float(np.clip(information / entropy, 0.0, 1.0)) if entropy > 0 else 0.0


def _pearson(first: Numbers, second: Numbers) -> float:
    """Return Pearson's coefficient; 0 where one does not vary."""
    first, second = first - first.mean(), second - second.mean()
    spread = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(np.clip(first @ second / spread, -1.0, 1.0)) if 0 < spread < np.inf else 0.0


def _spearman(values: pl.Series, truth: npt.NDArray[np.generic]) -> float:
    ranks = values.rank("average").to_numpy().astype(np.float64)
    return _pearson(ranks, pl.Series(truth).rank("average").to_numpy().astype(np.float64))


def _fraction(part: float, total: float) -> float:
    """Return part / total, from 0 to 1; 0 if it is not finite."""
    if not 0 < total < np.inf or not np.isfinite(part):
        return 0.0
    return float(np.clip(part / total, 0.0, 1.0))


def _correlation_ratio(bins: Codes, numbers: Numbers) -> float:
    """Return the root of the fraction of the variance between the bins."""
    counts = np.bincount(bins)
    means = np.bincount(bins, weights=numbers) / np.maximum(counts, 1)
    total = float(((numbers - numbers.mean()) ** 2).sum())
    between = float((counts * (means - numbers.mean()) ** 2).sum())
    return float(np.sqrt(_fraction(between, total)))


# Predictive power: fit a one-column model on a random half of the rows, and measure on the other
# half which fraction of the baseline error it removes. The model is the most common class, or the
# mean, of each bin; the baseline the same of all rows.
def _training_half(rows: int) -> npt.NDArray[np.bool_]:
    return np.random.default_rng(0).random(rows) < 0.5


def _power_of_classes(bins: Codes, truth: Codes) -> float:
    fit = _training_half(len(bins))
    counts = _table(bins[fit], truth[fit]) if fit.any() and not fit.all() else None
    if counts is None:
        return 0.0
    baseline = int(counts.sum(axis=0).argmax())
    prediction = np.full(int(bins.max()) + 1, baseline)
    seen = counts.sum(axis=1) > 0
    prediction[: len(counts)][seen] = counts.argmax(axis=1)[seen]
    baseline_error = float((truth[~fit] != baseline).mean())
    error = float((prediction[bins[~fit]] != truth[~fit]).mean())
    return max(0.0, 1.0 - error / baseline_error) if baseline_error > 0 else 0.0


def _power_of_quantity(bins: Codes, truth: Numbers) -> float:
    fit = _training_half(len(bins))
    if fit.all() or not fit.any():
        return 0.0
    size = int(bins.max()) + 1
    counts, mean = np.bincount(bins[fit], minlength=size), float(truth[fit].mean())
    sums = np.bincount(bins[fit], weights=truth[fit], minlength=size)
    prediction = np.where(counts > 0, sums / np.maximum(counts, 1), mean)[bins[~fit]]
    baseline_error = float(((truth[~fit] - mean) ** 2).sum())
    error = float(((truth[~fit] - prediction) ** 2).sum())
    return _fraction(baseline_error - error, baseline_error)
