"""Manifest of a prepared dataset: splits, columns, counts, hashes and lineage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.datasets.columns import Column
from gpuyard.document.frozen_json import FrozenJson
from gpuyard.units import BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """File of rows."""

    path: str  # relative to the dataset's folder
    rows: int  # samples, for packed tokens and images
    size_bytes: Annotated[int, BYTES]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows of train, validation or test."""

    name: str
    rows: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Row counts of one step: rows_in = rows_out + dropped + quarantined."""

    step: str
    rows_in: int
    rows_out: int
    dropped: int
    quarantined: int
    columns_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """Source file with its fingerprint."""

    path: str
    size_bytes: Annotated[int, BYTES]
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLineage:
    """Source files, settings and versions that produced a dataset."""

    source: str
    base: str  # folder that relative sources start from
    files: tuple[SourceFile, ...]
    spec: FrozenJson  # as the file declares it
    code: str  # hash of the code of the steps
    gpuyard: str
    polars: str
    engine: str
    partitions: int
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetManifest:
    """Contents of a prepared dataset."""

    version: str  # hash of data, code and spec
    kind: Literal["table", "tokens", "images"]
    splits: tuple[Split, ...]
    schema: tuple[Column, ...]  # of the shards
    source_schema: tuple[Column, ...]
    features: tuple[str, ...]
    counts: tuple[StepCounts, ...]
    lineage: DataLineage
    label: str | None = None
    problem: Literal["classification", "regression", "language"] | None = None
    classes: tuple[str, ...] = ()
    quarantine: tuple[Shard, ...] = ()
    base: tuple[Shard, ...] = ()  # training rows before the first fitted step, for folds
    other_files: tuple[Shard, ...] = ()  # the transform, facts of shards, tokenizers
    sequence_tokens: int | None = None

    @property
    def rows_in(self) -> int:
        return self.counts[0].rows_in if self.counts else 0

    @property
    def rows_out(self) -> int:
        return self.counts[-1].rows_out if self.counts else 0

    @property
    def dropped(self) -> int:
        return sum(step.dropped for step in self.counts)

    @property
    def quarantined(self) -> int:
        return sum(step.quarantined for step in self.counts)

    @property
    def files(self) -> tuple[Shard, ...]:
        """Every recorded file of the dataset, except quarantined rows."""
        shards = (shard for split in self.splits for shard in split.shards)
        return (*shards, *self.base, *self.other_files)

    def split(self, name: str) -> Split | None:
        return next((split for split in self.splits if split.name == name), None)
