"""The passes over all rows, streamed: counts, ranges and moments of every column, duplicate rows, equal columns."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from gpuyard.datasets.columns import kind_of
from gpuyard.datasets.profile.measures import Column
from gpuyard.errors import InputError, RefusedError

__all__ = ["EXACT_ROWS", "Source", "count_rows", "duplicates", "equal_pairs", "finite", "measure_columns", "sample"]

EXACT_ROWS = 2_000_000  # up to here distinct values are counted one by one
FEW_DISTINCT = 100_000  # about so many are counted one by one whatever the number of rows
KEPT_DISTINCT = 250_000  # hashes that estimate the others: right to 0.2 % (one deviation)
HASHED_ROWS = 5_000_000  # row hashes held at once
SAMPLE_BYTES = 250e6  # that sampled rows take
SAMPLE_LEAST = 1_000
ROW = "__profile_row"
SEED = 17


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table to be read as often as it is needed, and its name for messages."""

    name: str
    frame: pl.LazyFrame

    def collected(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """The rows of a plan, streamed; what cannot be read is an error with its place."""
        try:
            return frame.collect(engine="streaming")
        except pl.exceptions.PolarsError as error:
            what = f"cannot be read: {str(error).splitlines()[0]}"
            raise InputError.one(self.name, what, "mend the file, or name another") from error
        except OSError as error:
            raise RefusedError(self.name, f"cannot be read: {error}", "check the path and its permissions") from error

    def schema(self) -> Mapping[str, pl.DataType]:
        """Names and types of the columns."""
        try:
            return self.frame.collect_schema()
        except pl.exceptions.PolarsError as error:
            what = f"cannot be read: {str(error).splitlines()[0]}"
            raise InputError.one(self.name, what, "mend the file, or name another") from error
        except OSError as error:
            raise RefusedError(self.name, f"cannot be read: {error}", "check the path and its permissions") from error


def finite(value: object) -> float | None:
    """The number, or None where there is none that JSON can hold."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def count_rows(source: Source) -> int:
    """How many rows there are."""
    return int(source.collected(source.frame.select(pl.len())).item())


def _text(value: object) -> str | None:
    """A least or greatest value as text."""
    if value is None:
        return None
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    return str(value)


def _measures(name: str, dtype: pl.DataType, exact: bool) -> dict[str, pl.Expr]:
    """What is asked of a column in the pass over all rows."""
    column, kind = pl.col(name), kind_of(str(dtype))
    asked = {"nulls": column.null_count()}
    if kind == "number":
        value = column if dtype.is_integer() else column.cast(pl.Float64)
        if not dtype.is_integer():
            asked |= {"nan": value.is_nan().sum(), "infinite": value.is_infinite().sum()}
            value = pl.when(value.is_finite()).then(value)
        number = value.cast(pl.Float64)
        asked |= {"zeros": (value == 0).sum(), "least": value.min(), "greatest": value.max()}
        asked |= {"mean": number.mean(), "deviation": number.std(ddof=0), "skew": number.skew()}
    elif kind == "text":
        column = column.cast(pl.String)
        length = column.str.len_chars()
        asked |= {"shortest": length.min(), "longest": length.max(), "bytes": column.str.len_bytes().mean()}
    elif kind == "bool":
        asked |= {"zeros": (~column).sum(), "mean": column.mean()}
    elif kind == "time":
        asked |= {"least": column.min(), "greatest": column.max()}
    else:
        column = column.hash(SEED)
    return asked | {"distinct": column.n_unique() if exact or kind == "bool" else column.approx_n_unique()}


def measure_columns(source: Source, rows: int) -> tuple[Column, ...]:
    """Every column measured over all rows, in one pass."""
    schema = source.schema()
    exact = rows <= EXACT_ROWS
    asked = {
        (number, key): expression
        for number, (name, dtype) in enumerate(schema.items())
        for key, expression in _measures(name, dtype, exact).items()
    }
    plan = source.frame.select(expression.alias(f"{number}:{key}") for (number, key), expression in asked.items())
    answers = source.collected(plan).row(0, named=True) if asked else {}
    found = tuple(
        _column(name, dtype, exact, {key: answers[f"{at}:{key}"] for at, key in asked if at == number})
        for number, (name, dtype) in enumerate(schema.items())
    )
    return found if exact else _counted_again(source, found)


def _counted_again(source: Source, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Distinct values better than HyperLogLog gave them, which is right to about a tenth.

    A column with few is counted. Of a column with many only the values of some hashes are, times the part left out.
    """
    return tuple(_counted_column(source, column) for column in columns)  # a column at a time, in little memory


def _counted_column(source: Source, column: Column) -> Column:
    """The column with its distinct values counted, or estimated from those of some hashes."""
    if column.distinct_exact:
        return column
    few = column.distinct_count <= FEW_DISTINCT
    parts = 1 if few else math.ceil(column.distinct_count / KEPT_DISTINCT)
    hashes = source.frame.select(pl.col(column.name).drop_nulls().hash(SEED).alias("hash"))
    kept = hashes if few else hashes.filter(pl.col("hash") % parts == 0)
    count = int(source.collected(kept.select(pl.col("hash").n_unique())).item())
    return replace(column, distinct_count=count * parts, distinct_exact=parts == 1)


def _column(name: str, dtype: pl.DataType, exact: bool, found: Mapping[str, object]) -> Column:
    """The column from the answers."""
    count = {key: value for key, value in found.items() if isinstance(value, int)}
    kind = kind_of(str(dtype))
    return Column(
        name=name,
        dtype=str(dtype),
        kind=kind,
        nulls_count=count["nulls"],
        distinct_count=max(count["distinct"] - (count["nulls"] > 0), 0),  # null is counted as a value
        distinct_exact=exact or kind == "bool",
        nan_count=count.get("nan", 0),
        infinite_count=count.get("infinite", 0),
        zeros_count=count.get("zeros", 0),
        least=_text(found.get("least")),
        greatest=_text(found.get("greatest")),
        mean=finite(found.get("mean")),
        deviation=finite(found.get("deviation")),
        skew=finite(found.get("skew")),
        shortest=count.get("shortest"),
        longest=count.get("longest"),
        mean_bytes=finite(found.get("bytes")),
    )


def duplicates(source: Source, rows: int) -> tuple[int, bool]:
    """How many rows repeat an earlier one, and whether that is exact.

    Rows are compared by 64 bits of hash. When there are too many to hold, only those of some hashes are counted:
    all copies of a row have the same hash, so that the count, times the part left out, is unbiased.
    """
    names = list(source.schema())
    if not names:
        return 0, True
    parts = max(1, math.ceil(rows / HASHED_ROWS))
    hashes = source.frame.select(pl.struct(names).hash(SEED).alias("hash")).filter(pl.col("hash") % parts == 0)
    found = source.collected(hashes.select(pl.len().alias("rows"), pl.col("hash").n_unique().alias("distinct")))
    seen, distinct = found.row(0)
    return round((seen - distinct) * parts), parts == 1


def sample(source: Source, rows: int, columns: Sequence[Column], limit: int) -> pl.DataFrame:
    """At most about `limit` rows, fewer where they are large, chosen by the hash of their number: always the same.

    Nested columns and bytes are left out: nothing more is told of them.
    """
    row_bytes = sum(column.mean_bytes or 8.0 for column in columns)
    limit = max(min(limit, int(SAMPLE_BYTES / max(row_bytes, 1.0))), min(limit, SAMPLE_LEAST))
    names = [column.name for column in columns if column.kind != "other"]
    if rows <= limit:
        return source.collected(source.frame.select(names))
    every = math.ceil(rows / limit)
    plan = source.frame.select(names).with_row_index(ROW).filter(pl.col(ROW).hash(SEED) % every == 0).drop(ROW)
    return source.collected(plan)


def equal_pairs(source: Source, columns: Sequence[Column], sampled: pl.DataFrame) -> tuple[tuple[str, str], ...]:
    """The columns that are equal in every row; only those that agree in all else are compared."""
    groups: dict[object, list[Column]] = {}
    for column in columns:
        looks = (
            column.kind, column.nulls_count, column.distinct_count, column.mean, column.least, column.greatest,
            column.shortest, column.longest, column.nan_count,
        )  # fmt: skip
        if column.distinct_count > 1 and column.kind != "other":
            groups.setdefault(looks, []).append(column)
    pairs = [
        (first.name, second.name)
        for group in groups.values()
        for index, first in enumerate(group)
        for second in group[index + 1 :]
        if first.dtype == second.dtype and sampled[first.name].equals(sampled[second.name])
    ]
    if not pairs:
        return ()
    plan = source.frame.select(
        pl.col(first).eq_missing(pl.col(second)).all().alias(str(index)) for index, (first, second) in enumerate(pairs)
    )
    same = source.collected(plan).row(0)
    return tuple(pair for pair, equal in zip(pairs, same, strict=True) if equal)
