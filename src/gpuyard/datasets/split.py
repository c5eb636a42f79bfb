"""Sharing out rows: at random, alike in every class, by group or by time; decided by hashes, so engines agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import Counts, CountsNeed, Quantiles, QuantilesNeed, as_text
from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.spec import SplitSpec
from gpuyard.datasets.step import ROW, Aggregate, Need

__all__ = ["SPLIT", "SPLITS", "SplitRule", "decided", "split_needs"]

SPLITS = ("train", "validation", "test")
SPLIT = "__split"  # the place in SPLITS
EXACT_ROWS = 2_000_000  # above this a share is right to a hundredth of a percent without a pass to count
_ALL = 2.0**64
GIVEN = "__given"  # a column that already says the split, for folds


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """Rows whose hash is below `test` are the test, below `validation` the validation; limits by class or for all.

    By time the limits are times, and the later side is the test.
    """

    by: Literal["none", "row", "class", "group", "time", "given"]
    column: str | None = None
    seed: int = 0
    classes: tuple[str, ...] = ()
    test: tuple[float, ...] = (0.0,)
    validation: tuple[float, ...] = (0.0,)

    @property
    def reads(self) -> tuple[str, ...]:
        """The column that decides."""
        return (self.column,) if self.column else ()

    def codes(self, frame: pl.DataFrame) -> np.ndarray:
        """The place of every row's split in SPLITS."""
        if self.by == "none":
            return np.zeros(frame.height, dtype=np.uint8)
        if self.by == "given":
            return frame[GIVEN].to_numpy()
        if self.by == "time":
            times = frame[str(self.column)].to_physical().cast(pl.Float64).fill_null(float("-inf")).to_numpy()
            late = (times > self.test[0]).astype(np.uint8) * np.uint8(2)
            return np.where(late, late, (times > self.validation[0]).astype(np.uint8))
        hashes, place = _hashes(self, frame), np.zeros(frame.height, dtype=np.intp)
        if self.by == "class":
            texts = frame[str(self.column)].cast(pl.String).fill_null("")
            found = texts.replace_strict(
                list(self.classes), list(range(len(self.classes))), default=0, return_dtype=pl.Int64
            )
            place = found.to_numpy()
        test, validation = np.array(self.test)[place], np.array(self.validation)[place]
        return np.where(hashes < test, 2, np.where(hashes < validation, 1, 0)).astype(np.uint8)


def _hashes(rule: SplitRule, frame: pl.DataFrame) -> np.ndarray:
    """A number below 2⁶⁴ for every row, or for every group."""
    if rule.by == "group":
        column = frame[str(rule.column)]
        codes = column.rank("dense").fill_null(0).to_numpy()
        found, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        del found
        return np.array([group_hash(as_text(column[int(row)]), rule.seed) for row in first])[inverse]
    return row_hash(frame[ROW].to_numpy(), rule.seed).astype(np.float64)


def group_hash(text: str, seed: int) -> float:
    """The hash of a group's name."""
    return float(int.from_bytes(blake2b(f"{seed}:{text}".encode(), digest_size=8).digest(), "big"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassHashes:
    """The hashes of rows, with the class of each."""

    classes: tuple[str, ...]
    codes: np.ndarray
    hashes: np.ndarray

    def merged(self, other: ClassHashes) -> ClassHashes:
        """Those of both."""
        classes = tuple(dict.fromkeys((*self.classes, *other.classes)))
        place = np.array([classes.index(name) for name in other.classes], dtype=np.int64)
        codes = np.concatenate([self.codes, place[other.codes] if len(other.codes) else other.codes])
        return ClassHashes(classes=classes, codes=codes, hashes=np.concatenate([self.hashes, other.hashes]))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHashesNeed:
    """Asks for the hashes of all rows, by class if a column is named."""

    column: str | None
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The class."""
        return (self.column,) if self.column else ()

    def collect(self, frame: pl.DataFrame) -> ClassHashes:
        """The hashes of a partition."""
        hashes = row_hash(frame[ROW].to_numpy(), self.seed).astype(np.float64)
        if self.column is None:
            return ClassHashes(classes=("",), codes=np.zeros(frame.height, dtype=np.int64), hashes=hashes)
        texts = frame[self.column].cast(pl.String).fill_null("")
        classes = texts.unique(maintain_order=True).to_list()
        codes = texts.replace_strict(classes, list(range(len(classes))), return_dtype=pl.Int64).to_numpy()
        return ClassHashes(classes=tuple(classes), codes=codes, hashes=hashes)


def split_needs(spec: SplitSpec, label: str | None, rows: int) -> tuple[Need, ...]:
    """What has to be known of all rows to share them out; nothing for a large table, where hashes are even."""
    if not spec.test_ratio and not spec.validation_ratio:
        return ()
    if spec.time is not None:
        return (QuantilesNeed(column=spec.time),)
    if rows > EXACT_ROWS:
        return ()
    if spec.group is not None:
        return (CountsNeed(column=spec.group),)
    return (ClassHashesNeed(column=label if spec.stratify else None, seed=spec.seed),)


def decided(spec: SplitSpec, label: str | None, found: Sequence[Aggregate]) -> SplitRule:
    """The rule, from what was found."""
    test, both = spec.test_ratio, spec.test_ratio + spec.validation_ratio
    if not both:
        return SplitRule(by="none")
    if not found:
        by: Literal["group", "row"] = "group" if spec.group is not None else "row"
        return SplitRule(by=by, column=spec.group, seed=spec.seed, test=(test * _ALL,), validation=(both * _ALL,))
    first = found[0]
    if isinstance(first, Quantiles):
        return SplitRule(by="time", column=spec.time, test=(first.at(1 - test),), validation=(first.at(1 - both),))
    if isinstance(first, Counts):
        return _by_group(spec, first)
    assert isinstance(first, ClassHashes)
    limits = [_limits(np.sort(first.hashes[first.codes == code]), test, both) for code in range(len(first.classes))]
    return SplitRule(
        by="class" if spec.stratify else "row", column=label if spec.stratify else None, seed=spec.seed,
        classes=first.classes, test=tuple(low for low, _ in limits), validation=tuple(high for _, high in limits),
    )  # fmt: skip


def _limits(hashes: np.ndarray, test: float, both: float) -> tuple[float, float]:
    """Hashes below which exactly the wanted numbers of rows lie."""
    places = [round(len(hashes) * ratio) for ratio in (test, both)]
    low, high = (float(hashes[place]) if place < len(hashes) else _ALL for place in places)
    return low, high


def _by_group(spec: SplitSpec, counts: Counts) -> SplitRule:
    """Groups in the order of their hashes, the first of them until they have rows enough."""
    groups = sorted(
        (group_hash(name, spec.seed), rows) for name, rows in zip(counts.values, counts.counts, strict=True)
    )
    total = sum(rows for _, rows in groups)
    limits = []
    for ratio in (spec.test_ratio, spec.test_ratio + spec.validation_ratio):
        so_far, limit = 0, groups[0][0] if groups else 0.0
        for mark, rows in groups:
            limit = mark
            if so_far >= ratio * total:
                break
            so_far += rows
        limits.append(limit)
    return SplitRule(by="group", column=spec.group, seed=spec.seed, test=(limits[0],), validation=(limits[1],))
