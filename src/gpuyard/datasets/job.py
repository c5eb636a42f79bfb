"""One pass over the partitions, as a value that any engine can run: what to read, what to do, what to bring back."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpuyard.datasets.manifest import Shard
from gpuyard.datasets.source.parts import Partition
from gpuyard.datasets.spec import OutputSpec
from gpuyard.datasets.split import SplitRule
from gpuyard.datasets.step import Aggregate, Fitted, FittedStep, Marker, Need, Removal, Writer, written

__all__ = ["Action", "Apply", "Assign", "Gather", "Job", "Keep", "Mark", "Result", "Work", "Write", "pruned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """A fitted part of a step, and the columns that go with it."""

    step: int
    part: Fitted
    key: str = ""  # of a marker: under this name a partition's doomed rows are given
    drops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """Every row gets its split, and training rows their fold."""

    rule: SplitRule
    folds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """Statistics of the training rows, or of all of them, at this point."""

    needs: tuple[Need, ...]
    every_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The marks of the rows at this point."""

    part: Marker


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """The rows at this point are written, for folds."""

    folder: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The rows at the end are written, a shard for every split."""

    folder: str
    columns: tuple[str, ...]
    floats: tuple[str, ...]  # these are rounded to the precision of features
    output: OutputSpec
    writer: Writer | None = None


Action = Apply | Assign | Gather | Mark | Keep | Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A pass."""

    name: str
    form: str
    columns: tuple[str, ...]  # to read
    floats: tuple[str, ...]  # of those: columns in which infinities become null
    actions: tuple[Action, ...]
    quarantine: str = ""  # a folder; empty: quarantined rows are only counted


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """A partition of a pass, with the rows that markers doomed in it."""

    partition: Partition
    doomed: tuple[tuple[str, np.ndarray], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """What a partition brings back."""

    counts: tuple[tuple[int, int, int], ...] = ()  # step, dropped, quarantined
    aggregates: tuple[Aggregate, ...] = ()
    marks: tuple[np.ndarray, ...] = ()
    shards: tuple[tuple[str, Shard], ...] = field(default=())  # by split


def pruned(name: str, form: str, actions: tuple[Action, ...], floats: set[str], quarantine: str = "") -> Job:
    """The pass with only the parts and columns that its outcome depends on."""
    needed: set[str] = set()
    kept: list[Action] = []
    for action in reversed(actions):
        if isinstance(action, Apply) and isinstance(action.part, FittedStep):
            if isinstance(action.part, Removal):
                raise AssertionError("a part changes columns or takes away rows")
            writes = written(action.part)
            if not writes & needed:
                continue  # what it drops is read by nothing after it
            needed = (needed - writes) | set(action.part.reads)
        else:
            needed |= _reads(action)
        kept.append(action)
    read = tuple(sorted(column for column in needed if not column.startswith("__")))
    return Job(
        name=name, form=form, columns=read, floats=tuple(sorted(floats & needed)), actions=tuple(reversed(kept)),
        quarantine=quarantine,
    )  # fmt: skip


def _reads(action: Action) -> set[str]:
    """The columns that an action reads itself."""
    if isinstance(action, Apply):
        return set(action.part.reads) if isinstance(action.part, Removal) else set()
    if isinstance(action, Assign):
        return set(action.rule.reads)
    if isinstance(action, Gather):
        return {column for need in action.needs for column in need.columns}
    if isinstance(action, Mark):
        return set(action.part.reads)
    return set(action.columns)
