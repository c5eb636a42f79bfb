"""Streaming full scans: counts, ranges and moments of columns, duplicate rows, equal columns."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import polars as pl

from gpuyard.datasets.columns import kind_of
from gpuyard.datasets.profile.measures import ColumnProfile
from gpuyard.errors import ExternalError, InputError

EXACT_ROWS = 2_000_000  # up to here distinct values are counted exactly
FEW_DISTINCT = 100_000  # about this many are counted exactly for any number of rows
KEPT_DISTINCT = 250_000  # hashes that estimate larger numbers: standard error 0.2 %
HASHED_ROWS = 5_000_000  # row hashes in memory at once
SAMPLE_BYTES = 250e6  # memory of the sampled rows
MIN_SAMPLE_ROWS = 1_000
ROW = "__profile_row"
SEED = 17

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Table that can be read several times, and its name for messages."""

    name: str
    frame: pl.LazyFrame

    def collect(self, query: pl.LazyFrame) -> pl.DataFrame:
        """Run a query, streamed; raise InputError for data that cannot be read."""
        return self._read(lambda: query.collect(engine="streaming"))

    def schema(self) -> Mapping[str, pl.DataType]:
        """Return names and types of the columns."""
        return self._read(self.frame.collect_schema)

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except pl.exceptions.PolarsError as error:
            what = f"cannot be read: {str(error).splitlines()[0]}"
            raise InputError.one(self.name, what, "fix the file, or name another") from error
        except OSError as error:
            raise ExternalError(
                self.name, f"cannot be read: {error}", "check the path and its permissions"
            ) from error


def finite(value: object) -> float | None:
    """Return the number, or None where JSON cannot represent it."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def count_rows(source: TableSource) -> int:
    """Return the number of rows."""
    return int(source.collect(source.frame.select(pl.len())).item())


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _measures(name: str, dtype: pl.DataType, exact: bool) -> dict[str, pl.Expr]:
    column, kind = pl.col(name), kind_of(str(dtype))
    measures = {"nulls": column.null_count()}
    if kind == "number":
        value = column if dtype.is_integer() else column.cast(pl.Float64)
        if not dtype.is_integer():
            measures |= {"nan": value.is_nan().sum(), "infinite": value.is_infinite().sum()}
            value = pl.when(value.is_finite()).then(value)
        number = value.cast(pl.Float64)
        measures |= {"zeros": (value == 0).sum(), "min": value.min(), "max": value.max()}
        measures |= {"mean": number.mean(), "std": number.std(ddof=0), "skew": number.skew()}
    elif kind == "text":
        column = column.cast(pl.String)
        length = column.str.len_chars()
        measures |= {
            "shortest": length.min(),
            "longest": length.max(),
            "bytes": column.str.len_bytes().mean(),
        }
    elif kind == "bool":
        measures |= {"zeros": (~column).sum(), "mean": column.mean()}
    elif kind == "time":
        measures |= {"min": column.min(), "max": column.max()}
    else:
        column = column.hash(SEED)
    distinct = column.n_unique() if exact or kind == "bool" else column.approx_n_unique()
    return measures | {"distinct": distinct}


def measure_columns(source: TableSource, rows: int) -> tuple[ColumnProfile, ...]:
    """Measure every column over all rows, in one pass."""
    schema = source.schema()
    exact = rows <= EXACT_ROWS
    measures = {
        (number, key): expression
        for number, (name, dtype) in enumerate(schema.items())
        for key, expression in _measures(name, dtype, exact).items()
    }
    if not measures:
        return ()
    query = source.frame.select(
        expression.alias(f"{number}:{key}") for (number, key), expression in measures.items()
    )
    row = source.collect(query).row(0, named=True)
    columns = tuple(
        _column(
            name, dtype, exact, {key: row[f"{at}:{key}"] for at, key in measures if at == number}
        )
        for number, (name, dtype) in enumerate(schema.items())
    )
    return columns if exact else tuple(_count_distinct(source, column) for column in columns)


# HyperLogLog is accurate to about 10 %. A column with few distinct values is counted exactly. Of a
# column with many, only the values of some hashes are counted, and scaled by the fraction of
# hashes. One column at a time, to use little memory.
def _count_distinct(source: TableSource, column: ColumnProfile) -> ColumnProfile:
    if column.distinct_exact:
        return column
    few = column.distinct_count <= FEW_DISTINCT
    parts = 1 if few else math.ceil(column.distinct_count / KEPT_DISTINCT)
    hashes = source.frame.select(pl.col(column.name).drop_nulls().hash(SEED).alias("hash"))
    if not few:
        hashes = hashes.filter(pl.col("hash") % parts == 0)
    count = int(source.collect(hashes.select(pl.col("hash").n_unique())).item())
    return replace(column, distinct_count=count * parts, distinct_exact=parts == 1)


def _column(
    name: str, dtype: pl.DataType, exact: bool, measured: Mapping[str, object]
) -> ColumnProfile:
    counts = {key: value for key, value in measured.items() if isinstance(value, int)}
    kind = kind_of(str(dtype))
    return ColumnProfile(
        name=name,
        dtype=str(dtype),
        kind=kind,
        nulls_count=counts["nulls"],
        distinct_count=max(counts["distinct"] - (counts["nulls"] > 0), 0),  # null is a value too
        distinct_exact=exact or kind == "bool",
        nan_count=counts.get("nan", 0),
        infinite_count=counts.get("infinite", 0),
        zeros_count=counts.get("zeros", 0),
        min=_text(measured.get("min")),
        max=_text(measured.get("max")),
        mean=finite(measured.get("mean")),
        std=finite(measured.get("std")),
        skew=finite(measured.get("skew")),
        shortest=counts.get("shortest"),
        longest=counts.get("longest"),
        mean_bytes=finite(measured.get("bytes")),
    )


def count_duplicates(source: TableSource, rows: int) -> tuple[int, bool]:
    """Return the number of rows that repeat an earlier one, and whether it is exact.

    Rows are compared by 64-bit hashes. When there are too many for memory, only the rows of some
    hashes are counted: all copies of a row share a hash, so the scaled count is unbiased.
    """
    names = list(source.schema())
    if not names:
        return 0, True
    parts = max(1, math.ceil(rows / HASHED_ROWS))
    hashes = source.frame.select(pl.struct(names).hash(SEED).alias("hash")).filter(
        pl.col("hash") % parts == 0
    )
    counts = source.collect(
        hashes.select(pl.len().alias("rows"), pl.col("hash").n_unique().alias("distinct"))
    )
    seen, distinct = counts.row(0)
    return round((seen - distinct) * parts), parts == 1


def sample(
    source: TableSource, rows: int, columns: Sequence[ColumnProfile], limit: int
) -> pl.DataFrame:
    """Return about `limit` rows, fewer if they are large, chosen by the hash of their number.

    Nested and binary columns are omitted, as nothing more is measured on them.
    """
    row_bytes = sum(column.mean_bytes or 8.0 for column in columns)
    limit = max(min(limit, int(SAMPLE_BYTES / max(row_bytes, 1.0))), min(limit, MIN_SAMPLE_ROWS))
    names = [column.name for column in columns if column.kind != "other"]
    if rows <= limit:
        return source.collect(source.frame.select(names))
    every = math.ceil(rows / limit)
    query = (
        source.frame.select(names)
        .with_row_index(ROW)
        .filter(pl.col(ROW).hash(SEED) % every == 0)
        .drop(ROW)
    )
    return source.collect(query)


def equal_pairs(
    source: TableSource, columns: Sequence[ColumnProfile], sampled: pl.DataFrame
) -> tuple[tuple[str, str], ...]:
    """Return the columns that are equal in every row; only those with equal statistics are read."""
    groups: dict[object, list[ColumnProfile]] = {}
    for column in columns:
        statistics = (
            column.dtype,
            column.nulls_count,
            column.distinct_count,
            column.mean,
            column.min,
            column.max,
            column.shortest,
            column.longest,
            column.nan_count,
        )
        if column.distinct_count > 1 and column.kind != "other":
            groups.setdefault(statistics, []).append(column)
    pairs = [
        (first.name, second.name)
        for group in groups.values()
        for index, first in enumerate(group)
        for second in group[index + 1 :]
        if sampled[first.name].equals(sampled[second.name])
    ]
    if not pairs:
        return ()
    query = source.frame.select(
        pl.col(first).eq_missing(pl.col(second)).all().alias(str(index))
        for index, (first, second) in enumerate(pairs)
    )
    equal = source.collect(query).row(0)
    return tuple(pair for pair, same in zip(pairs, equal, strict=True) if same)
