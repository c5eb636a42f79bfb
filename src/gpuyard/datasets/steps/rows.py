"""Steps that drop rows: with nulls, by a condition, duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
import polars as pl

from gpuyard.datasets.columns import ALL_KINDS, ColumnNames, Columns, Kind
from gpuyard.datasets.step import ColumnStep, StatelessStep, Statistics, StepSettings
from gpuyard.document.field_types import Doc
from gpuyard.errors import InputError

_SEEDS = (0x5EED, 0xC0FFEE)  # of the two halves of a 128-bit hash
_KEY_BYTES = 24  # memory per row while a bucket of keys is sorted


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNulls(ColumnStep, StatelessStep):
    """Drop rows in which one of the columns is null."""

    KINDS: ClassVar[tuple[Kind, ...]] = ALL_KINDS
    columns: ColumnNames = ("*",)
    quarantine: Annotated[bool, Doc("quarantine the rows, with the reason")] = False

    @property
    def quarantined(self) -> bool:
        return self.quarantine

    def keep(self) -> pl.Expr:
        return pl.all_horizontal(
            [pl.col(name).is_not_null() for name in self.columns] or [pl.lit(True)]
        )

    def reason(self) -> str:
        return f"null in {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infinite(StatelessStep):
    """Quarantine rows in which one of the columns is infinite or NaN; `read.infinite` adds it."""

    columns: tuple[str, ...]

    def bind(self, columns: Columns, where: str) -> Self:  # noqa: ARG002
        """Return the step itself: its columns are exact names."""
        return self

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    @property
    def quarantined(self) -> bool:
        return True

    def keep(self) -> pl.Expr:
        return pl.all_horizontal(
            [pl.col(name).is_finite().fill_null(True) for name in self.columns]
        )

    def reason(self) -> str:
        return "infinite, or not a number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(StatelessStep):
    """Keep the rows for which a condition holds; null counts as false."""

    where: Annotated[str, Doc("an SQL condition: age >= 18 and country <> 'x'")]
    quarantine: Annotated[bool, Doc("quarantine the other rows, with the reason")] = False

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError if the condition is invalid or has unknown columns."""
        columns.select(self._columns(where), ALL_KINDS, where)
        return self

    def _columns(self, where: str) -> tuple[str, ...]:
        try:
            return tuple(dict.fromkeys(pl.sql_expr(self.where).meta.root_names()))
        except pl.exceptions.PolarsError as error:
            what = f'"{self.where}" is not a condition: {str(error).splitlines()[0]}'
            raise InputError.one(
                where, what, "write an SQL condition: age >= 18 and country <> 'x'"
            ) from None

    @property
    def reads(self) -> tuple[str, ...]:
        return self._columns("filter")

    @property
    def quarantined(self) -> bool:
        return self.quarantine

    def keep(self) -> pl.Expr:
        return pl.sql_expr(self.where).fill_null(False)

    def reason(self) -> str:
        return f"not {self.where}"


Marks = Sequence[tuple[np.ndarray, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate(StepSettings):
    """Keep the first of rows with equal keys (all columns if none is named).

    Only the keys are read. A single integer column is compared as it is; other keys by 128 bits of
    hash, which collide among n rows with probability n² / 2¹²⁹.
    """

    columns: Annotated[tuple[str, ...], Doc("the key; none: all columns")] = ()

    def bind(self, columns: Columns, where: str) -> Self:
        """Return the step; raise InputError for unknown columns."""
        columns.select(self.columns, ALL_KINDS, where)
        return self

    def fit_state(self, statistics: Statistics, columns: Columns) -> tuple[Deduplicate, ...]:  # noqa: ARG002
        """Return the step with the names of all columns, if none was named."""
        return (self if self.columns else replace(self, columns=columns.names),)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """Return the keys of a partition: one array of integers, or two of hashes."""
        keys = frame.select(self.columns)
        first = keys.to_series(0)
        if keys.width > 1 or not first.dtype.is_integer():
            return tuple(keys.hash_rows(seed=seed).to_numpy() for seed in _SEEDS)
        if not first.null_count():
            return (first.to_numpy(),)
        # nulls are equal to each other: a second array distinguishes them from zeros
        return first.fill_null(0).to_numpy(), first.is_null().to_numpy().astype(np.uint64)

    def rows_to_drop(self, marks: Marks, memory_bytes: float) -> tuple[np.ndarray, ...]:
        """Return all rows but the first of each key, in buckets that fit in memory."""
        rows = sum(len(mark[0]) for mark in marks)
        if (dense := _dense_duplicates(marks, rows, memory_bytes)) is not None:
            return dense
        buckets = max(1, int(np.ceil(rows * _KEY_BYTES / max(memory_bytes, 1.0))))
        duplicates: list[list[np.ndarray]] = [[] for _ in marks]
        for bucket in range(buckets):
            for number, positions in _bucket_duplicates(marks, bucket, buckets):
                duplicates[number].append(positions)
        return tuple(
            np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64)
            for parts in duplicates
        )


# Integer keys in a small range: one bit per possible key. A set bit means that the key was seen,
# so the positions noted are exactly the later rows, in one pass and in order.
def _dense_duplicates(
    marks: Marks, rows: int, memory_bytes: float
) -> tuple[np.ndarray, ...] | None:
    if any(len(mark) > 1 for mark in marks) or not rows:
        return None
    arrays = [mark[0] for mark in marks if len(mark[0])]
    low = min(int(array.min()) for array in arrays)
    high = max(int(array.max()) for array in arrays)
    if high >= 2**63 or high - low >= min(64.0 * rows, 8.0 * memory_bytes):
        return None
    from gpuyard.datasets.steps.rows_kernel import seen_before  # imports Numba

    seen = np.zeros((high - low) // 8 + 1, dtype=np.uint8)
    duplicates = []
    for mark in marks:
        out = np.empty(len(mark[0]), dtype=np.int64)
        duplicates.append(out[: seen_before(mark[0], low, seen, out)].copy())
    return tuple(duplicates)


# Other keys, one bucket at a time: sort the first 64 bits to find values that occur twice, then
# compare only the rows that have one of these, by both halves.
def _bucket_duplicates(marks: Marks, bucket: int, buckets: int) -> list[tuple[int, np.ndarray]]:
    keys = np.concatenate([mark[0][_in_bucket(mark[0], bucket, buckets)] for mark in marks])
    keys.sort()
    repeated = np.unique(keys[1:][keys[1:] == keys[:-1]])
    del keys
    if not len(repeated):
        return []
    candidates = []
    for number, mark in enumerate(marks):
        chosen = _in_bucket(mark[0], bucket, buckets)
        part = mark[0][chosen]
        at = np.searchsorted(repeated, part)
        at[at == len(repeated)] = 0
        rows = np.flatnonzero(repeated[at] == part)
        rows = rows if isinstance(chosen, slice) else chosen[rows]
        second = mark[1][rows] if len(mark) > 1 else np.zeros(len(rows), np.uint64)
        columns = {"part": np.full(len(rows), number), "row": rows, "a": mark[0][rows], "b": second}
        candidates.append(pl.DataFrame(columns))
    later = pl.concat(candidates).filter(pl.struct("a", "b").is_first_distinct().not_())
    return [
        (int(str(number)), rows["row"].to_numpy()) for (number,), rows in later.group_by("part")
    ]


def _in_bucket(keys: np.ndarray, bucket: int, buckets: int) -> np.ndarray | slice:
    if buckets == 1:
        return slice(None)
    return np.flatnonzero(keys % keys.dtype.type(buckets) == bucket)
