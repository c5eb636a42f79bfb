"""Running passes over a source on an engine: finished partitions are kept, progress is told."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from gpuyard.datasets.engines.engine import Engine
from gpuyard.datasets.execute import execute_frame, frame_after
from gpuyard.datasets.job import Job, Result, Work
from gpuyard.datasets.source.parts import Partition
from gpuyard.datasets.step import Aggregate
from gpuyard.datasets.store import load_result, save_result

__all__ = ["Doomed", "FramePasses", "Passes", "Progress", "StoredPasses", "merged"]

Doomed = dict[str, tuple[np.ndarray, ...]]  # by marker: the rows to drop in every partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a pass is."""

    name: str
    rows_done: int
    rows: int
    elapsed_s: float

    @property
    def rows_per_s(self) -> float:
        """Rows that are done in a second."""
        return self.rows_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Time to the end of the pass; None before it can be told."""
        return (self.rows - self.rows_done) / self.rows_per_s if self.rows_done else None


class Passes(Protocol):
    """Something that runs a pass over all partitions."""

    @property
    def rows(self) -> int:
        """Rows of the source."""
        ...

    def run(self, job: Job, doomed: Doomed) -> Sequence[Result]:
        """The results of all partitions, in order."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPasses:
    """Passes over the partitions of a source, their results kept in a folder."""

    partitions: tuple[Partition, ...]
    engine: Engine
    folder: Path
    tell: Callable[[Progress], None]
    names: list[str]

    @property
    def rows(self) -> int:
        """Rows of the source."""
        return sum(partition.rows for partition in self.partitions)

    def run(self, job: Job, doomed: Doomed) -> Sequence[Result]:
        """The results of all partitions, those of an earlier run as they were."""
        self.names.append(job.name)
        mark = hashlib.sha256(repr(job).encode()).hexdigest()[:12]
        folder = self.folder / f"{len(self.names):02d}-{job.name}-{mark}"
        files = {partition.number: folder / f"part-{partition.number:06d}.npz" for partition in self.partitions}
        results = {number: found for number, path in files.items() if (found := load_result(path)) is not None}
        begin, known = time.monotonic(), sum(self.partitions[number].rows for number in results)
        done_rows = known

        def done(work: Work, result: Result) -> None:
            """Keeps a result."""
            nonlocal done_rows
            path = files[work.partition.number]
            save_result(path, result)
            if result.marks:  # kept on disk only
                result = load_result(path) or result
            results[work.partition.number] = result
            done_rows += work.partition.rows
            elapsed_s = time.monotonic() - begin
            self.tell(Progress(name=job.name, rows_done=done_rows, rows=self.rows, elapsed_s=elapsed_s))

        todo = [_work(partition, doomed) for partition in self.partitions if partition.number not in results]
        if todo:
            self.engine.run(job, todo, done)
        return [results[partition.number] for partition in self.partitions]


def _work(partition: Partition, doomed: Doomed) -> Work:
    """A partition with its own doomed rows."""
    rows = tuple((key, parts[partition.number]) for key, parts in doomed.items())
    return Work(partition=partition, doomed=rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FramePasses:
    """Passes over one table in memory, for folds."""

    frame: pl.DataFrame

    @property
    def rows(self) -> int:
        """Its rows."""
        return self.frame.height

    def run(self, job: Job, doomed: Doomed) -> Sequence[Result]:
        """The result of the table."""
        return [execute_frame(job, self._whole(doomed), self.frame)]

    def after(self, job: Job, doomed: Doomed) -> pl.DataFrame:
        """The table after the actions of a pass."""
        return frame_after(job, self._whole(doomed), self.frame)

    def _whole(self, doomed: Doomed) -> Work:
        """The table as one partition."""
        return _work(Partition(number=0, start=0, rows=self.frame.height, slices=()), doomed)


def merged(results: Sequence[Result]) -> tuple[Aggregate, ...]:
    """The statistics of all partitions, merged in their order."""
    if not results:
        return ()
    found = list(results[0].aggregates)
    for result in results[1:]:
        found = [one.merged(other) for one, other in zip(found, result.aggregates, strict=True)]
    return tuple(found)
