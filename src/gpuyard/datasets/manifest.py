"""What a folder of prepared data holds: counts, hashes, columns and where it all came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gpuyard.datasets.columns import Column
from gpuyard.document import Settings
from gpuyard.units import BYTES

__all__ = ["Counted", "Lineage", "Manifest", "Shard", "SourceFile", "Split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One file of rows."""

    path: str  # below the folder
    rows: int  # samples, for packed tokens and images
    size_bytes: Annotated[int, BYTES]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The rows of one purpose."""

    name: str
    rows: int
    shards: tuple[Shard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What one step did to how many rows: rows_in = rows_out + dropped + quarantined."""

    step: str
    rows_in: int
    rows_out: int
    dropped: int
    quarantined: int
    columns_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file that was read, and its fingerprint."""

    path: str
    size_bytes: Annotated[int, BYTES]
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Where the data came from and what made it."""

    source: str
    base: str  # the folder that relative sources start from
    files: tuple[SourceFile, ...]
    spec: Settings  # as the file declares it
    code: str  # hash of the code of the steps
    gpuyard: str
    polars: str
    engine: str
    partitions: int
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A folder of prepared data."""

    version: str  # hash of data, code and spec
    kind: Literal["table", "tokens", "images"]
    splits: tuple[Split, ...]
    schema: tuple[Column, ...]  # of the shards
    source_schema: tuple[Column, ...]
    features: tuple[str, ...]
    counts: tuple[Counted, ...]
    lineage: Lineage
    label: str | None = None
    problem: Literal["classification", "regression", "language"] | None = None
    classes: tuple[str, ...] = ()
    quarantine: tuple[Shard, ...] = ()
    base: tuple[Shard, ...] = ()  # rows before the first step that learns, for folds
    sequence_tokens: int | None = None

    @property
    def rows_in(self) -> int:
        """Rows of the source."""
        return self.counts[0].rows_in if self.counts else 0

    @property
    def rows_out(self) -> int:
        """Rows that were left for the splits."""
        return self.counts[-1].rows_out if self.counts else 0

    @property
    def dropped(self) -> int:
        """Rows that steps took away."""
        return sum(step.dropped for step in self.counts)

    @property
    def quarantined(self) -> int:
        """Rows that were put apart, with the reason."""
        return sum(step.quarantined for step in self.counts)

    def split(self, name: str) -> Split | None:
        """The split of that name, or None."""
        return next((split for split in self.splits if split.name == name), None)
