"""Train/test splits for evaluation: folds of prepared data, or of arrays in memory."""

from __future__ import annotations

import typing
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gpuyard.learn.trainer import LearningData, TabularData

CACHE_BYTES = 512 * 1024 * 1024
_cache: dict[tuple[str, int], TrainTestSplit] = {}  # per process: a search reuses its splits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainTestSplit:
    """Training rows and test rows; `columns` are those that test rows are sliced by."""

    train: LearningData
    test: LearningData
    validation: LearningData | None = None  # declared by the data, for early stopping
    rows: npt.NDArray[np.intp] | None = None  # test row indices in the data
    columns: tuple[tuple[str, npt.NDArray[typing.Any]], ...] = ()


class EvaluationSplits(typing.Protocol):
    """The splits of one dataset; picklable, and cut in the process that uses them."""

    @property
    def key(self) -> str:
        """Identifies the splits, in every process."""
        ...

    @property
    def count(self) -> int: ...

    @property
    def prepared(self) -> Path | None:
        """Folder of the prepared data; None for rows in memory."""
        ...

    def part(self, number: int) -> TrainTestSplit:
        """Return split `number`, from 0; its transform was fitted on the training rows only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ArraySplits:
    """Splits of a table in memory, by row indices."""

    table: TabularData
    cuts: tuple[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]], ...]
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    prepared: None = None

    @property
    def count(self) -> int:
        return len(self.cuts)

    def part(self, number: int) -> TrainTestSplit:
        train, test = self.cuts[number]
        return TrainTestSplit(train=self.table.take(train), test=self.table.take(test), rows=test)


def cached_split(splits: EvaluationSplits, number: int) -> TrainTestSplit:
    """Return a split, from the cache if possible."""
    split = _cache.get((splits.key, number))
    if split is None:
        split = splits.part(number)
        cache_split(splits, number, split)
    return split


def cache_split(splits: EvaluationSplits, number: int, split: TrainTestSplit) -> None:
    """Cache a split; only splits of one dataset, and only while they are small."""
    for key in [key for key in _cache if key[0] != splits.key]:
        del _cache[key]
    if sum(_size_bytes(cached) for cached in (*_cache.values(), split)) <= CACHE_BYTES:
        _cache[splits.key, number] = split


def _size_bytes(split: TrainTestSplit) -> int:
    # Token data stays in its files.
    return sum(data.x.nbytes for data in (split.train, split.test) if isinstance(data, TabularData))
