"""`data profile`: from a source to its profile."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import polars as pl

from gpuyard.datasets.profile import Profile, profile
from gpuyard.datasets.source import Source, open_source
from gpuyard.datasets.spec import DataSpec, ReadSpec

__all__ = ["profile_source"]

PARTITION_BYTES = 256e6


def _silent(done: int, total: int, what: str) -> None:
    """Tells nobody."""


def profile_source(
    source: str,
    label: str | None = None,
    *,
    read: ReadSpec | None = None,
    base: Path | None = None,
    progress: Callable[[int, int, str], None] = _silent,
) -> Profile:
    """The profile of a file, folder, glob, address or `sklearn:NAME`, of any size."""
    spec = DataSpec(source=source, read=read or ReadSpec())
    progress(0, 1, "reading the source")
    with tempfile.TemporaryDirectory(prefix="gpuyard-profile-") as work:
        opened = open_source(spec, base=base or Path.cwd(), work=Path(work), partition_bytes=PARTITION_BYTES)
        return profile(source, _frame(opened), label, unreadable_count=opened.quarantined, progress=progress)


def _frame(source: Source) -> pl.LazyFrame:
    """All rows of a source, not read yet."""
    paths = list(dict.fromkeys(piece.path for partition in source.partitions for piece in partition.slices))
    if not paths:
        return pl.LazyFrame(schema=source.schema)
    if source.form == "arrow":
        return pl.concat([pl.scan_ipc(path) for path in paths])
    return pl.scan_parquet(paths, glob=False)
