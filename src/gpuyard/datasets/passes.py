"""Passes over a source on an engine; results of finished partitions are stored, to resume."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl

from gpuyard.datasets.data_pass import DataPass, PartitionTask, Result
from gpuyard.datasets.engines.data_engine import DataEngine
from gpuyard.datasets.execute import execute_frame, frame_after
from gpuyard.datasets.source.partitions import Partition
from gpuyard.datasets.step import Aggregate
from gpuyard.datasets.store import load_pass_result, save_result

# By part, one array per partition: the rows that it drops, or the values of its new columns.
RowArrays = dict[str, tuple[np.ndarray, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassProgress:
    """Progress of a pass."""

    name: str
    rows_done: int
    rows: int
    elapsed_s: float

    @property
    def rows_per_s(self) -> float:
        return self.rows_done / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Estimated time to the end of the pass; None before any row is done."""
        return (self.rows - self.rows_done) / self.rows_per_s if self.rows_done else None


class Passes(Protocol):
    """Runner of passes over all partitions."""

    @property
    def rows(self) -> int: ...

    def run(self, data_pass: DataPass, row_arrays: RowArrays) -> Sequence[Result]:
        """Return the results of all partitions, in order."""
        ...

    def allocate(self, key: str, shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, ...]:
        """Return a writable float64 array per partition, for new columns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPasses:
    """Passes over the partitions of a source, with their results stored in a folder."""

    partitions: tuple[Partition, ...]
    engine: DataEngine
    folder: Path
    on_progress: Callable[[PassProgress], None]
    names: list[str]

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)

    def run(self, data_pass: DataPass, row_arrays: RowArrays) -> Sequence[Result]:
        """Return the results of all partitions; those stored by an earlier run are reused."""
        self.names.append(data_pass.name)
        key = hashlib.sha256(repr(data_pass).encode()).hexdigest()[:12]
        folder = self.folder / f"{len(self.names):02d}-{data_pass.name}-{key}"
        files = {
            partition.number: folder / f"part-{partition.number:06d}.npz"
            for partition in self.partitions
        }
        results = {
            number: stored
            for number, path in files.items()
            if (stored := load_pass_result(path)) is not None
        }
        rows_done = sum(self.partitions[number].rows for number in results)
        begin = time.monotonic()

        def on_result(task: PartitionTask, result: Result) -> None:
            nonlocal rows_done
            path = files[task.partition.number]
            save_result(path, result)
            if result.marks:  # only on disk from here on
                result = load_pass_result(path) or result
            results[task.partition.number] = result
            rows_done += task.partition.rows
            self.on_progress(
                PassProgress(
                    name=data_pass.name,
                    rows_done=rows_done,
                    rows=self.rows,
                    elapsed_s=time.monotonic() - begin,
                )
            )

        tasks = [
            _task(partition, row_arrays)
            for partition in self.partitions
            if partition.number not in results
        ]
        if tasks:
            self.engine.run(data_pass, tasks, on_result)
        return [results[partition.number] for partition in self.partitions]

    def allocate(self, key: str, shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, ...]:
        """Return arrays that are memory mapped, so that they may exceed the memory."""
        folder = self.folder / f"columns-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(
            np.lib.format.open_memmap(folder / f"{number:06d}.npy", "w+", np.float64, shape)
            if all(shape)
            else np.empty(shape)
            for number, shape in enumerate(shapes)
        )


def _task(partition: Partition, row_arrays: RowArrays) -> PartitionTask:
    rows = tuple((key, parts[partition.number]) for key, parts in row_arrays.items())
    return PartitionTask(partition=partition, row_arrays=rows)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FramePasses:
    """Passes over one table in memory, for folds."""

    frame: pl.DataFrame

    @property
    def rows(self) -> int:
        return self.frame.height

    def run(self, data_pass: DataPass, row_arrays: RowArrays) -> Sequence[Result]:
        return [execute_frame(data_pass, self._task(row_arrays), self.frame)]

    def allocate(self, key: str, shapes: Sequence[tuple[int, int]]) -> tuple[np.ndarray, ...]:  # noqa: ARG002
        return tuple(np.empty(shape) for shape in shapes)

    def after(self, data_pass: DataPass, row_arrays: RowArrays) -> pl.DataFrame:
        return frame_after(data_pass, self._task(row_arrays), self.frame)

    def _task(self, row_arrays: RowArrays) -> PartitionTask:
        return _task(Partition(number=0, start=0, rows=self.frame.height, slices=()), row_arrays)


def merge_results(results: Sequence[Result]) -> tuple[Aggregate, ...]:
    """Return the statistics of all partitions, merged in their order."""
    if not results:
        return ()
    merged = list(results[0].aggregates)
    for result in results[1:]:
        pairs = zip(merged, result.aggregates, strict=True)
        merged = [first.merge(second) for first, second in pairs]
    return tuple(merged)
