"""The shape of every column in the sampled rows: quantiles, histogram, outliers, common values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from gpuyard.datasets.profile.measures import QUANTILES, Bin, Column, Correlations, Value

__all__ = ["correlations", "numbers_of", "shaped"]

BINS = 32
TOP = 10
FEW = 50  # distinct numbers whose values are listed
FENCE = 1.5  # quartile distances beyond which a value is an outlier (Tukey 1977)
WIDE = 5.0  # quartile distances that a histogram shows; what lies beyond is in its end bars
MOST_CORRELATED = 40
MOST_ROWS = 200_000

Numbers = npt.NDArray[np.float64]


def numbers_of(series: pl.Series, kind: str) -> Numbers:
    """The column as floats, NaN where it is missing or not finite; a time is its microseconds."""
    if kind == "time":
        series = series.cast(pl.Datetime("us")).to_physical()
    values = series.cast(pl.Float64, strict=False).to_numpy().astype(np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def shaped(column: Column, series: pl.Series) -> Column:
    """The column with what the sampled rows tell."""
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
    if not np.isfinite(quantiles).all():  # between numbers so far apart that their distance is none
        quantiles = np.quantile(present, QUANTILES, method="lower")
    low, high = quantiles[2], quantiles[4]
    apart = high - low
    outside = (present < low - FENCE * apart) | (present > high + FENCE * apart)
    return replace(
        column,
        quantiles=tuple(quantiles.tolist()),
        outliers_ratio=float(outside.mean()) if 0 < apart < np.inf and column.kind == "number" else None,
        histogram=_histogram(present, low, high),
        ordered=bool(np.all(np.diff(present) >= 0)) and len(present) > 1,
    )


def _histogram(values: Numbers, low: float, high: float) -> tuple[Bin, ...]:
    """Bars of equal width; values far out are counted in the end bars."""
    least, greatest = float(values.min()), float(values.max())
    if high > low:
        least, greatest = max(least, low - WIDE * (high - low)), min(greatest, high + WIDE * (high - low))
    if not np.isfinite(greatest - least) or greatest <= least:
        return (Bin(low=least, high=greatest, rows_count=len(values)),)
    whole = bool(np.all(values == np.rint(values))) and greatest - least < BINS
    edges = np.arange(least, greatest + 2) - 0.5 if whole else np.linspace(least, greatest, BINS + 1)
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return tuple(Bin(low=first, high=last, rows_count=count) for first, last, count in rows)


def _text(column: Column, series: pl.Series) -> Column:
    """A column of texts: the common ones, and how many are numbers."""
    present = series.drop_nulls()
    numeric = present.str.strip_chars().cast(pl.Float64, strict=False).is_not_null()
    ratio = None if present.is_empty() else float(numeric.mean())  # type: ignore[arg-type]  # a mean of booleans
    return replace(column, top=_top(series), numeric_ratio=ratio)


def _top(series: pl.Series) -> tuple[Value, ...]:
    """The most common values, the first in order where they are as common."""
    counts = (
        series.drop_nulls()
        .cast(pl.String)
        .value_counts(name="__count")
        .sort(["__count", series.name], descending=[True, False])
    )
    limit = FEW if len(counts) <= FEW else TOP
    return tuple(Value(text=str(text), rows_count=count) for text, count in counts.head(limit).iter_rows())


def correlations(columns: tuple[Column, ...], sampled: pl.DataFrame, label: str | None) -> Correlations | None:
    """Pearson's coefficient of every two columns of numbers that vary, over the rows that have both."""
    numeric = [column for column in columns if column.kind in ("number", "bool") and column.distinct_count > 1]
    numeric.sort(key=lambda column: (column.name != label, -abs(column.tie.strength) if column.tie else 0.0))
    chosen = numeric[:MOST_CORRELATED]
    if len(chosen) < 2:
        return None
    rows = sampled.head(MOST_ROWS)
    table = np.stack([numbers_of(rows[column.name], column.kind) for column in chosen], axis=1)
    names = tuple(column.name for column in chosen)
    matrix = _pearson(table)
    cells = tuple(tuple(None if np.isnan(cell) else float(cell) for cell in row) for row in matrix)
    return Correlations(names=names, rows=cells)


def _pearson(table: Numbers) -> Numbers:
    """The coefficients of every two columns over the rows that have both."""
    has = ~np.isnan(table)
    scale = np.nanmax(np.abs(table), axis=0, initial=1e-300, where=has)
    values = np.where(has, table / scale, 0.0)  # scaled, so that squares do not overflow
    values -= np.where(has, values.sum(axis=0) / np.maximum(has.sum(axis=0), 1), 0.0)
    mask = has.astype(np.float64)
    rows = mask.T @ mask
    sums, squares, products = values.T @ mask, (values**2).T @ mask, values.T @ values
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = products - sums * sums.T / rows
        spread = squares - sums**2 / rows
        coefficient = shared / np.sqrt(spread * spread.T)
    bad = ~np.isfinite(coefficient) | (spread <= 1e-14) | (spread.T <= 1e-14) | (rows < 3)
    return np.where(bad, np.nan, np.clip(coefficient, -1.0, 1.0))
