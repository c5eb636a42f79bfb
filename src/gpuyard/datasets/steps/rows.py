"""Steps that take away rows: nulls, a condition, duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
import polars as pl

from gpuyard.compiled import compiled
from gpuyard.datasets.columns import Columns, Kind
from gpuyard.datasets.step import Found, Need, Unlearned
from gpuyard.document import Doc
from gpuyard.errors import InputError

__all__ = ["Deduplicate", "DropNulls", "Filter", "Infinite"]

_ANY: tuple[Kind, ...] = ("number", "bool", "text", "time", "other")
_SEEDS = (0x5EED, 0xC0FFEE)  # of the two halves of a 128-bit hash


@dataclass(frozen=True, slots=True, kw_only=True)
class DropNulls(Unlearned):
    """Takes away rows in which one of the columns is null."""

    columns: Annotated[tuple[str, ...], Doc("names or patterns; `-name` leaves one out")] = ("*",)
    quarantine: Annotated[bool, Doc("keep the rows apart, with the reason")] = False

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        return replace(self, columns=columns.chosen(self.columns, _ANY, where))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def quarantined(self) -> bool:
        """As the file says."""
        return self.quarantine

    def keep(self) -> pl.Expr:
        """None of them is null."""
        return pl.all_horizontal([pl.col(name).is_not_null() for name in self.columns] or [pl.lit(True)])

    def reason(self) -> str:
        """The columns."""
        return f"null in {', '.join(self.columns)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infinite(Unlearned):
    """Puts apart rows in which one of the columns is infinite or not a number."""

    columns: tuple[str, ...]

    def bound(self, columns: Columns, where: str) -> Self:  # noqa: ARG002
        """Itself: it stands in no file."""
        return self

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns

    @property
    def quarantined(self) -> bool:
        """Always."""
        return True

    def keep(self) -> pl.Expr:
        """All are finite or null."""
        return pl.all_horizontal([pl.col(name).is_finite().fill_null(True) for name in self.columns])

    def reason(self) -> str:
        """What is wrong."""
        return "infinite, or not a number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(Unlearned):
    """Keeps the rows for which a condition holds; one that is null counts as false."""

    where: Annotated[str, Doc("a condition as SQL writes it: age >= 18 and country <> 'x'")]
    quarantine: Annotated[bool, Doc("keep the other rows apart, with the reason")] = False

    def bound(self, columns: Columns, where: str) -> Self:
        """The condition must parse and name columns that are there."""
        columns.chosen(self.reads_at(where), _ANY, where)
        return self

    def reads_at(self, where: str) -> tuple[str, ...]:
        """The columns that it names; InputError if it does not parse."""
        try:
            return tuple(dict.fromkeys(pl.sql_expr(self.where).meta.root_names()))
        except pl.exceptions.PolarsError as error:
            what = f'"{self.where}" is not a condition: {str(error).splitlines()[0]}'
            raise InputError.one(where, what, "write it as SQL does: age >= 18 and country <> 'x'") from None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns that it names."""
        return self.reads_at("filter")

    @property
    def quarantined(self) -> bool:
        """As the file says."""
        return self.quarantine

    def keep(self) -> pl.Expr:
        """The condition."""
        return pl.sql_expr(self.where).fill_null(False)

    def reason(self) -> str:
        """The condition."""
        return f"not {self.where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplicate:
    """Keeps the first of the rows that are alike in the columns (all of them if none is named).

    Only the keys are read to find them. A single column of whole numbers is compared as it is; other keys by
    128 bits of hash, which take n rows for each other with probability n² / 2¹²⁹.
    """

    columns: Annotated[tuple[str, ...], Doc("the key; none: whole rows")] = ()

    def bound(self, columns: Columns, where: str) -> Self:
        """With its columns spelt out."""
        columns.chosen(self.columns, _ANY, where)
        return self

    def needs(self, columns: Columns) -> tuple[Need, ...]:  # noqa: ARG002
        """Nothing."""
        return ()

    def fitted(self, found: Found, columns: Columns) -> tuple[Self, ...]:  # noqa: ARG002
        """With the names of all columns, if none was named."""
        return (self if self.columns else replace(self, columns=columns.names),)

    @property
    def reads(self) -> tuple[str, ...]:
        """The key."""
        return self.columns

    def mark(self, frame: pl.DataFrame) -> tuple[np.ndarray, ...]:
        """The keys of a partition: one array of whole numbers, or two of hashes."""
        keys = frame.select(self.columns)
        only = keys.to_series(0)
        if keys.width == 1 and only.dtype.is_integer() and not only.null_count():
            return (only.to_numpy(),)
        if only.dtype.is_integer() and keys.width == 1:  # nulls are alike: a second array says which
            return only.fill_null(0).to_numpy(), only.is_null().to_numpy().astype(np.uint64)
        return tuple(keys.hash_rows(seed=seed).to_numpy() for seed in _SEEDS)

    def doomed(self, marks: Sequence[tuple[np.ndarray, ...]], memory_bytes: float) -> tuple[np.ndarray, ...]:
        """All rows but the first of each key, found bucket by bucket so that the keys need not fit in memory."""
        rows = sum(len(mark[0]) for mark in marks)
        if (dense := _doom_dense(marks, rows, memory_bytes)) is not None:
            return dense
        buckets = max(1, int(np.ceil(rows * 24 / max(memory_bytes, 1.0))))
        doomed: list[list[np.ndarray]] = [[] for _ in marks]
        for bucket in range(buckets):
            _doom_bucket(marks, bucket, buckets, doomed)
        return tuple(np.sort(np.concatenate(parts)) if parts else np.empty(0, np.int64) for parts in doomed)


@compiled
def _again(keys: np.ndarray, least: int, seen: np.ndarray, out: np.ndarray) -> int:
    """Notes the places of keys that were seen before, and all keys as seen; gives how many there are."""
    count = 0
    for place in range(len(keys)):
        at = np.uint64(np.int64(keys[place]) - np.int64(least))
        bit = np.uint8(1 << (at & np.uint64(7)))
        if seen[at >> np.uint64(3)] & bit:
            out[count] = place
            count += 1
        else:
            seen[at >> np.uint64(3)] |= bit
    return count


def _doom_dense(
    marks: Sequence[tuple[np.ndarray, ...]], rows: int, memory_bytes: float
) -> tuple[np.ndarray, ...] | None:
    """The same by one bit for every number from the least key to the greatest; None where keys are too far apart."""
    if any(len(mark) > 1 for mark in marks) or not rows:
        return None
    full = [mark[0] for mark in marks if len(mark[0])]
    least, greatest = min(int(mark.min()) for mark in full), max(int(mark.max()) for mark in full)
    if greatest >= 2**63 or greatest - least >= min(64.0 * rows, 8.0 * memory_bytes):
        return None
    seen = np.zeros((greatest - least) // 8 + 1, dtype=np.uint8)
    doomed = []
    for mark in marks:
        out = np.empty(len(mark[0]), dtype=np.int64)
        doomed.append(out[: _again(mark[0], least, seen, out)].copy())
    return tuple(doomed)


def _bucket(mark: np.ndarray, bucket: int, buckets: int) -> np.ndarray | slice:
    """The rows of a partition whose key falls into the bucket."""
    return slice(None) if buckets == 1 else np.flatnonzero(mark % mark.dtype.type(buckets) == bucket)


def _doom_bucket(
    marks: Sequence[tuple[np.ndarray, ...]], bucket: int, buckets: int, doomed: list[list[np.ndarray]]
) -> None:
    """Notes the later rows of every key of one bucket."""
    keys = np.concatenate([mark[0][_bucket(mark[0], bucket, buckets)] for mark in marks])
    keys.sort()
    twice = np.unique(keys[1:][keys[1:] == keys[:-1]])
    del keys
    if not len(twice):
        return
    found = []
    for number, mark in enumerate(marks):
        chosen = _bucket(mark[0], bucket, buckets)
        part = mark[0][chosen]
        at = np.searchsorted(twice, part)
        at[at == len(twice)] = 0
        rows = np.flatnonzero(twice[at] == part)
        rows = rows if isinstance(chosen, slice) else chosen[rows]
        second = mark[1][rows] if len(mark) > 1 else np.zeros(len(rows), np.uint64)
        found.append(pl.DataFrame({"part": np.full(len(rows), number), "row": rows, "a": mark[0][rows], "b": second}))
    later = pl.concat(found).filter(pl.struct("a", "b").is_first_distinct().not_())
    for (number,), part_rows in later.group_by("part"):
        doomed[int(str(number))].append(part_rows["row"].to_numpy())
