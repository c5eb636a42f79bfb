"""`gpuyard data profile`: profile a data source."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from gpuyard.datasets.profile.make import profile
from gpuyard.datasets.profile.measures import DatasetProfile
from gpuyard.datasets.source.open import DataSource, open_source
from gpuyard.datasets.spec import DataSpec, ReadSpec

PARTITION_BYTES = 256e6


def _silent(done: int, total: int, what: str) -> None:
    pass


def profile_source(
    source: str,
    label: str | None = None,
    *,
    read: ReadSpec | None = None,
    base: Path | None = None,
    progress: Callable[[int, int, str], None] = _silent,
) -> DatasetProfile:
    """Profile a file, folder, glob, address or `sklearn:NAME` of any size."""
    spec = DataSpec(source=source, read=read or ReadSpec())
    progress(0, 1, "reading the source")
    with tempfile.TemporaryDirectory(prefix="gpuyard-profile-") as work:
        opened = open_source(
            spec, base=base or Path.cwd(), work=Path(work), partition_bytes=PARTITION_BYTES
        )
        return profile(
            source, _frame(opened), label, unreadable_count=opened.quarantined, on_progress=progress
        )


def _frame(source: DataSource) -> pl.LazyFrame:
    paths = list(
        dict.fromkeys(piece.path for partition in source.partitions for piece in partition.slices)
    )
    if not paths:
        return pl.LazyFrame(schema=source.schema)
    if source.file_format == "arrow":
        return pl.concat([pl.scan_ipc(path) for path in paths])
    return pl.scan_parquet(paths, glob=False)
