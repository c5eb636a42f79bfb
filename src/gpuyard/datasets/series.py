"""Features of a row from earlier rows of its series: lags, differences and rolling windows.

The same functions run when data is prepared and when a request is served, and every value is summed
in the same order (newest row first), so both give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

SeriesFunction = Literal["lag", "difference", "mean", "std", "min", "max", "sum"]
_WINDOWS = ("mean", "std", "min", "max", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesColumn:
    """New column: a function of `size` rows of its source that end `shift` rows before the row."""

    name: str
    source: str
    function: SeriesFunction
    size: int
    shift: int = 0
    least: int = 1  # values that a window needs; fewer give null

    @property
    def history_rows(self) -> int:
        """Number of earlier rows of the series that it reads."""
        return self.shift + self.size - (self.function in _WINDOWS)


def series_order(series: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows by series and time, and the position of each of them in its series.

    Rows without a time (NaN) are left out. Rows of equal time keep their order.
    """
    known = np.flatnonzero(~np.isnan(times))
    order = known[np.lexsort((times[known], series[known]))]
    rows = np.arange(len(order))
    if not len(order):
        return order, rows
    ids = series[order]
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    return order, rows - np.repeat(first, np.diff(np.append(first, len(order))))


def series_columns(
    values: Mapping[str, np.ndarray],
    series: np.ndarray,
    times: np.ndarray,
    columns: Sequence[SeriesColumn],
) -> np.ndarray:
    """Return the new columns, float64 [rows, columns]; NaN where there is no value."""
    order, position = series_order(series, times)
    out = np.full((len(times), len(columns)), np.nan)
    ordered = {name: values[name][order] for name in {column.source for column in columns}}
    windows: dict[tuple[str, int, int], dict[str, np.ndarray]] = {}
    for at, column in enumerate(columns):
        source = ordered[column.source]
        if column.function == "lag":
            out[order, at] = _shifted(source, position, column.shift + column.size)
        elif column.function == "difference":
            earlier = _shifted(source, position, column.shift + column.size)
            out[order, at] = _shifted(source, position, column.shift) - earlier
        else:
            key = (column.source, column.size, column.shift)
            if key not in windows:
                windows[key] = _window(source, position, column.size, column.shift)
            window = windows[key]
            enough = window["count"] >= column.least
            out[order, at] = np.where(enough, window[column.function], np.nan)
    return out


def _shifted(values: np.ndarray, position: np.ndarray, rows: int) -> np.ndarray:
    if not rows:
        return values
    shifted = np.full(len(values), np.nan)
    shifted[rows:] = values[:-rows]
    shifted[position < rows] = np.nan
    return shifted


def _window(
    values: np.ndarray, position: np.ndarray, size: int, shift: int
) -> dict[str, np.ndarray]:
    """Return count, sum, mean, standard deviation (of a sample), minimum and maximum."""
    count, total = np.zeros(len(values)), np.zeros(len(values))
    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
    for back in range(shift, shift + size):
        value = _shifted(values, position, back)
        known = ~np.isnan(value)
        count += known
        total += np.where(known, value, 0.0)
        low, high = np.fmin(low, value), np.fmax(high, value)
    mean = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    squares = np.zeros(len(values))
    for back in range(shift, shift + size):
        deviation = _shifted(values, position, back) - mean
        squares += np.where(np.isnan(deviation), 0.0, deviation * deviation)
    std = np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
    sums = np.where(count > 0, total, np.nan)
    return {"count": count, "sum": sums, "mean": mean, "std": std, "min": low, "max": high}


def factorise(series: np.ndarray, keys: Sequence[np.ndarray | Sequence[object]]) -> np.ndarray:
    """Return a number per row that is equal where `series` and all keys are equal."""
    for key in keys:
        if isinstance(key, np.ndarray):
            codes = np.unique(key, return_inverse=True)[1]
        else:
            known: dict[object, int] = {}
            codes = np.array([known.setdefault(value, len(known)) for value in key], np.int64)
        pairs = series * (int(codes.max(initial=0)) + 1) + codes
        series = cast(np.ndarray, np.unique(pairs, return_inverse=True)[1])
    return series
