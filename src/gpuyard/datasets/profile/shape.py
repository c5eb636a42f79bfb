"""Distribution of columns in the sampled rows: quantiles, histogram, outliers, common values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.profile.measures import QUANTILES, Bin, ColumnProfile, Correlations, Value

BINS = 32
TOP = 10
FEW = 50  # up to here all distinct values are listed
FENCE = 1.5  # interquartile ranges beyond which a value is an outlier (Tukey 1977)
HISTOGRAM_FENCE = 5.0  # interquartile ranges in a histogram; values beyond are in its end bars
MAX_CORRELATED = 40
MAX_ROWS = 200_000

Numbers = npt.NDArray[np.float64]


def numbers_of(series: pl.Series, kind: str) -> Numbers:
    """Return a column as floats, NaN where it is missing or not finite; times as microseconds."""
    if kind == "time":
        series = series.cast(pl.Datetime("us")).to_physical()
    values = series.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def with_distribution(column: ColumnProfile, series: pl.Series) -> ColumnProfile:
    """Return the column with its distribution in the sampled rows."""
    if column.kind == "text":
        return _text(column, series.cast(pl.String))
    if column.kind == "bool":
        return replace(column, top=_top(series))
    if column.kind not in ("number", "time"):
        return column
    values = numbers_of(series, column.kind)
    present = values[~np.isnan(values)]
    few = column.distinct_count <= FEW and column.kind == "number"
    column = replace(column, top=_top(series) if few else ())
    if not len(present):
        return column
    quantiles = np.quantile(present, QUANTILES)
    if not np.isfinite(quantiles).all():  # interpolation overflows between extreme numbers
        quantiles = np.quantile(present, QUANTILES, method="lower")
    low, high = quantiles[QUANTILES.index(0.25)], quantiles[QUANTILES.index(0.75)]
    spread = high - low
    outliers_ratio = None
    if 0 < spread < np.inf and column.kind == "number":
        outside = (present < low - FENCE * spread) | (present > high + FENCE * spread)
        outliers_ratio = float(outside.mean())
    return replace(
        column,
        quantiles=tuple(quantiles.tolist()),
        outliers_ratio=outliers_ratio,
        histogram=_histogram(present, low, high),
        ordered=bool(np.all(np.diff(present) >= 0)) and len(present) > 1,
    )


def _histogram(values: Numbers, low: float, high: float) -> tuple[Bin, ...]:
    """Return bars of equal width; values far out are counted in the end bars."""
    start, end = float(values.min()), float(values.max())
    if high > low:
        start = max(start, low - HISTOGRAM_FENCE * (high - low))
        end = min(end, high + HISTOGRAM_FENCE * (high - low))
    if not np.isfinite(end - start) or end <= start:
        return (Bin(low=start, high=end, rows_count=len(values)),)
    integers = bool(np.all(values == np.rint(values))) and end - start < BINS
    edges = np.arange(start, end + 2) - 0.5 if integers else np.linspace(start, end, BINS + 1)
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    bars = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return tuple(Bin(low=first, high=last, rows_count=count) for first, last, count in bars)


def _text(column: ColumnProfile, series: pl.Series) -> ColumnProfile:
    present = series.drop_nulls()
    numeric = present.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    ratio = None if present.is_empty() else float(numeric.mean())  # type: ignore[arg-type]  # a mean of booleans
    return replace(column, top=_top(series), numeric_ratio=ratio)


def _top(series: pl.Series) -> tuple[Value, ...]:
    """Return the most common values; ties in order of the values."""
    counts = (
        series.drop_nulls()
        .cast(pl.String)
        .value_counts(name="__count")
        .sort(["__count", series.name], descending=[True, False])
    )
    limit = FEW if len(counts) <= FEW else TOP
    return tuple(
        Value(text=str(text), rows_count=count) for text, count in counts.head(limit).iter_rows()
    )


def correlations(
    columns: tuple[ColumnProfile, ...], sampled: pl.DataFrame, label: str | None
) -> Correlations | None:
    """Return the correlation matrix of the columns with the strongest association."""
    numeric = [
        column
        for column in columns
        if column.kind in ("number", "bool") and column.distinct_count > 1
    ]
    numeric.sort(key=lambda column: (column.name != label, -_strength(column)))
    chosen = numeric[:MAX_CORRELATED]
    if len(chosen) < 2:
        return None
    rows = sampled.head(MAX_ROWS)
    table = np.stack([numbers_of(rows[column.name], column.kind) for column in chosen], axis=1)
    cells = tuple(
        tuple(None if np.isnan(cell) else float(cell) for cell in row) for row in _pearson(table)
    )
    return Correlations(names=tuple(column.name for column in chosen), rows=cells)


def _strength(column: ColumnProfile) -> float:
    return abs(column.association.strength) if column.association else 0.0


# Pearson's coefficient of every pair of columns over the rows that have both, as matmuls:
# with missing values set to 0 and a mask of present ones, all sums over shared rows are matmuls.
def _pearson(table: Numbers) -> Numbers:
    has = ~np.isnan(table)
    scale = np.nanmax(np.abs(table), axis=0, initial=1e-300, where=has)
    values = np.where(has, table / scale, 0.0)  # scaled, so that squares do not overflow
    values -= np.where(has, values.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0.0)
    mask = has.astype(np.float64)
    rows = mask.T @ mask
    sums, squares, products = values.T @ mask, (values**2).T @ mask, values.T @ values
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / rows
        spread = squares - sums**2 / rows
        coefficient = covariance / np.sqrt(spread * spread.T)
    bad = ~np.isfinite(coefficient) | (spread <= 1e-14) | (spread.T <= 1e-14) | (rows < 3)
    return np.where(bad, np.nan, np.clip(coefficient, -1.0, 1.0))
