"""Row splits: random, stratified, by group or by time; decided by hashes on every engine alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import numpy as np
import polars as pl

from gpuyard.datasets.aggregates import (
    Counts,
    CountsRequest,
    QuantileSketch,
    QuantilesRequest,
    as_text,
)
from gpuyard.datasets.hashing import row_hash
from gpuyard.datasets.spec import SplitSpec
from gpuyard.datasets.step import ROW, Aggregate, StatRequest

SPLITS = ("train", "validation", "test")
SPLIT = "__split"  # index in SPLITS
GIVEN = "__given"  # a column that already holds the split, for folds
EXACT_ROWS = 2_000_000  # above, hashes give a fraction to 0.01 % without a pass to count
_ALL = 2.0**64


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """Limits of row hashes: below `test` is test, below `validation` is validation.

    There is one limit per class, or one for all. By time the limits are times, and later rows are
    the test.
    """

    by: Literal["none", "row", "class", "group", "time", "given"]
    column: str | None = None
    seed: int = 0
    classes: tuple[str, ...] = ()
    test: tuple[float, ...] = (0.0,)
    validation: tuple[float, ...] = (0.0,)

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,) if self.column else ()

    def codes(self, frame: pl.DataFrame) -> np.ndarray:
        """Return the index in SPLITS of every row's split."""
        if self.by == "none":
            return np.zeros(frame.height, dtype=np.uint8)
        if self.by == "given":
            return frame[GIVEN].to_numpy()
        if self.by == "time":
            numbers = frame[str(self.column)].to_physical().cast(pl.Float64)
            times = numbers.fill_null(float("-inf")).to_numpy()
            codes = np.where(times > self.validation[0], 1, 0)
            return np.where(times > self.test[0], 2, codes).astype(np.uint8)
        hashes = _hashes(self, frame)
        classes = np.zeros(frame.height, dtype=np.intp)
        if self.by == "class":
            texts = frame[str(self.column)].cast(pl.String).fill_null("")
            indices = list(range(len(self.classes)))
            classes = texts.replace_strict(
                list(self.classes), indices, default=0, return_dtype=pl.Int64
            ).to_numpy()
        test, validation = np.array(self.test)[classes], np.array(self.validation)[classes]
        return np.where(hashes < test, 2, np.where(hashes < validation, 1, 0)).astype(np.uint8)


def _hashes(rule: SplitRule, frame: pl.DataFrame) -> np.ndarray:
    """Return a number below 2⁶⁴ for every row, equal within a group."""
    if rule.by == "group":
        column = frame[str(rule.column)]
        codes = column.rank("dense").fill_null(0).to_numpy()
        _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
        groups = np.array([group_hash(as_text(column[int(row)]), rule.seed) for row in first])
        return groups[inverse]
    return row_hash(frame[ROW].to_numpy(), rule.seed).astype(np.float64)


def group_hash(text: str, seed: int) -> float:
    """Return the hash of a group's name."""
    return float(int.from_bytes(blake2b(f"{seed}:{text}".encode(), digest_size=8).digest(), "big"))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassHashes:
    """Hashes of rows, with the class of each."""

    classes: tuple[str, ...]
    codes: np.ndarray
    hashes: np.ndarray

    def merge(self, other: ClassHashes) -> ClassHashes:
        classes = tuple(dict.fromkeys((*self.classes, *other.classes)))
        index = np.array([classes.index(name) for name in other.classes], dtype=np.int64)
        codes = index[other.codes] if len(other.codes) else other.codes
        return ClassHashes(
            classes=classes,
            codes=np.concatenate([self.codes, codes]),
            hashes=np.concatenate([self.hashes, other.hashes]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassHashesRequest:
    """Request for the hashes of all rows, by class if a column is named."""

    column: str | None
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,) if self.column else ()

    def collect(self, frame: pl.DataFrame) -> ClassHashes:
        hashes = row_hash(frame[ROW].to_numpy(), self.seed).astype(np.float64)
        if self.column is None:
            codes = np.zeros(frame.height, dtype=np.int64)
            return ClassHashes(classes=("",), codes=codes, hashes=hashes)
        texts = frame[self.column].cast(pl.String).fill_null("")
        classes = texts.unique(maintain_order=True).to_list()
        indices = list(range(len(classes)))
        codes = texts.replace_strict(classes, indices, return_dtype=pl.Int64).to_numpy()
        return ClassHashes(classes=tuple(classes), codes=codes, hashes=hashes)


def split_requests(spec: SplitSpec, label: str | None, rows: int) -> tuple[StatRequest, ...]:
    """Return the statistics of all rows that the split needs; none for a large table."""
    if not spec.test_ratio and not spec.validation_ratio:
        return ()
    if spec.time is not None:
        return (QuantilesRequest(column=spec.time),)
    if rows > EXACT_ROWS:
        return ()
    if spec.group is not None:
        return (CountsRequest(column=spec.group),)
    return (ClassHashesRequest(column=label if spec.stratify else None, seed=spec.seed),)


def split_rule(spec: SplitSpec, label: str | None, statistics: Sequence[Aggregate]) -> SplitRule:
    """Return the rule from the requested statistics."""
    test, both = spec.test_ratio, spec.test_ratio + spec.validation_ratio
    if not both:
        return SplitRule(by="none")
    if not statistics:
        return SplitRule(
            by="group" if spec.group is not None else "row",
            column=spec.group,
            seed=spec.seed,
            test=(test * _ALL,),
            validation=(both * _ALL,),
        )
    first = statistics[0]
    if isinstance(first, QuantileSketch):
        return SplitRule(
            by="time",
            column=spec.time,
            test=(first.at(1 - test),),
            validation=(first.at(1 - both),),
        )
    if isinstance(first, Counts):
        return _group_rule(spec, first)
    assert isinstance(first, ClassHashes)
    limits = [
        _limits(np.sort(first.hashes[first.codes == code]), test, both)
        for code in range(len(first.classes))
    ]
    return SplitRule(
        by="class" if spec.stratify else "row",
        column=label if spec.stratify else None,
        seed=spec.seed,
        classes=first.classes,
        test=tuple(low for low, _ in limits),
        validation=tuple(high for _, high in limits),
    )


def _limits(hashes: np.ndarray, test: float, both: float) -> tuple[float, float]:
    """Return the limits below which there are exactly the required numbers of sorted hashes."""
    places = [round(len(hashes) * ratio) for ratio in (test, both)]
    low, high = (float(hashes[place]) if place < len(hashes) else _ALL for place in places)
    return low, high


def _group_rule(spec: SplitSpec, counts: Counts) -> SplitRule:
    """Return limits in the order of the group hashes, at the first groups with enough rows."""
    groups = sorted(
        (group_hash(name, spec.seed), rows)
        for name, rows in zip(counts.values, counts.counts, strict=True)
    )
    total = sum(rows for _, rows in groups)
    limits = []
    for ratio in (spec.test_ratio, spec.test_ratio + spec.validation_ratio):
        rows_below, limit = 0, 0.0
        for group, rows in groups:
            limit = group
            if rows_below >= ratio * total:
                break
            rows_below += rows
        limits.append(limit)
    return SplitRule(
        by="group", column=spec.group, seed=spec.seed, test=(limits[0],), validation=(limits[1],)
    )
