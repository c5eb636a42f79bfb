"""One pass over the partitions as a value that any engine runs: columns, actions and results."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.source.partitions import Partition
from gpuyard.datasets.spec import OutputSpec
from gpuyard.datasets.split import SplitRule
from gpuyard.datasets.step import (
    Aggregate,
    Fitted,
    FittedStep,
    Marker,
    RowFilter,
    SeriesPart,
    ShardWriter,
    StatRequest,
    written_columns,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Run a fitted part, and drop the columns that end with it."""

    step: int
    part: Fitted
    key: str = ""  # of a part that has arrays in PartitionTask.row_arrays
    drops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Assign every row its split, and training rows their fold."""

    rule: SplitRule
    folds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """Gather statistics of the training rows, or of all rows, at this point."""

    requests: tuple[StatRequest, ...]
    every_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Store the marks of the rows at this point."""

    part: Marker | SeriesPart


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRows:
    """Write the training rows at this point, for folds."""

    folder: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Write the final rows, one shard per split."""

    folder: str
    columns: tuple[str, ...]
    floats: tuple[str, ...]  # rounded to the precision of features
    output: OutputSpec
    writer: ShardWriter | None = None


Action = Apply | Assign | Gather | Mark | SaveRows | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPass:
    """Pass over all partitions."""

    name: str
    file_format: str
    columns: tuple[str, ...]  # to read
    floats: tuple[str, ...]  # of those: columns in which infinities become null
    actions: tuple[Action, ...]
    quarantine: str = ""  # a folder; empty: quarantined rows are only counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartitionTask:
    """One partition of a pass, with the rows to drop and the columns to add in it."""

    partition: Partition
    row_arrays: tuple[tuple[str, np.ndarray], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """Result of one partition."""

    counts: tuple[tuple[int, int, int], ...] = ()  # step, dropped, quarantined
    aggregates: tuple[Aggregate, ...] = ()
    marks: tuple[np.ndarray, ...] = ()
    shards: tuple[tuple[str, Shard], ...] = ()  # by split


def pruned_pass(
    name: str,
    file_format: str,
    actions: tuple[Action, ...],
    floats: frozenset[str],
    quarantine: str = "",
) -> DataPass:
    """Return the pass with only the parts and columns that its result depends on."""
    needed: set[str] = set()
    remaining: list[Action] = []
    for action in reversed(actions):
        if isinstance(action, Apply) and isinstance(action.part, FittedStep):
            assert not isinstance(action.part, RowFilter), "a part changes columns or drops rows"
            writes = written_columns(action.part)
            if not writes & needed:
                continue  # nothing after it reads its columns
            computed = isinstance(action.part, SeriesPart)  # before this pass
            needed = (needed - writes) | (set() if computed else set(action.part.reads))
        else:
            needed |= _reads(action)
        remaining.append(action)
    return DataPass(
        name=name,
        file_format=file_format,
        columns=tuple(sorted(column for column in needed if not column.startswith("__"))),
        floats=tuple(sorted(floats & needed)),
        actions=tuple(reversed(remaining)),
        quarantine=quarantine,
    )


def _reads(action: Action) -> set[str]:
    if isinstance(action, Apply):
        return set(action.part.reads) if isinstance(action.part, RowFilter) else set()
    if isinstance(action, Assign):
        return set(action.rule.reads)
    if isinstance(action, Gather):
        return {column for request in action.requests for column in request.columns}
    if isinstance(action, Mark):
        return set(action.part.reads)
    return set(action.columns)
