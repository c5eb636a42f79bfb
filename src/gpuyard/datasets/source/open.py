"""Open a source: its files as Parquet or Arrow, its columns, its partitions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from gpuyard.datasets.manifest import SourceFile
from gpuyard.datasets.source.contract import enforce_contract, read_contract
from gpuyard.datasets.source.files import SourceFiles, find_files, fingerprint
from gpuyard.datasets.source.partitions import Partition, make_partitions, schema_of
from gpuyard.datasets.source.sklearn_datasets import PREFIX, load_sklearn
from gpuyard.datasets.source.stage import CHUNK_BYTES, Staged, stage, write_staged
from gpuyard.datasets.spec import DataSpec, ReadSpec
from gpuyard.document.encode import dump_json, load_json
from gpuyard.document.read import read_text
from gpuyard.errors import InputError
from gpuyard.home import write_atomic


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """Opened source: files with random access to rows, cut into partitions."""

    file_format: str  # parquet or arrow
    files: tuple[SourceFile, ...]
    schema: pl.Schema
    partitions: tuple[Partition, ...]
    quarantined: int = 0  # rows that could not be read
    quarantine: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(partition.rows for partition in self.partitions)


def open_source(spec: DataSpec, *, base: Path, work: Path, partition_bytes: float) -> DataSource:
    """Open the source of a pipeline; other formats are staged as Parquet in `work`."""
    contract = base / spec.read.contract if spec.read.contract else None
    staged = Staged(paths=(), rows=0, quarantined=0, quarantine=())
    file_format = "parquet"
    if spec.source.startswith(PREFIX):
        staged = _stage_sklearn(spec.source, work)
        files: tuple[SourceFile, ...] = (_source_file(staged.paths[0], spec.source),)
        paths = staged.paths
    else:
        sources = find_files(spec.source, spec.read, base)
        files = tuple(_source_file(path, path) for path in sources.paths)
        if sources.format in ("parquet", "arrow"):
            file_format, paths = sources.format, sources.paths
        else:
            pinned = read_contract(contract) if contract else None
            chunk_bytes = int(min(CHUNK_BYTES, partition_bytes))
            staged = _stage_once(sources, files, spec.read, work, chunk_bytes, pinned)
            paths = staged.paths
    no_rows = InputError.one(spec.source, "holds no rows", "use a source with data")
    if not paths:
        raise no_rows
    schema = schema_of(paths, file_format)
    if contract is not None:
        enforce_contract(contract, schema)
    partitions = make_partitions(paths, file_format, partition_bytes)
    if not partitions and not staged.quarantined:
        raise no_rows
    return DataSource(
        file_format=file_format,
        files=files,
        schema=schema,
        partitions=partitions,
        quarantined=staged.quarantined,
        quarantine=staged.quarantine,
    )


def _source_file(path: str, name: str) -> SourceFile:
    size_bytes, digest = fingerprint(path)
    return SourceFile(path=name, size_bytes=size_bytes, fingerprint=digest)


def _stage_once(
    sources: SourceFiles,
    files: tuple[SourceFile, ...],
    read: ReadSpec,
    work: Path,
    chunk_bytes: int,
    pinned: pl.Schema | None,
) -> Staged:
    """Return the staged source, from an earlier run if its files are unchanged."""
    key = hashlib.sha256(repr((files, read, chunk_bytes, pinned)).encode()).hexdigest()[:12]
    note, folder = work / f"staged-{key}.json", work / f"staged-{key}"
    if note.is_file():
        return load_json(read_text(note), Staged, str(note))
    staged = stage(sources, read, folder, chunk_bytes, pinned)
    write_atomic(note, dump_json(staged))
    return staged


def _stage_sklearn(source: str, work: Path) -> Staged:
    frame = load_sklearn(source)
    path = work / "staged" / "sklearn.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_staged(frame, path)
    return Staged(paths=(str(path),), rows=frame.height, quarantined=0, quarantine=())
