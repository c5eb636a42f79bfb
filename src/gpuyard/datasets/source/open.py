"""A source, opened: its files as Parquet or Arrow, its columns, its partitions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.datasets.manifest import SourceFile
from gpuyard.datasets.source.contract import hold_to, read_contract
from gpuyard.datasets.source.files import find_files, fingerprint
from gpuyard.datasets.source.parts import Partition, cut, schema_of
from gpuyard.datasets.source.shipped import shipped
from gpuyard.datasets.source.stage import CHUNK_BYTES, Staged, stage, write_staged
from gpuyard.datasets.spec import DataSpec
from gpuyard.document import dump_json, load_json, read_text
from gpuyard.errors import InputError
from gpuyard.home import write_whole

__all__ = ["Source", "open_source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is read: files that any row can be read from, cut into partitions."""

    form: str  # parquet or arrow
    files: tuple[SourceFile, ...]
    schema: pl.Schema
    partitions: tuple[Partition, ...]
    quarantined: int = 0  # rows that could not be read
    quarantine: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows that can be read."""
        return sum(partition.rows for partition in self.partitions)


def open_source(spec: DataSpec, *, base: Path, work: Path, partition_bytes: float) -> Source:
    """The source of a pipeline; text formats are staged as Parquet in `work`. InputError for what cannot be read."""
    contract = base / spec.read.contract if spec.read.contract else None
    staged = Staged(paths=(), rows=0, quarantined=0, quarantine=())
    if spec.source.startswith("sklearn:"):
        form, staged = "parquet", _stage_shipped(spec.source, work)
        files: tuple[SourceFile, ...] = (_file(staged.paths[0], spec.source),)
        paths = staged.paths
    else:
        found = find_files(spec.source, spec.read, base)
        files = tuple(_file(path, path) for path in found.paths)
        form, paths = found.format, found.paths
        if form not in ("parquet", "arrow"):
            pinned = read_contract(contract) if contract else None
            staged = _staged(spec, base, work, files, int(min(CHUNK_BYTES, partition_bytes)), pinned)
            form, paths = "parquet", staged.paths
    if not paths:
        raise InputError.one(spec.source, "holds no rows", "give a source with data")
    schema = schema_of(paths, form)
    if contract is not None:
        hold_to(contract, schema)
    partitions = cut(paths, form, partition_bytes)
    if not partitions and not staged.quarantined:
        raise InputError.one(spec.source, "holds no rows", "give a source with data")
    return Source(
        form=form, files=files, schema=schema, partitions=partitions, quarantined=staged.quarantined,
        quarantine=staged.quarantine,
    )  # fmt: skip


def _file(path: str, name: str) -> SourceFile:
    """A file with its fingerprint."""
    size, mark = fingerprint(path)
    return SourceFile(path=name, size_bytes=size, fingerprint=mark)


def _staged(
    spec: DataSpec, base: Path, work: Path, files: tuple[SourceFile, ...], chunk_bytes: int, pinned: pl.Schema | None
) -> Staged:
    """The staged source, from an earlier run if its files are unchanged."""
    key = hashlib.sha256(repr((files, spec.read, chunk_bytes, pinned)).encode()).hexdigest()[:12]
    note, folder = work / f"staged-{key}.json", work / f"staged-{key}"
    if note.is_file():
        return load_json(read_text(note), Staged, str(note))
    done = stage(find_files(spec.source, spec.read, base), spec.read, folder, chunk_bytes, pinned)
    write_whole(note, dump_json(done))
    return done


def _stage_shipped(source: str, work: Path) -> Staged:
    """A data set of a package as one Parquet file."""
    frame = shipped(source)
    path = work / "staged" / "shipped.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_staged(frame, path)
    return Staged(paths=(str(path),), rows=frame.height, quarantined=0, quarantine=())
